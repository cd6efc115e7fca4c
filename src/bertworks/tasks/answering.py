"""The one way from examples to answers, used by scoring and prediction alike."""

from collections.abc import Sequence

import numpy as np
import torch

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import DataError, TrainingError
from bertworks.data.example_batches import length_sorted_batches
from bertworks.data.examples import Example
from bertworks.data.packing import Features
from bertworks.tasks.task import Answer, Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

BATCH_TOKENS = 4096


def answer(
    model: TaskModel,
    task: Task,
    windows: Sequence[list[Features]],
    *,
    tokenizer: Tokenizer,
    machine: Machine,
) -> list[Answer]:
    """Return one answer per example, in order, from the windows of each."""
    flat = [window for example in windows for window in example]
    rows = _logit_rows(model, task, flat, machine)
    answers, first = [], 0
    for example in windows:
        own = rows[first : first + len(example)]
        answers.append(task.decode(np.concatenate(own), tokenizer))
        first += len(example)
    return answers


def windows_of(
    task: Task,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    longest: int,
    where: str = "input",
) -> list[list[Features]]:
    """Return the windows of every example; one that the task cannot read is named by its line."""
    windows = []
    for example in examples:
        try:
            windows.append(task.features(example, tokenizer, longest=longest))
        except DataError as error:
            raise DataError(f"{where} {example.line}: {error}") from error
    return windows


@torch.inference_mode()
def _logit_rows(
    model: TaskModel, task: Task, windows: Sequence[Features], machine: Machine
) -> list[np.ndarray]:
    """Return the logits of each window, computed in batches of like length."""
    was_training = model.training
    model.eval()
    rows: list[np.ndarray] = [np.empty(0)] * len(windows)
    for places, batch in length_sorted_batches(windows, budget=BATCH_TOKENS):
        moved = batch.to(machine.device)
        with machine.autocast():
            logits = model.logits(moved, task.name)
        if not logits.isfinite().all():
            raise TrainingError(
                "the network's answers are no finite numbers, so its weights are broken; "
                "train it again with a lower --lr"
            )
        for place, part in zip(places, _by_text(logits, batch, task.name), strict=True):
            rows[place] = part
    model.train(was_training)
    return rows


def _by_text(logits: torch.Tensor, batch: Batch, name: str) -> list[np.ndarray]:
    """Cut logit rows into those of each text."""
    whole = logits.float().cpu().numpy()
    at = batch.targets[name].at
    if at is None:
        return list(whole[:, None])
    ends = np.searchsorted(at.numpy(), batch.layout.starts.numpy()[1:])
    return np.split(whole, ends[:-1])
