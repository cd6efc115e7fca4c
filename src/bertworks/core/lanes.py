"""Work side by side on the cores of a CPU, each piece of it by one thread.

Threads that share a product of small matrices wait at its end for the slowest of them, and a
forward is hundreds of products. Whole forwards side by side wait for each other once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from threading import Thread, local
from typing import TypeVar
from weakref import finalize

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
Asked = tuple[Future[None], Callable[[], None]]


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what becomes of each item, in order; as many are worked at as torch has threads.

    The work must not change what its items share. What fails is raised when nothing runs any more.
    """
    num_threads = torch.get_num_threads()
    num_lanes = min(num_threads, len(items))
    if num_lanes < 2:
        return [work(item) for item in items]
    todo: SimpleQueue[tuple[int, Item]] = SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    found: dict[int, Result] = {}

    def go_on() -> None:
        while not todo.empty():
            try:
                place, item = todo.get_nowait()
            except Empty:  # another was faster
                return
            found[place] = work(item)

    torch.set_num_threads(1)
    others = [lane.begin(go_on) for lane in _own_lanes(num_lanes - 1)]
    try:
        go_on()
    finally:
        wait(others)
        torch.set_num_threads(num_threads)
    for other in others:
        other.result()
    return [found[place] for place in range(len(items))]


class _Lane:
    """A thread that waits for work; it ends when nobody knows the lane any more."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Asked | None] = SimpleQueue()
        finalize(self, self._asked.put, None)
        # Nobody waits for it at the end: it may be lost in a product, as whoever asked may be.
        Thread(target=_work_off, args=(self._asked,), name="bertworks-lane", daemon=True).start()

    def begin(self, work: Callable[[], None]) -> Future[None]:
        """Let the thread do some work."""
        done: Future[None] = Future()
        self._asked.put((done, work))
        return done


class _Own(local):
    """The lanes of one thread, which have its priority."""

    def __init__(self) -> None:
        self.lanes: list[_Lane] = []


_own = _Own()


def _own_lanes(count: int) -> list[_Lane]:
    """Return so many lanes of the thread that asks; they are kept for it."""
    _own.lanes += [_Lane() for _ in range(count - len(_own.lanes))]
    return _own.lanes[:count]


def _work_off(asked: SimpleQueue[Asked | None]) -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as in prepare(): each thread has a setting of its own
    while (one := asked.get()) is not None:
        done, work = one
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        del one, done, work  # nothing is kept while there is nothing to do
