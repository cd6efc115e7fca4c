"""Making batches ahead of the step that needs them, in as many processes as wanted."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch.utils.data import DataLoader, Dataset

from bertworks.core.batch import Batch


class Batches(Protocol):
    """A run's batches by number."""

    def at(self, step: int) -> list[Batch]:
        """Return the parts of one step's batch."""


def load(batches: Batches, *, first: int, last: int, workers: int) -> Iterator[list[Batch]]:
    """Yield the batches of the steps from first to last, in order, whatever the workers."""
    if workers == 0:
        return map(batches.at, range(first, last))
    return iter(
        DataLoader(
            _ByStep(batches),
            sampler=range(first, last),
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="fork",
            collate_fn=_as_they_are,
            generator=torch.Generator(),
        )
    )


class _ByStep(Dataset[list[Batch]]):
    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __getitem__(self, step: int) -> list[Batch]:
        return self.batches.at(step)


def _as_they_are(batches: list[Batch]) -> list[Batch]:
    return batches
