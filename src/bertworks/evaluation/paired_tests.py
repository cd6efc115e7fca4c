"""Whether two systems differ by more than chance, judged on the same examples."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from bertworks.evaluation.bootstrap import (
    CHUNK,
    COST_OF_ROW,
    MOST_DRAWS,
    condensed,
    interval_of,
    move_far,
    resample,
    spread_of,
)
from bertworks.evaluation.statistics import CONFIDENCE, RESAMPLES, Interval
from bertworks.tasks.statistic import Sample, Statistic, mean_of

FEW_DISCORDANT = 25  # below which McNemar's test is exact
POWER = 0.8
SAME = 1e-12  # below which a difference is none


@dataclass(frozen=True)
class Difference:
    """By how much a second system's score lies above a first one's, and how sure that is."""

    first: float
    second: float
    interval: Interval  # of the second less the first
    p_value: float
    test: str
    num_units: int
    num_needed: int | None  # units in all that would tell them apart; None: no number would

    @property
    def num_more(self) -> int | None:
        """How many more units would be needed; 0 where they are told apart already."""
        return None if self.num_needed is None else max(self.num_needed - self.num_units, 0)


def compare_scores(
    first: Mapping[str, Statistic], second: Mapping[str, Statistic], *, seed: int = 0
) -> dict[str, Difference]:
    """Compare the scores that both systems have by the bootstrap, and by a test that fits each."""
    samples: dict[tuple[int, int], Sample] = {}  # that several scores share
    pairs = {}
    for name in (name for name in first if name in second):
        one, other = first[name], second[name]
        key = id(one.sample), id(other.sample)
        if key not in samples:
            samples[key] = one.sample.beside(other.sample)
        pairs[name] = Pair(one, other, samples[key])
    drawn = resample({name: pair.difference for name, pair in pairs.items()}, seed=seed)
    swappable = {name: pair.swappable for name, pair in pairs.items() if pair.can_swap}
    swapped = randomization(swappable, seed=seed)
    found = {}
    for name, pair in pairs.items():
        test, p_value = _tested(pair, drawn[name], swapped.get(name))
        values, count = (pair.first.value, pair.second.value), len(pair.joint)
        value = values[1] - values[0]
        found[name] = Difference(
            *values,
            interval_of(drawn[name], value),
            p_value,
            test,
            count,
            num_needed(value, float(drawn[name].std()), count),
        )
    return found


@dataclass(frozen=True, eq=False)
class Pair:
    """A score of two systems, and what both add to it, side by side."""

    first: Statistic
    second: Statistic
    joint: Sample

    @property
    def width(self) -> int:
        """How many sums the first score is made of."""
        return self.first.sample.rows.shape[1]

    @property
    def difference(self) -> Statistic:
        """The second score less the first, as a score of the same examples."""
        if self.first.is_mean and self.second.is_mean:
            first, second = (one.sample.values[:, 0] for one in (self.first, self.second))
            least, most = np.array([-np.inf, 1.0]), np.array([np.inf, 1.0])
            low = float(self.second.score(least) - self.first.score(most))
            high = float(self.second.score(most) - self.first.score(least))
            return mean_of(second - first, low=low, high=high)
        return Statistic(
            self.joint,
            lambda sums: (
                self.second.score(sums[..., self.width :])
                - self.first.score(sums[..., : self.width])
            ),
        )

    @property
    def swappable(self) -> "Pair":
        """The pair by which swaps are drawn: of means it is nothing beside the difference."""
        if not (self.first.is_mean and self.second.is_mean):
            return self
        sample = condensed(self.difference)
        nothing = mean_of(np.zeros(len(sample)))
        moved = replace(self.difference, sample=sample)
        return Pair(nothing, moved, nothing.sample.beside(sample))

    @property
    def outcomes(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Which answers of both are right, where the score is the share of those."""
        sides = outcomes(self.first), outcomes(self.second)
        return None if sides[0] is None or sides[1] is None else (sides[0], sides[1])

    @property
    def can_swap(self) -> bool:
        """Whether the answers of both can be swapped: scores of different labels cannot."""
        return self.outcomes is None and self.joint.rows.shape[1] == 2 * self.width


