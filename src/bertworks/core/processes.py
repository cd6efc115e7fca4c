"""Work that is spread over processes and comes back in order."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from bertworks.core.errors import BertworksError

A = TypeVar("A")
B = TypeVar("B")
IN_FLIGHT = 3  # per process: memory stays bounded when reading is faster than the work


# What a scheduler, a person at a terminal and the end of a connection send to all processes.
ASK_FOR_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def map_in_order(
    make_work: Callable[[], Callable[[A], B]], items: Iterable[A], *, workers: int | None, what: str
) -> Iterator[B]:
    """Yield the work's result for each item, in order; every process makes its own worker first.

    Without a number there are as many processes as cores that this one may use; one works in this
    process. `what` is what they do, for the message when one dies.
    """
    workers = workers or num_cores()
    if workers == 1:
        yield from map(make_work(), items)
        return
    waiting: deque[Future[B]] = deque()
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start, (make_work,))
    try:
        with pool:
            for item in items:
                waiting.append(pool.submit(_do, item))
                if len(waiting) >= IN_FLIGHT * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BertworksError(
            f"a process that {what} died, perhaps for lack of memory; use fewer --workers"
        ) from error


def num_cores() -> int:
    """Return how many cores this process may use: all, or those that `taskset` chose."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_chunks(items: Iterable[A], *, size_of: Callable[[A], int], least: int) -> Iterator[list[A]]:
    """Yield items in lists, each as short as its size allows: enough for the way to a process."""
    chunk: list[A] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += size_of(item)
        if size >= least:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


_work: Callable[[Any], Any] | None = None  # in a working process only


def _start(make_work: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    end_with_parent()
    _work = make_work()


def end_with_parent() -> None:
    """End this process, whatever it does, when the one that started it is gone."""
    Thread(target=_await_end_of_parent, daemon=True).start()


def _await_end_of_parent() -> None:
    """Wait for the end of the process that started this one; a killed one cannot say goodbye."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def end_with_input() -> None:
    """End this process, whatever it does, when whoever holds its standard input is gone."""
    Thread(target=_await_end_of_input, daemon=True).start()


def _await_end_of_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)
