"""Work that a thread does ahead of the work that needs it."""

from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any, TypeVar

Item = TypeVar("Item")
MOST_AHEAD = 2  # items that wait to be used


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items in order, the next ones made by a thread meanwhile.

    What fails there is raised in its place, behind all items that were made before.
    """
    made: Queue[Any] = Queue(MOST_AHEAD)
    stopped = Event()
    # Nobody waits for a thread that waits for standard input.
    Thread(target=_make, args=(items, made, stopped), daemon=True).start()
    try:
        while not isinstance(item := made.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        _empty(made)


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def _make(items: Iterable[Item], made: Queue[Any], stopped: Event) -> None:
    end = _End()
    try:
        for item in items:
            made.put(item)
            if stopped.is_set():
                return
    except BaseException as error:  # an interrupt too is for whoever uses the items
        end = _End(error)
    made.put(end)


def _empty(made: Queue[Any]) -> None:
    """Make room for the item that the thread may be waiting to add."""
    try:
        while True:
            made.get_nowait()
    except Empty:
        return
