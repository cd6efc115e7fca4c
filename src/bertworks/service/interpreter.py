"""How Python works while a service does: threads change places quickly, garbage waits longer."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN = 0.0002  # seconds for which a thread keeps the interpreter when others want it
SELDOM = 20_000  # objects more than before, after which garbage is looked for


@contextmanager
def lent_interpreter() -> Iterator[None]:
    """Let threads change places quickly; who goes on in this process finds it as it was."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.unfreeze()  # or what the models leave behind would never be found


def keep_what_is_there() -> None:
    """Spare the collector of garbage from looking through the models again and again.

    A few hundred requests that wait are as many objects as it looks for by itself, and Python does
    nothing else while it goes through all of them: up to 15 ms, and several times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
