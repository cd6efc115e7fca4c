"""Long inputs: cut into overlapping windows, so that nothing is truncated away."""

import numpy as np

from bertworks.core.errors import UsageError


def cut_spans(length: int, *, room: int) -> list[tuple[int, int]]:
    """Return (start, end) of windows that fit the room; neighbours share a quarter of it."""
    if length <= room:
        return [(0, length)]
    if room < 1:
        raise UsageError(f"a window has room for {room} pieces of text; raise --longest")
    stride = max(room - room // 4, 1)
    starts = range(0, length - room + stride, stride)
    return [(start, min(start + room, length)) for start in starts]


def cut_places(length: int, places: np.ndarray, *, room: int) -> list[tuple[int, int, np.ndarray]]:
    """Return windows, and the places asked for in each: those that no window showed before."""
    windows, seen = [], 0
    for start, end in cut_spans(length, room=room):
        windows.append((start, end, places[(places >= seen) & (places < end)] - start))
        seen = end
    return windows


def cut_text(pieces: np.ndarray, *, room: int) -> list[np.ndarray]:
    """Cut pieces into windows that fit the room."""
    return [pieces[start:end] for start, end in cut_spans(len(pieces), room=room)]


def cut_pair(
    first: np.ndarray, second: np.ndarray, *, room: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut two texts that share a room into windows that together show every piece of both.

    A text shorter than half of the room leaves the rest to the other. The windows of both are
    walked in step, and the text with fewer windows repeats its last one.
    """
    if room < 2 and len(first) + len(second) > room:
        raise UsageError(f"a window has room for {room} pieces of two texts; raise --longest")
    room_first = max(room - room // 2, room - len(second))
    windows_first = cut_text(first, room=room_first)
    room_second = room - max(len(window) for window in windows_first)
    windows_second = cut_text(second, room=room_second)
    count = max(len(windows_first), len(windows_second))
    return [
        (
            windows_first[min(i, len(windows_first) - 1)],
            windows_second[min(i, len(windows_second) - 1)],
        )
        for i in range(count)
    ]
