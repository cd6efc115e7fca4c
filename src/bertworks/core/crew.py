"""The processes that train one model together: what they tell each other, and when one is lost."""

import gc
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from bertworks.core.device import ALONE, Seat, find_seat
from bertworks.core.errors import BertworksError, TrainingError
from bertworks.core.progress import mute, say

A = TypeVar("A")
PATIENCE = 600.0  # seconds
BUCKET = 1 << 24  # numbers that are added up at once


class Crew:
    """The processes of a run as one of them sees them; one alone needs no network.

    All must call the same methods in the same order.
    """

    def __init__(
        self, seat: Seat = ALONE, *, patience: float = PATIENCE, group: Any = None
    ) -> None:
        self.rank = seat.rank
        self.size = seat.size
        self.patience = patience  # seconds in which the others must answer
        self._group = group

    @property
    def is_first(self) -> bool:
        """Whether this is the process that decides and writes."""
        return self.rank == 0

    def own(self, count: int) -> list[int]:
        """Return the numbers of this process's parts, if each has so many."""
        return list(range(self.rank, count * self.size, self.size))

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of all processes' numbers."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def largest(self, number: float) -> float:
        """Return the largest of all processes' numbers."""
        return self._reduce([number], dist.ReduceOp.MAX)[0]

    def agree(self, value: A) -> A:
        """Return the first process's value, JSON data, whatever the others have."""
        return self._exchange(value)[0]

    def gather(self, value: A) -> list[A]:
        """Return the values of all processes, JSON data, in their order."""
        return self._exchange(value)

    def lead(self, work: Callable[[], A]) -> A:
        """Let the first process do some work; its result, or its error, is that of all."""
        found: Any = None
        if self.is_first:
            try:
                found = work()
            except Exception as error:
                self.agree(_failure(error))
                raise
        told = self.agree({"found": found})
        if "error" in told:
            failed = BertworksError(told["error"])
            failed.exit_code = told["exit_code"]
            raise failed
        return told["found"]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Put the sums of all processes' tensors in their place."""
        if self.size == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            dist.all_reduce(flat, group=self._group)
            sums = flat.split([tensor.numel() for tensor in bucket])
            for tensor, total in zip(bucket, sums, strict=True):
                tensor.copy_(total.view_as(tensor))

    def aside(self) -> "Crew":
        """Return the same processes for talk that goes on in another thread."""
        if self.size == 1:
            return self
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.patience))
        return Crew(Seat(self.rank, self.size), patience=self.patience, group=group)

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """End this process if work that the others take part in is not done in time.

        A GPU that waits for another cannot be called back.
        """
        if self.size == 1:
            yield
            return
        alarm = Timer(self.patience, self._give_up)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _exchange(self, value: A) -> list[A]:
        """Tell all processes a value; what comes over the network is JSON, never unpickled."""
        if self.size == 1:
            return [value]
        own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(own)]), group=self._group)
        longest = max(int(size) for size in sizes)
        told = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(told, functional.pad(own, (0, longest - len(own))), group=self._group)
        texts = [bytes(part[: int(size)].tolist()) for part, size in zip(told, sizes, strict=True)]
        return [json.loads(text) for text in texts]

    def _reduce(self, numbers: Sequence[float], how: Any) -> list[float]:
        if self.size == 1:
            return list(numbers)
        told = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(told, how, group=self._group)
        return told.tolist()

    def _give_up(self) -> None:
        waited = f"has waited {self.patience:g} s for the others"
        say(f"bertworks: {_lost(self.rank, self.size, waited)}", is_error=True)
        os._exit(1)


@contextmanager
def joined(*, patience: float = PATIENCE) -> Iterator[Crew]:
    """Meet the processes that torchrun has started beside this one, if there are any."""
    seat = find_seat()
    if seat.size == 1:
        yield Crew()
        return
    if seat.rank:
        mute()
    has_gpu, is_well = torch.cuda.is_available(), False
    try:
        backend = "cpu:gloo,cuda:nccl" if has_gpu else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=patience))
        crew = Crew(seat, patience=patience)
        yield crew
        crew.gather(seat.rank)  # all have come to their end
        is_well = True
    except RuntimeError as error:
        if not _is_of_network(error):
            raise
        found = f"cannot reach the others ({_reason(error)})"
        raise TrainingError(_lost(seat.rank, seat.size, found)) from error
    finally:
        gc.collect()  # what still holds a group would end it after all else, and with a crash
        if dist.is_initialized() and (is_well or not has_gpu):
            dist.destroy_process_group()


def _failure(error: Exception) -> dict[str, Any]:
    """Return what others are told of an error, so that they end as the one in which it rose."""
    if isinstance(error, BertworksError):
        return {"error": str(error), "exit_code": error.exit_code}
    found = f"process 0 failed ({type(error).__name__}: {error}); see what it said"
    return {"error": found, "exit_code": BertworksError.exit_code}


def _lost(rank: int, size: int, found: str) -> str:
    return (
        f"process {rank} of {size} {found}, so one of them is lost or stuck; see what it said "
        "last, then start all again with --resume auto"
    )


def _is_of_network(error: RuntimeError) -> bool:
    """Tell whether an error comes from the talk with other processes; Gloo's have no own type."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()


def _reason(error: RuntimeError) -> str:
    """Return the first sentence of an error, without the place in the source that stands before."""
    first = str(error).splitlines()[0].split(". ")[0]
    return re.sub(r"^\[[^]]*\]\s*", "", first).rstrip(".")


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors in lists that are neither long nor made of too many copies."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and size + tensor.numel() > BUCKET:
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket
