"""Making batches ahead of the step that needs them, in as many processes as wanted."""

import itertools
import signal
import threading
from collections.abc import Generator, Iterator
from multiprocessing import active_children
from typing import Protocol, Self

import torch
from torch.utils.data import DataLoader, Dataset

from bertworks.core.batch import Batch
from bertworks.core.errors import BertworksError
from bertworks.core.processes import ASK_FOR_END, end_with_parent


class Batches(Protocol):
    """A run's batches by number."""

    def at(self, step: int) -> list[Batch]:
        """Return the parts of one step's batch."""


def load(
    batches: Batches, *, first: int, last: int | None, workers: int
) -> Generator[list[Batch], None, None]:
    """Yield the batches of the steps from first to last, in order; closing ends the workers.

    Without a last one they go on for ever.
    """
    wanted = itertools.count(first) if last is None else range(first, last)
    if workers == 0:
        yield from map(batches.at, wanted)
        return
    others = active_children()
    loader = DataLoader(
        _ByStep(batches),
        sampler=wanted,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork",
        collate_fn=_as_they_are,
        worker_init_fn=_depend_on_the_loop,
        generator=torch.Generator(),
    )
    made = _start(loader)
    started = [process for process in active_children() if process not in others]
    try:
        while (parts := _next(made)) is not None:
            if isinstance(parts, Exception):
                raise parts
            yield parts
    finally:
        del made  # asks the workers to end
        for process in started:  # one that is stuck would keep this process from ending
            process.kill()


class Ahead:
    """Batches in their order, the next of which can be fetched before it is asked for.

    What fails then is raised when the batch is asked for.
    """

    def __init__(self, made: Iterator[list[Batch]]) -> None:
        self._made = made
        self._fetched: list[list[Batch] | Exception | None] = []

    def fetch(self) -> None:
        """Take the next batch from where it is made."""
        if not self._fetched:
            try:
                self._fetched.append(next(self._made, None))
            except Exception as error:
                self._fetched.append(error)

    def __iter__(self) -> Self:
        """Return itself: batches are given once."""
        return self

    def __next__(self) -> list[Batch]:
        """Return the next batch."""
        self.fetch()
        parts = self._fetched.pop()
        if isinstance(parts, Exception):
            raise parts
        if parts is None:
            raise StopIteration
        return parts


class _ByStep(Dataset[list[Batch] | Exception]):
    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __getitem__(self, step: int) -> list[Batch] | Exception:
        """Return an error as a value: the library would wrap its sentence in a traceback."""
        try:
            return self.batches.at(step)
        except Exception as error:
            return error


def _start(loader: DataLoader[list[Batch] | Exception]) -> Iterator[list[Batch] | Exception]:
    """Start the workers; a death is told by `_next`, not raised wherever the loop stands then."""
    before = signal.getsignal(signal.SIGCHLD)
    made = iter(loader)
    if threading.current_thread() is threading.main_thread():  # elsewhere nobody has changed it
        signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)
    return made


def _next(made: Iterator[list[Batch] | Exception]) -> list[Batch] | Exception | None:
    """Return what comes next, a worker's death as an error that holds on to nothing.

    It is none of training: no weights came apart, and another seed would not help.
    """
    try:
        return next(made, None)
    except (RuntimeError, EOFError, OSError) as error:
        reason = str(error) or "a worker is gone"
        remedy = "free memory or use fewer --workers"
        return BertworksError(f"making batches failed: {reason}; {remedy}")


def _as_they_are(parts: list[Batch] | Exception) -> list[Batch] | Exception:
    return parts


def _depend_on_the_loop(worker: int) -> None:
    """Ignore what a terminal or a scheduler sends to all processes; end when the loop's does.

    A worker that lives longer keeps open what connects its process with others.
    """
    for name in ASK_FOR_END:
        signal.signal(name, signal.SIG_IGN)
    end_with_parent()
