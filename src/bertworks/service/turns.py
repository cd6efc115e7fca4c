"""Turns in the loop: what is begun or answered goes on a few at a time, the door looks in between.

A batch ends for all of its requests at once, and leaves room for as many others. Each takes the
loop a fraction of a millisecond, a hundred in a row so long that who is to be turned away waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

AT_ONCE = 4  # between two looks at what the clients sent


class Turns:
    """Work that waits for its turn in the loop, first come, first served."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_expected = False  # the loop will come to the next turn

    def add(self, work: Callable[[], object]) -> None:
        """Let some work wait; only in the loop itself."""
        self._waiting.append(work)
        if not self._is_expected:
            self._expect()

    def _expect(self) -> None:
        self._is_expected = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_expected = False
        try:
            for _ in range(min(self._at_once, len(self._waiting))):
                self._waiting.popleft()()
        finally:
            if self._waiting and not self._is_expected:
                self._expect()


def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    """Return the turns of a loop, the same for all who ask."""
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns()
    return turns


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
