"""Memory that was freed: given back to the system, or kept for what comes next.

The C library does some of both. What is kept costs memory, what is given back costs time: the
system clears every page before it lends it again.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from bertworks.core.environment import chose_malloc

# Names and numbers of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
NEVER, NO_BLOCKS = -1, 0
MOST_BLOCKS = 65_536  # what it begins with
LARGEST_THRESHOLD = 32 << 20  # what it comes to by itself where large blocks are freed


@contextmanager
def kept() -> Iterator[None]:
    """Keep what is freed within, so that steps which need as much anew find it there.

    It is the whole process that keeps it, until the last of those who want it is done. What a user
    has told the C library in the environment stays as it is.
    """
    with _changing:
        _keepers.append(None)
        _tell(_KEEP)
    try:
        yield
    finally:
        with _changing:
            _keepers.pop()
            if not _keepers:
                _tell(_USUAL)
                give_back()


def give_back() -> None:
    """Give all memory that is free to the system, where the C library can do that."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


_keepers: list[None] = []
_changing = Lock()
_KEEP = {MMAP_MAX: NO_BLOCKS, TRIM_THRESHOLD: NEVER}  # or each large tensor would be a loan
_USUAL = {
    MMAP_MAX: MOST_BLOCKS,
    MMAP_THRESHOLD: LARGEST_THRESHOLD,
    TRIM_THRESHOLD: 2 * LARGEST_THRESHOLD,
}


def _tell(values: Mapping[int, int]) -> None:
    tell = _function("mallopt")
    if tell is not None and not chose_malloc():
        for name, value in values.items():
            tell(name, value)


@cache
def _function(name: str) -> Callable[..., Any] | None:
    """Return a function of the C library; it has these only where it is glibc."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows has no library without a name
        return None
