"""Signals that ask for an end, kept until the step at hand is over."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bertworks.core.processes import ASK_FOR_END


@contextmanager
def heeded_signals(*, is_nested: bool = False) -> Iterator[list[int]]:
    """Collect the signals that ask for an end, instead of dying of them.

    Work inside another that heeds them, or in a thread, collects none. What is ignored stays so:
    `nohup` does that to the end of a connection.
    """
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    heeded = [name for name in ASK_FOR_END if signal.getsignal(name) != signal.SIG_IGN]
    names = heeded if is_main and not is_nested else []
    before = [signal.signal(name, lambda number, _: received.append(number)) for name in names]
    try:
        yield received
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
