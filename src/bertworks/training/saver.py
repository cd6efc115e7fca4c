"""Saving while the training goes on: tensors are copied at once, files are written in a thread."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from bertworks.training.run import Counters, Run, Tensors

MOST_PENDING = 2  # a checkpoint and the best weights, so that memory holds no more copies


class Saver:
    """Writes the checkpoints and the best weights of a run in their order, behind its back."""

    def __init__(self, run: Run, *, in_background: bool) -> None:
        self.run = run
        self._writer = ThreadPoolExecutor(max_workers=1) if in_background else None
        self._pending: list[Future[None]] = []
        self._checkpoint: Future[None] | None = None  # the last one

    def save(self, state: dict[str, Tensors], counters: Counters) -> None:
        """Write a checkpoint, after the one before; its error may come to light in `check`."""
        if self._checkpoint is not None:
            self._checkpoint.result()
        if not self.run.is_writer:
            return
        copied = {name: self._copy(tensors) for name, tensors in state.items()}
        self._checkpoint = self._do(self.run.write, copied, counters)

    def save_best(self, weights: Tensors, step: int) -> None:
        """Write the best weights so far."""
        if not self.run.crew.is_first:
            return
        self._do(self.run.write_best, self._copy(weights), step)

    def check(self) -> None:
        """Raise what went wrong in the background until now."""
        while self._pending and self._pending[0].done():
            self._pending.pop(0).result()

    @property
    def is_busy(self) -> bool:
        """Whether something is still being written."""
        return any(not pending.done() for pending in self._pending)

    def wait(self) -> None:
        """Return when all is on the disk."""
        while self._pending:
            self._pending.pop(0).result()

    def _do(self, write: Callable[..., None], *args: Any) -> Future[None] | None:
        if self._writer is None:
            write(*args)
            return None
        while len(self._pending) >= MOST_PENDING:
            self._pending.pop(0).result()
        self._pending.append(self._writer.submit(write, *args))
        return self._pending[-1]

    def _copy(self, tensors: Tensors) -> Tensors:
        if self._writer is None:
            return tensors
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Finish the writing; its error does not hide the one that ended the training."""
        try:
            if error is None:
                self.wait()
        finally:
            if self._writer is not None:
                self._writer.shutdown()
