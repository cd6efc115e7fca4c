"""Scores as functions of sums over examples, so that they can be had of any sample of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

Score = Callable[[np.ndarray], np.ndarray]  # of sums [..., S] the scores [...]


@dataclass(frozen=True, eq=False)
class Sample:
    """What examples add to some sums; those that add the same share a row."""

    rows: np.ndarray  # [U, S]
    which: np.ndarray  # [N] the row of each example

    @classmethod
    def of(cls, values: np.ndarray) -> Self:
        """Make it of what each example adds, [N, S]."""
        whole = np.ascontiguousarray(values, np.float64)
        keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1])))
        firsts, which = _numbered(whole.T, keys.reshape(-1).argsort(kind="stable"))
        return cls(whole[firsts], which)

    def __len__(self) -> int:
        return len(self.which)

    @property
    def values(self) -> np.ndarray:
        """What each example adds, [N, S]."""
        return self.rows[self.which]

    @property
    def sums(self) -> np.ndarray:
        """What all examples add up to, [S]."""
        return np.bincount(self.which, minlength=len(self.rows)) @ self.rows

    def beside(self, other: "Sample") -> "Sample":
        """Return the sample that adds what this one does, and beside it what another does."""
        count = len(other.rows)
        cells, which = distinct(self.which.astype(np.int64) * count + other.which)
        own, others = np.divmod(cells, count)
        rows = np.concatenate([self.rows[own], other.rows[others]], axis=1)
        return Sample(rows, which)

    def joined(self, units: np.ndarray) -> "Sample":
        """Return the sample whose examples are units; each adds what its own examples add.

        Units of the same rows share one, and only of one of them the sums are made.
        """
        num_units = int(units.max()) + 1 if len(units) else 0
        if num_units == len(units):
            return self
        drawn = np.random.default_rng(0).integers(2**62, size=len(self.rows), dtype=np.uint64)
        keys = np.zeros(num_units, np.uint64)  # the same for the same rows in any order
        np.add.at(keys, units, drawn[self.which])
        _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
        place = np.full(num_units, -1)
        place[firsts] = np.arange(len(firsts))
        is_first = place[units] >= 0
        rows = np.zeros((len(firsts), self.rows.shape[1]))
        np.add.at(rows, place[units[is_first]], self.rows[self.which[is_first]])
        return Sample(rows, which.reshape(-1))


@dataclass(frozen=True, eq=False)
class Statistic:
    """A score, and what it is computed from."""

    sample: Sample
    score: Score
    is_mean: bool = False  # of one number an example, which is added with a one behind it
    is_moved: bool = False  # those numbers are how examples move it, and not their own scores

    @property
    def value(self) -> float:
        """The score of all examples."""
        return float(self.score(self.sample.sums))

    def joined(self, units: np.ndarray) -> "Statistic":
        """Return the score as one of units."""
        sample = self.sample.joined(units)
        is_mean = self.is_mean and sample is self.sample
        return replace(self, sample=sample, is_mean=is_mean)


def mean_of(values: np.ndarray, *, low: float = -np.inf, high: float = np.inf) -> Statistic:
    """Return the mean of one number an example, which lies within bounds."""
    numbers, which = distinct(np.asarray(values, np.float64))
    rows = np.stack([numbers, np.ones_like(numbers)], axis=1)
    return Statistic(
        Sample(rows, which), lambda sums: np.clip(_ratio(sums), low, high), is_mean=True
    )


def share_of(hits: np.ndarray, counts: np.ndarray) -> Statistic:
    """Return the share of hits among things of which each example has some."""
    return Statistic(Sample.of(np.stack([hits, counts], axis=1).astype(np.float64)), _ratio)


def correlation_of(first: np.ndarray, second: np.ndarray) -> Statistic:
    """Return Pearson's correlation as the mean of how each example moves it."""
    sides = [(side - side.mean()) / side.std() for side in (first, second)]
    products = sides[0] * sides[1]
    value = products.mean()
    moves = products - value / 2 * (sides[0] ** 2 + sides[1] ** 2)
    return _moved_by(value + moves, low=-1.0)


def rank_correlation_of(first: np.ndarray, second: np.ndarray) -> Statistic:
    """Return Spearman's correlation as the mean of how each example moves it.

    An example moves it by its own ranks, and by the ranks of all above it, which it raises.
    """
    sides, count = (first, second), len(first)
    ranks = [(ranks_of(side) - 0.5) / count - 0.5 for side in sides]

    def moves(a: int, b: int) -> np.ndarray:
        """Return how each example moves the mean product of two ranks."""
        raised = _sums_above(sides[a], ranks[b]) + _sums_above(sides[b], ranks[a])
        moved = ranks[a] * ranks[b] + raised / count
        return moved - moved.mean()

    spreads = [(rank**2).mean() for rank in ranks]
    scale = np.sqrt(spreads[0] * spreads[1])
    value = (ranks[0] * ranks[1]).mean() / scale
    rescaled = moves(0, 0) / spreads[0] + moves(1, 1) / spreads[1]
    return _moved_by(value + moves(0, 1) / scale - value / 2 * rescaled, low=-1.0)


def area_of(gold: np.ndarray, chances: np.ndarray) -> Statistic | None:
    """Return the mean area under the curve over columns, as the mean of how examples move it.

    `gold` [N, L] tells where a label is right, `chances` how likely it was. Labels that are always
    or never right have no area; None where there is no other.
    """
    total, count = np.zeros(len(gold)), 0
    for label in range(gold.shape[1]):
        if 0 < gold[:, label].sum() < len(gold):
            total += _area_values(gold[:, label], chances[:, label])
            count += 1
    return _moved_by(total / count, low=0.0) if count else None


def _moved_by(values: np.ndarray, *, low: float) -> Statistic:
    """Return a score that is the mean of how each example moves it, at most 1."""
    return replace(mean_of(values, low=low, high=1.0), is_moved=True)


def ranks_of(values: np.ndarray) -> np.ndarray:
    """Return the ranks from 1 on; equals share their mean rank."""
    _, which = distinct(values)
    counts = np.bincount(which)
    return (counts.cumsum() - (counts - 1) / 2)[which]


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different numbers in their order, and for each number which of them it is."""
    firsts, which = _numbered([values], values.argsort())
    return values[firsts], which


def _numbered(
    columns: Sequence[np.ndarray] | np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each kind of rows that lie in an order, and for each row its kind.

    It does what np.unique does in half of its memory, for there may be very many rows.
    """
    is_new = np.zeros(len(order), bool)
    is_new[:1] = True
    for column in columns:
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    which = np.empty(len(order), np.int32)
    which[order] = is_new.cumsum(dtype=np.int32) - 1
    return order[is_new], which


def _area_values(is_right: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return how each example moves the area, as DeLong tells it, around the area itself."""
    ranks, own = ranks_of(chances), np.empty(len(chances))
    for side in (is_right, ~is_right):
        own[side] = ranks_of(chances[side])
    num_right, num_wrong = is_right.sum(), (~is_right).sum()
    beaten = ranks - own  # how many of the other side lie below
    placed = np.where(is_right, beaten / num_wrong, 1 - beaten / num_right)
    area = placed[is_right].mean()
    share = np.where(is_right, num_right, num_wrong) / len(chances)
    return area + (placed - area) / share


def _sums_above(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sum of the values of all that lie above each in an order; equals count half."""
    which = distinct(order)[1]
    sums = np.bincount(which, values)
    return (sums.sum() - sums.cumsum() + sums / 2)[which]


def _ratio(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)
