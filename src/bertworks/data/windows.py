"""Long inputs: cut into overlapping windows, so that nothing is truncated away."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bertworks.core.errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class View:
    """What a window shows of its example."""

    start: int = 0  # the first piece of the long text that it shows
    losses: tuple[str, ...] = ()  # what no window shows of the example, and how to mend it


def cut_spans(length: int, *, room: int, step: int | None = None) -> list[tuple[int, int]]:
    """Return (start, end) of windows that fit the room and begin so many pieces apart.

    By default neighbours share a quarter of the room; none leaves a gap to the next.
    """
    if length <= room:
        return [(0, length)]
    if room < 1:
        raise UsageError(f"a window has room for {room} pieces of text; raise --longest")
    stride = room - room // 4 if step is None else min(step, room)
    starts = range(0, length - room + stride, stride)
    return [(start, min(start + room, length)) for start in starts]


def cut_places(length: int, places: np.ndarray, *, room: int) -> list[tuple[int, int, np.ndarray]]:
    """Return windows, and the places asked for in each: those that no window showed before."""
    windows, seen = [], 0
    for start, end in cut_spans(length, room=room):
        windows.append((start, end, places[(places >= seen) & (places < end)] - start))
        seen = end
    return windows


def cut_centered(
    length: int, places: np.ndarray, *, room: int
) -> list[tuple[int, int, np.ndarray]]:
    """Return windows, and which places are asked for in each: where most is seen on both sides.

    Places are rising; each is asked for once, and its number is returned, not itself.
    """
    spans = cut_spans(length, room=room)
    # What two neighbours share is asked for in the first of them up to its middle.
    middles = [(end - 1 + start) // 2 for (_, end), (start, _) in pairwise(spans)]
    asked = np.split(np.arange(len(places)), np.searchsorted(places, middles, side="right"))
    return [(start, end, own) for (start, end), own in zip(spans, asked, strict=True)]


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


def cut_beside(
    kept: Sequence[np.ndarray], length: int, *, room: int, step: int | None = None
) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """Return texts of which one stands in every window of a longer text, and its windows.

    They have half of the room, or what the longer text leaves; one that needs more keeps its end,
    where a question asks and a choice answers. The windows are the same beside each of them.
    """
    if room < 2:
        raise UsageError(f"a window has room for {room} pieces of two texts; raise --longest")
    most = max(room // 2, room - length)
    shown = [pieces[max(len(pieces) - most, 0) :] for pieces in kept]
    left = room - max(len(pieces) for pieces in shown)
    return shown, cut_spans(length, room=left, step=step)


def pieces_near(length: int, places: Sequence[tuple[int, int]], *, room: int) -> np.ndarray:
    """Return which pieces to show, in order, so that all places are seen and what is nearest them.

    Of a long text, its ends are left out, and perhaps the middle of what lies between two places.
    """
    at = np.arange(length)
    distances = [np.maximum(np.maximum(start - at, at - end + 1), 0) for start, end in places]
    distance = np.min(distances, axis=0)
    needed = int((distance == 0).sum())
    if needed > room:
        raise DataError(
            f"the marked places take {needed} pieces, but a window has room for {room}; shorten "
            "them, or fine-tune with a larger --longest"
        )
    return np.sort(np.argsort(distance, kind="stable")[:room])
