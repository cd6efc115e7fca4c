"""Scores: of a task's answers against the gold, and of pre-training on held-out text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertworks.core.batch import Batch, Target
from bertworks.core.device import Machine
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Example
from bertworks.data.packing import Features
from bertworks.evaluation.statistics import Interval, mean_interval
from bertworks.tasks.answering import answer
from bertworks.tasks.task import Answer, Learner, Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.plan import Evaluation


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
    model: Learner,
    batches: Sequence[Batch],
    *,
    machine: Machine,
    weights: Mapping[str, float] | None = None,
) -> Evaluation:
    """Return each objective's loss and accuracy on held-out text; the weighted loss is to fall.

    An objective that the text has nothing for is left out. Where a generator makes the task, the
    loss of finding what it replaced rises as it gets better: there is no score.
    """
    was_training = model.training
    model.train(False)
    torch.manual_seed(0)  # a generator draws the same each time
    found = {name: _Tally() for name in model.tasks}
    for batch in batches:
        with machine.autocast():
            for name, (logits, target) in model.judged(batch.to(machine.device)).items():
                found[name].add(logits, target, loss=float(model.tasks[name].loss(logits, target)))
    model.train(was_training)
    found = {name: tally for name, tally in found.items() if tally.count}
    metrics = {"loss": sum(tally.mean_loss for tally in found.values())}
    for name, tally in found.items():
        metrics |= {f"{name}_{metric}": value for metric, value in tally.metrics().items()}
    if "replaced_token" in found:
        return Evaluation(None, metrics)
    weighted = ((weights or {}).get(name, 1.0) * tally.mean_loss for name, tally in found.items())
    return Evaluation(-sum(weighted), metrics)


class _Tally:
    """What one objective came to on all batches."""

    def __init__(self) -> None:
        self.loss, self.hits, self.count, self.is_binary = 0.0, 0, 0.0, False
        self.found = torch.zeros(2, 2, dtype=torch.long)  # by gold and by answer, of no and yes

    def add(self, logits: Tensor, target: Target, *, loss: float) -> None:
        """Count one batch; a single logit says yes above zero."""
        asked = target.values != IGNORE
        gold = target.values[asked]
        self.is_binary = logits.shape[-1] == 1
        answers = (logits[:, 0] > 0).long() if self.is_binary else logits.argmax(-1)
        self.hits += int((answers[asked] == gold).sum())
        if self.is_binary:
            cells = torch.bincount(2 * gold + answers[asked], minlength=4).cpu()
            self.found += cells.view(2, 2)
        self.loss += loss
        self.count += target.count

    @property
    def mean_loss(self) -> float:
        return self.loss / self.count

    def metrics(self) -> dict[str, float]:
        """Return the scores; of yes and no also how often yes was right, and found."""
        scores = {"loss": self.mean_loss, "accuracy": self.hits / self.count}
        if self.is_binary:
            right, said, there = (
                float(count)
                for count in (self.found[1, 1], self.found[:, 1].sum(), self.found[1].sum())
            )
            scores |= {
                "share": there / self.count,
                "precision": right / max(said, 1),
                "recall": right / max(there, 1),
                "f1": 2 * right / max(said + there, 1),
            }
        return scores
