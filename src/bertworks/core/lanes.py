"""Work side by side on the cores of a CPU, each piece of it by one thread.

Threads that share a product of small matrices wait at its end for the slowest of them, and a
forward is hundreds of products. Whole forwards side by side wait for each other once.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, local
from typing import TypeVar
from weakref import finalize

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
Asked = tuple[Future[None], Callable[[], None]]


def own_threads() -> int:
    """Return how many threads torch has for the thread that asks.

    Torch lets a new thread begin with the number that was set last, whoever did so. Where that is
    the one of somebody who works side by side now, it gets the number that he had before.
    """
    with _lock:
        if not _own.is_known and _kept and torch.get_num_threads() == 1:
            torch.set_num_threads(max(_kept))
        _own.is_known = True
        return torch.get_num_threads()


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what becomes of each item, in order; as many are worked at as torch has threads.

    The work must not change what its items share. Where one fails no other is begun, and that is
    raised when nothing runs any more.
    """
    num_lanes = min(own_threads(), len(items))
    if num_lanes < 2:
        return [work(item) for item in items]
    todo: SimpleQueue[tuple[int, Item]] = SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    found: dict[int, Result] = {}
    is_over = Event()

    def go_on() -> None:
        try:
            while not is_over.is_set() and (one := _next(todo)) is not None:
                place, item = one
                found[place] = work(item)
        except BaseException:
            is_over.set()
            raise

    with _one_thread():
        others = [lane.begin(go_on) for lane in _own_lanes(num_lanes - 1)]
        try:
            go_on()
        finally:
            wait(others)
    while others:  # a name for what failed would hold its batch, for it knows this frame
        others.pop().result()
    return [found[place] for place in range(len(items))]


def _next(todo: SimpleQueue[Result]) -> Result | None:
    try:
        return todo.get_nowait()
    except Empty:
        return None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch have one thread for the thread that asks, and then as many as before."""
    before = torch.get_num_threads()
    with _lock:
        _kept.append(before)
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
        with _lock:
            _kept.remove(before)


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
        self.is_known = False  # how many threads it has is its own number


_own = _Own()
_lock = Lock()
_kept: list[int] = []  # how many threads those had who work side by side now


def _begin_anew() -> None:
    """Forget the threads of the process that this one was forked from: none of them is here."""
    _own.lanes = []
    _lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_begin_anew
    )


def _own_lanes(count: int) -> list[_Lane]:
    """Return so many lanes of the thread that asks; they are kept for it."""
    _own.lanes += [_Lane() for _ in range(count - len(_own.lanes))]
    return _own.lanes[:count]


def _work_off(asked: SimpleQueue[Asked | None]) -> None:
    torch.set_num_threads(1)
    _own.is_known = True
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
