"""The share of one process in the batches of a run that several train together."""

from collections.abc import Sequence
from typing import Protocol

from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.errors import UsageError


class PartedBatches(Protocol):
    """A run's batches by number, of which single parts can be made."""

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch, or only those asked for."""


class OwnParts:
    """Every n-th part of each batch for one of n processes, so that a batch is the same for any n.

    A process takes as many parts as each of the others, so that all can compute side by side.
    """

    def __init__(self, batches: PartedBatches, *, accumulate: int, crew: Crew) -> None:
        if accumulate % crew.size:
            raise UsageError(
                f"a step has {accumulate} parts, which {crew.size} processes cannot share evenly; "
                f"make --accumulate a multiple of {crew.size}"
            )
        self.batches = batches
        self.parts = range(crew.rank, accumulate, crew.size) if crew.size > 1 else None

    def at(self, step: int) -> list[Batch]:
        """Return the own parts of one step's batch."""
        return self.batches.at(step, self.parts)
