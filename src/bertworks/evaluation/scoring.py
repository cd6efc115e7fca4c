"""Scores: of a task's answers against the gold, and of pre-training on held-out text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Example
from bertworks.data.packing import Features
from bertworks.evaluation.statistics import Interval, mean_interval
from bertworks.tasks.answering import answer
from bertworks.tasks.task import Answer, Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.loop import Evaluation


@dataclass(frozen=True)
class Scores:
    """What a model answered on a data set, and how good that is."""

    answers: list[Answer]
    metrics: dict[str, float]
    accuracy: Interval | None  # None: too few examples, or answers that are no labels


def score_answers(task: Task, answers: list[Answer], examples: Sequence[Example]) -> Scores:
    """Score answers against the labels of their examples."""
    pairs = list(zip(answers, examples, strict=True))
    correct = [answer["label"] == example.label for answer, example in pairs if "label" in answer]
    interval = mean_interval(np.array(correct)) if len(correct) > 1 else None
    return Scores(answers, task.metrics(answers, examples), interval)


def evaluate_task(
    model: TaskModel,
    task: Task,
    examples: Sequence[Example],
    windows: Sequence[list[Features]],
    *,
    tokenizer: Tokenizer,
    machine: Machine,
) -> Evaluation:
    """Score a model in the middle of fine-tuning; the task's first metric is to improve."""
    answers = answer(model, task, windows, tokenizer=tokenizer, machine=machine)
    metrics = task.metrics(answers, examples)
    return Evaluation(next(iter(metrics.values())), metrics)


@torch.inference_mode()
def evaluate_objectives(
    model: TaskModel, batches: Sequence[Batch], *, machine: Machine
) -> Evaluation:
    """Return each objective's loss and accuracy on held-out text; the total loss is to fall."""
    was_training = model.training
    model.eval()
    losses = dict.fromkeys(model.tasks, 0.0)
    hits = dict.fromkeys(model.tasks, 0.0)
    counts = dict.fromkeys(model.tasks, 1e-9)
    for batch in batches:
        moved = batch.to(machine.device)
        with machine.autocast():
            hidden = model.encoder(moved)
            for name, task in model.tasks.items():
                target = moved.targets[name]
                logits = model.heads[name](hidden, moved, model.encoder)
                losses[name] += float(task.loss(logits, target))
                hits[name] += float(_num_hits(logits, target.values))
                counts[name] += target.count
    model.train(was_training)
    metrics = {"loss": sum(losses[name] / counts[name] for name in losses)}
    for name in model.tasks:
        metrics[f"{name}_loss"] = losses[name] / counts[name]
        metrics[f"{name}_accuracy"] = hits[name] / counts[name]
    return Evaluation(-metrics["loss"], metrics)


def _num_hits(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return ((logits.argmax(-1) == values) & (values != IGNORE)).sum()
