"""Memory that was freed, given back to the system: the C library keeps it for later by itself.

Batches of ever other shapes leave holes in its heap, so that a process would hold several times
what it uses. Giving back after each batch would cost a quarter of the speed, now and then hardly
anything.
"""

import ctypes
import time
from collections.abc import Callable
from functools import cache

EVERY = 10.0  # seconds


class Housekeeping:
    """Gives memory back when it was not done for a while."""

    def __init__(
        self, give_back: Callable[[], None] | None = None, *, every: float = EVERY
    ) -> None:
        self._give_back = give_back or give_back_freed
        self._every = every
        self._last = time.monotonic()

    def look(self) -> None:
        """Give back what is freed, if it is time to."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._give_back()
            self._last = time.monotonic()


def give_back_freed() -> None:
    """Give all memory that is free to the system, where the C library can do that."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
