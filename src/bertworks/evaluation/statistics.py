"""An interval: a score with the range that holds it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

RESAMPLES = 10_000
CONFIDENCE = 0.95
NO_WIDTH = (
    "a range without width says that all samples drawn from these examples score the same, not "
    "that other examples would"
)


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
    return [{"score": name, "low": one.low, "high": one.high} for name, one in intervals.items()]


def has_no_width(intervals: Iterable[Interval]) -> bool:
    """Tell whether one of some ranges is of the same number at both ends."""
    return any(one.low == one.high for one in intervals)
