"""Whether chances can be believed: how often answers are right that were called so likely."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertworks.tasks.claims import Claims

MOST_BINS, LEAST_IN_BIN = 15, 10
LEAST_EXAMPLES = 30  # that tell a temperature
HIGHEST = 20.0  # temperature; the lowest is its inverse
TINIEST = 1e-300
EPSILON = 2.0**-53  # by which the highest chance below 1 lies below it
FARTHEST, FINENESS = 32, 1024  # of the logarithms of odds: the highest, and the cells of each unit
STEPS = 50  # by each of which the bounds of the temperature come closer by half


@dataclass(frozen=True)
class Bin:
    """Answers of nearly the same chance."""

    chance: float  # their mean
    right: float  # the share of them that is right
    count: int


@dataclass(frozen=True)
class Calibration:
    """How far chances are from the shares of right answers."""

    ece: float
    brier: float
    bins: tuple[Bin, ...]


class Reliability:
    """Takes what answers claim: counts of claims of nearly the same chance, a number an answer."""

    def __init__(self) -> None:
        self._cells = Cells(*np.zeros((3, 2 * FARTHEST * FINENESS + 1)))
        self._squares = array("d")

    def add(self, claims: Claims) -> None:
        """Take the claims of one answer."""
        chances, is_right = claims.made
        cells = _cells_of(chances)
        np.add.at(self._cells.counts, cells, 1)
        np.add.at(self._cells.rights, cells, is_right)
        np.add.at(self._cells.chances, cells, chances)
        self._squares.append(claims.brier)

    @property
    def squares(self) -> np.ndarray:
        """The Brier score of each answer that has chances."""
        return np.array(self._squares)

    @property
    def is_too_few(self) -> bool:
        """Whether there are claims, but not of as many answers as a bin should hold."""
        return 0 < len(self._squares) < LEAST_IN_BIN

    def calibration(self) -> Calibration | None:
        """Return what all claims come to; None where they are of too few answers."""
        if self.is_too_few or not self._squares:
            return None
        bins = bins_of(self._cells)
        return Calibration(expected_error(bins), float(np.mean(self._squares)), bins)


@dataclass(frozen=True, eq=False)
class Cells:
    """Sums over claims that are not told apart, in the order of their chances."""

    counts: np.ndarray
    rights: np.ndarray
    chances: np.ndarray


def bins_of(cells: Cells) -> tuple[Bin, ...]:
    """Return bins of as many claims each as can be; those of a cell share one."""
    total = int(cells.counts.sum())
    num_bins = min(max(total // LEAST_IN_BIN, 1), MOST_BINS)
    is_used = cells.counts > 0
    counts = cells.counts[is_used]
    begins = counts.cumsum() - counts
    number = (begins * num_bins // total).astype(np.int64)
    sums = (
        np.bincount(number, own[is_used]) for own in (cells.chances, cells.rights, cells.counts)
    )
    return tuple(
        Bin(float(chance / size), float(right / size), int(size))
        for chance, right, size in zip(*sums, strict=True)
        if size
    )


def _cells_of(chances: np.ndarray) -> np.ndarray:
    """Return the cell of each chance; they are the narrower the nearer to 0 or 1."""
    inner = np.clip(chances, TINIEST, 1 - EPSILON)
    odds = np.log(inner) - np.log1p(-inner)
    return np.rint((np.clip(odds, -FARTHEST, FARTHEST) + FARTHEST) * FINENESS).astype(np.int64)


def expected_error(bins: Sequence[Bin]) -> float:
    """Return the mean distance of chance and share of right answers, by bins."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.chance - one.right) for one in bins) / total


def fit_temperature(claims: Sequence[Claims]) -> tuple[float, str | None]:
    """Return the temperature by which what is right is likeliest, or 1 and why there is none."""
    if len(claims) < LEAST_EXAMPLES:
        told = "1 example is" if len(claims) == 1 else f"{len(claims)} examples are"
        return 1.0, f"{told} too few to tell it; {LEAST_EXAMPLES} may do"
    logits, right = _rows_of(claims)
    low, high = 1 / HIGHEST, HIGHEST  # of its inverse, in which the loss is convex
    if _slope(logits, right, high) < 0:
        if (logits.argmax(axis=1) != right).any():
            return 1.0, (
                "the answers on dev differ too little in how sure they are; train longer, or with "
                "a higher --lr"
            )
        return 1.0, (
            "the answers on dev are right however sure they are, so no temperature is the best "
            "one; give harder or more examples"
        )
    if _slope(logits, right, low) > 0:
        return 1.0, "the answers on dev are no better than chance, so no temperature mends them"
    for _ in range(STEPS):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if _slope(logits, right, middle) > 0 else (middle, high)
    return float(1 / np.sqrt(low * high)), None


def _rows_of(claims: Sequence[Claims]) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits of things of which one is right, and which; where there are fewer, -inf."""
    rows, right = [], []
    for one in claims:
        if one.is_choice:
            rows.append(one.chances)
            right.append([int(one.is_right.argmax())])
        else:
            rows += list(np.stack([1 - one.chances, one.chances], axis=1))
            right.append(one.is_right.astype(int).tolist())
    widest = max(map(len, rows))
    logits = np.full((len(rows), widest), -np.inf)
    for row, chances in zip(logits, rows, strict=True):
        row[: len(chances)] = np.log(np.maximum(chances, TINIEST))
    return logits, np.concatenate(right)


def _slope(logits: np.ndarray, right: np.ndarray, sharpness: float) -> float:
    """Return how the loss grows with the sharpness, which is the inverse of the temperature."""
    scaled = logits * sharpness
    chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    known = np.where(np.isfinite(logits), logits, 0.0)
    expected = (chances * known).sum(axis=1)
    return float((expected - known[np.arange(len(known)), right]).mean())
