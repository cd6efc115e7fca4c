"""An interval: a score with the range that holds it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RESAMPLES = 10_000
CONFIDENCE = 0.95
NO_WIDTH = (
    "a range without width says that all samples drawn from these examples score the same, not "
    "that other examples would"
)
NORMAL = 1.959964  # deviations that hold 95 % of a normal distribution


@dataclass(frozen=True)
class Interval:
    """A score with the range that holds it with 95 % confidence."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def interval_rows(intervals: Mapping[str, Interval]) -> list[dict[str, Any]]:
    """Return ranges as rows of a result."""
    return range_rows({name: (one.low, one.high) for name, one in intervals.items()})


def range_rows(ranges: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Return the ends of ranges as rows of a result."""
    return [{"score": name, "low": low, "high": high} for name, (low, high) in ranges.items()]


def wilson(hits: float, count: float) -> Interval:
    """Return a share with Wilson's interval; of nothing there is no share."""
    if not count:
        return Interval(math.nan, math.nan, math.nan)
    share, square = hits / count, NORMAL**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    width = math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    width *= NORMAL / (1 + square / count)
    low = middle - width if hits else 0.0  # exactly, whatever rounding says
    return Interval(share, low, middle + width if hits < count else 1.0)


def has_no_width(intervals: Iterable[Interval]) -> bool:
    """Tell whether one of some ranges is of the same number at both ends."""
    return any(one.low == one.high for one in intervals)