def _tested(pair: Pair, drawn: np.ndarray, swapped: float | None) -> tuple[str, float]:
    """Return the name of the test that fits a score, and its p-value."""
    if pair.outcomes is not None:
        return mcnemar(*pair.outcomes)
    if swapped is not None:
        return "randomization", swapped
    num_beyond = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return "bootstrap", float(min(1.0, 2 * (num_beyond + 1) / (len(drawn) + 1)))


def outcomes(statistic: Statistic) -> np.ndarray | None:
    """Return which answers are right where a score is the share of those; else None."""
    if not statistic.is_mean or statistic.is_moved:
        return None
    if not np.isin(statistic.sample.rows[:, 0], (0, 1)).all():
        return None
    return statistic.sample.values[:, 0] == 1


def mcnemar(first: np.ndarray, second: np.ndarray) -> tuple[str, float]:
    """Return the test by the answers of which only one is right: its name, and the p-value.

    With few of them it is exact; with more it takes the chi-square distribution, corrected for
    continuity.
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    count = only_first + only_second
    if count < FEW_DISCORDANT:
        ways = sum(math.comb(count, n) for n in range(min(only_first, only_second) + 1))
        return "McNemar, exact", min(1.0, 2 * ways / 2**count)
    square = max(abs(only_first - only_second) - 1, 0) ** 2 / count
    return "McNemar", math.erfc(math.sqrt(square / 2))


def randomization(pairs: Mapping[str, Pair], *, seed: int = 0) -> dict[str, float]:
    """Return how often systems that swap answers by chance differ as much as these do.

    Only examples on which they differ matter, and of those that are alike only how many swap.
    Scores with one sample are of the same swaps.
    """
    by_sample: dict[int, dict[str, Pair]] = {}
    for name, one in pairs.items():
        by_sample.setdefault(id(one.joint), {})[name] = one
    found: dict[str, float] = {}
    for own in by_sample.values():
        any_pair = next(iter(own.values()))
        extreme, num_swaps = dict.fromkeys(own, 1), 1  # as they are is one of the ways
        observed = {name: abs(one.second.value - one.first.value) for name, one in own.items()}
        for first, second in _swapped_sums(any_pair, seed=seed):
            num_swaps += len(first)
            for name, one in own.items():
                apart = np.abs(one.second.score(second) - one.first.score(first))
                extreme[name] += int((apart >= observed[name] - SAME).sum())
        found |= {name: count / num_swaps for name, count in extreme.items()}
    return found


def _swapped_sums(pair: Pair, *, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield what both systems add up to when answers are swapped, [some, S] at a time.

    Where very many answers differ in other ways, those that count for little are swapped as a
    whole.
    """
    sides = np.split(pair.joint.rows, 2, axis=1)
    moves, counts = sides[1] - sides[0], np.bincount(pair.joint.which, minlength=len(sides[0]))
    totals = [counts @ side for side in sides]
    is_drawn = moves.any(axis=1)
    middle, root = np.zeros(len(totals[0])), None
    if COST_OF_ROW * int(is_drawn.sum()) * RESAMPLES > MOST_DRAWS:
        is_far = move_far(moves, counts)
        middle = counts[~is_far] @ moves[~is_far] / 2
        root = spread_of(moves[~is_far], counts[~is_far] / 4)  # of a coin
        is_drawn &= is_far
    moves, counts = moves[is_drawn], counts[is_drawn]
    random, width = np.random.default_rng(seed), len(middle)
    step = CHUNK // max(len(moves), width) + 1
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        drawn = random.binomial(counts, 0.5, size=(size, len(moves))).astype(np.float64)
        swapped = drawn @ moves + middle
        if root is not None:
            swapped += random.standard_normal((size, width)) @ root.T
        yield totals[0] + swapped, totals[1] - swapped


def num_needed(difference: float, deviation: float, count: int) -> int | None:
    """Return of how many units a difference as large would be found in four of five samples.

    `deviation` is that of the difference in samples of `count`.
    """
    if abs(difference) < SAME or deviation == 0:
        return None
    normal = NormalDist()
    reach = normal.inv_cdf(1 - (1 - CONFIDENCE) / 2) + normal.inv_cdf(POWER)
    return max(math.ceil(count * (reach * deviation / difference) ** 2), 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for that they are many, by Holm's method."""
    found, highest = [0.0] * len(p_values), 0.0
    for place, number in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[number]))
        found[number] = highest
    return found
