"""What a report is made of before it is HTML or Markdown: tables, pictures, marked texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float]
UNBOUNDED = ("loss", "error")  # how names of numbers end that are no shares
UNNAMED = "answer"  # the label of a mark that has no other


@dataclass(frozen=True)
class Estimate:
    """A number with the range that holds it with 95 % confidence, where that is known."""

    name: str
    value: float | None  # None: there is nothing to measure
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> Point | None:
        """Both ends of the range, where they are numbers."""
        if self.low is None or self.high is None:
            return None
        return (self.low, self.high) if math.isfinite(self.low + self.high) else None

    @property
    def is_share(self) -> bool:
        """Whether the range lies between nothing and all, and not only by chance."""
        if self.bounds is None or self.name.endswith(UNBOUNDED):
            return False
        return 0 <= self.bounds[0] <= self.bounds[1] <= 1

    def __str__(self) -> str:
        told = number(self.value)
        if self.bounds is None:
            return told
        return f"{told} [{number(self.bounds[0])}, {number(self.bounds[1])}]"


Cell = str | Estimate


@dataclass(frozen=True)
class Heading:
    """The beginning of a section, or of a part of one."""

    text: str
    level: Literal[2, 3] = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; a note is said in passing."""

    text: str
    is_note: bool = False


@dataclass(frozen=True)
class Code:
    """Something to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under a header; an empty one says so."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Cards:
    """The few numbers to look at first, the very first of them above all; or minor ones."""

    cards: Sequence[Estimate]
    is_minor: bool = False


@dataclass(frozen=True)
class Curves:
    """One or more curves over the same axis, and perhaps a place on it to look at."""

    title: str
    curves: Mapping[str, list[Point]]
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class Matrix:
    """How often each was given for each: a row for what should be, a column for what was said."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Diagonal:
    """Points that should lie on the diagonal, each with its weight, from 0 to 1 on both axes."""

    title: str
    points: Sequence[tuple[float, float, int]]
    axes: tuple[str, str]


@dataclass(frozen=True)
class Forest:
    """Ranges one below the other, around a line that stands for no difference."""

    title: str
    rows: Sequence[Estimate]


@dataclass(frozen=True)
class Piece:
    """A piece of a text: what should be found there, what was found, or what it is."""

    text: str
    gold: str = ""
    answer: str = ""
    place: str = ""
    is_right: bool = False  # what was found is what should be, from its beginning to its end
    is_gap: bool = False  # it stands for text that is left out

    @property
    def marks(self) -> str:
        """What is said of the piece, in words."""
        if self.is_right:
            return _said("right", self.gold)
        told = {"gold": self.gold, "answer": self.answer, "": self.place}
        return ", ".join(_said(side, label) for side, label in told.items() if label)


@dataclass(frozen=True)
class Shown:
    """One example with its marked texts, by their names, and what was wrong with its answer."""

    line: int
    texts: Mapping[str, Sequence[Piece]]
    gold: str
    answer: str
    confidence: float | None = None
    chrf: float | None = None  # of a text that was written


@dataclass(frozen=True)
class Examples:
    """Examples one below the other."""

    examples: Sequence[Shown]


Block = (
    Heading | Text | Code | Table | Cards | Curves | Matrix | Diagonal | Forest | Examples
)  # one part of a page


def _said(side: str, label: str) -> str:
    return f"{side}: {label}" if side and label != UNNAMED else side or label


def sentence(words: str) -> str:
    """Return words with a capital before them and a full stop behind."""
    return f"{words[:1].upper()}{words[1:]}."


def number(value: float | None) -> str:
    """Write a number as a person compares it, with the digits that count."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "no number"
    if isinstance(value, int):
        return f"{value:,}"
    if 0 < abs(value) < 5e-4:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
