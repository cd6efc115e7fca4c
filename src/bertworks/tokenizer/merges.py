"""Byte-pair merges: how the characters of a word become its pieces."""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

Merge = tuple[str, str]


def merges_in(model: Mapping[str, Any]) -> list[Merge]:
    """Return the merges of a model's description; files of old write them as one word."""
    pairs = (m.split(" ") if isinstance(m, str) else m for m in model.get("merges", []))
    return [(first, second) for first, second in pairs]


def merge(
    word: str, ranks: Mapping[Merge, int], *, leaves_out: Callable[[], bool] = lambda: False
) -> tuple[list[str], list[Merge]]:
    """Return the pieces that BPE makes of a word, and the merges that it made, in order.

    The first learned goes first, and of several places the leftmost. One that is left out can be
    made after the next; where all that are possible are left out, the word is done.
    """
    pieces = ["", *word, ""]  # with a neighbour for all, which no merge knows
    after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))
    possible = [
        (ranks[pair], at, pair) for at, pair in enumerate(pairwise(pieces)) if pair in ranks
    ]
    heapify(possible)
    made, left = list[Merge](), list[tuple[int, int, Merge]]()
    while possible:
        rank, at, pair = heappop(possible)
        second = after[at]
        if (pieces[at], pieces[second]) != pair:
            continue  # another merge took one of them
        if leaves_out():
            left.append((rank, at, pair))
            continue
        made.append(pair)
        pieces[at], pieces[second] = "".join(pair), ""
        after[at], before[after[second]] = after[second], at
        beside = [(first, (pieces[first], pieces[after[first]])) for first in (before[at], at)]
        left += [(ranks[pair], first, pair) for first, pair in beside if pair in ranks]
        while left:
            heappush(possible, left.pop())
    return [piece for piece in pieces if piece], made
