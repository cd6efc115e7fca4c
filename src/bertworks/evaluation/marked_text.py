"""Texts with marked places: what should have been found, what was found, and what they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bertworks.evaluation.report_blocks import Piece

Side = Literal["gold", "answer", "place"]
LONGEST = 700  # characters of a text that is shown
AROUND = 120  # characters on both sides of a mark in a longer one
LONGEST_MARK = 240
LONGEST_WORD = 40
GAP = " … "


@dataclass(frozen=True)
class Mark:
    """A place in a text, what it should be or was taken for, and its label."""

    start: int
    end: int
    side: Side
    label: str


def mark_text(text: str, marks: Sequence[Mark]) -> tuple[Piece, ...]:
    """Cut a text into pieces at its marks; of a long one only what lies around them is kept."""
    marks = [_within(mark, len(text)) for mark in marks]
    marks = [mark for mark in marks if mark.start < mark.end]
    pieces: list[Piece] = []
    end_before = 0
    for start, end in _windows(text, marks):
        if start > end_before:
            pieces.append(Piece(GAP, is_gap=True))
        pieces += _cut(text, start, end, marks)
        end_before = end
    if end_before < len(text):
        pieces.append(Piece(GAP, is_gap=True))
    return tuple(pieces)


def _within(mark: Mark, length: int) -> Mark:
    start, end = (min(max(place, 0), length) for place in (mark.start, mark.end))
    return Mark(start, end, mark.side, mark.label)


def _windows(text: str, marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Return which parts of a text are shown, in order: around mistakes first, then other marks."""
    if len(text) <= LONGEST:
        return [(0, len(text))] if text else []
    if not marks:
        return [(0, _at_space(text, LONGEST))]
    found: list[tuple[int, int]] = []
    for mark in sorted(marks, key=lambda own: (_is_right(own, marks), own.start)):
        end = min(mark.end, mark.start + LONGEST_MARK)
        found = _merged([*found, _around(text, mark.start, end)])
        if sum(end - start for start, end in found) >= LONGEST:
            break
    return found


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a place with what stands on both sides of it, cut between words where that can be."""
    first, last = max(start - AROUND, 0), min(end + AROUND, len(text))
    if first and (space := text.find(" ", first, first + LONGEST_WORD)) >= 0:
        first = space + 1
    return first, last if last == len(text) else max(_at_space(text, last), end)


def _at_space(text: str, place: int) -> int:
    """Return a place near another one where a word ends, where there is such a place."""
    space = text.rfind(" ", place - LONGEST_WORD, place)
    return place if space < 0 else space


def _is_right(mark: Mark, marks: Sequence[Mark]) -> bool:
    """Tell whether a mark has its like on the other side."""
    return any(
        (own.start, own.end, own.label) == (mark.start, mark.end, mark.label)
        and own.side != mark.side
        for own in marks
    )


def _merged(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1] + len(GAP):
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _cut(text: str, start: int, end: int, marks: Sequence[Mark]) -> Iterator[Piece]:
    """Yield the pieces of a part of a text, each with the labels of the marks that cover it."""
    ends = {place for mark in marks for place in (mark.start, mark.end) if start < place < end}
    for first, last in pairwise(sorted({start, end, *ends})):
        over = [mark for mark in marks if mark.start <= first and last <= mark.end]
        gold, answer, place = (
            ", ".join(dict.fromkeys(mark.label for mark in over if mark.side == side))
            for side in ("gold", "answer", "place")
        )
        is_right = any(_is_right(mark, over) for mark in over)
        yield Piece(text[first:last], gold, answer, place, is_right)
