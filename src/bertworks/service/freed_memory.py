"""Memory that was freed, given back to the system: the C library keeps it for later by itself.

Batches of ever other shapes leave holes in its heap, so that a process would hold several times
what it uses. Giving back after each batch would cost a quarter of the speed, now and then hardly
anything.
"""

import time
from collections.abc import Callable

from bertworks.core.freed_memory import give_back

EVERY = 10.0  # seconds


class Housekeeping:
    """Gives memory back when it was not done for a while."""

    def __init__(
        self, give_back_freed: Callable[[], None] | None = None, *, every: float = EVERY
    ) -> None:
        self._give_back = give_back_freed or give_back
        self._every = every
        self._last = time.monotonic()

    def look(self) -> None:
        """Give back what is freed, if it is time to."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._give_back()
            self._last = time.monotonic()
