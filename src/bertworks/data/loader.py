"""Making batches ahead of the step that needs them, in as many processes as wanted."""

import signal
from collections.abc import Generator
from typing import Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from bertworks.core.batch import Batch


class Batches(Protocol):
    """A run's batches by number."""

    def at(self, step: int) -> list[Batch]:
        """Return the parts of one step's batch."""


def load(
    batches: Batches, *, first: int, last: int, workers: int
) -> Generator[list[Batch], None, None]:
    """Yield the batches of the steps from first to last, in order, whatever the workers."""
    if workers == 0:
        yield from map(batches.at, range(first, last))
        return
    yield from DataLoader(
        _ByStep(batches),
        sampler=range(first, last),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork",
        collate_fn=_as_they_are,
        worker_init_fn=_leave_signals_to_the_loop,
        generator=torch.Generator(),
    )


class _ByStep(Dataset[list[Batch]]):
    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __getitem__(self, step: int) -> list[Batch]:
        return self.batches.at(step)


def _as_they_are(batches: list[Batch]) -> list[Batch]:
    return batches


def _leave_signals_to_the_loop(worker: int) -> None:
    """Ignore what a terminal or a scheduler sends to all processes; the loop ends the workers."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)
