"""How sure any score is: the range of what it would be on other samples of such texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bertworks.core.errors import DataError
from bertworks.evaluation.statistics import CONFIDENCE, RESAMPLES, Interval
from bertworks.tasks.statistic import Sample, Statistic, mean_of

MOST_ROWS = 1_000  # different numbers of which a mean is drawn as they are
NUM_GROUPS = 200  # of neighbours among more numbers than that
MOST_DRAWS = 50_000_000  # of examples one by one, in all resamples
COST_OF_ROW = 10  # to draw how often a row comes, beside drawing one example
COST_OF_TURN = 1_000  # to begin a resample, in examples
FAR = 0.1  # from the mean, in deviations of the whole sum
CHUNK = 1_000_000  # numbers in memory at once


def intervals(
    statistics: Mapping[str, Statistic],
    units: np.ndarray,
    *,
    num_resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return each score with the range that holds it with 95 % confidence.

    `units` tells which text each example is about: texts are drawn, with all that belongs to them.
    Of one text alone there is no range.
    """
    if len(np.unique(units)) < 2:
        return {}
    joined = join_units(statistics, units)
    drawn = resample(joined, num_resamples=num_resamples, seed=seed)
    return {name: interval_of(drawn[name], joined[name].value) for name in joined}


def mean_interval(values: np.ndarray, *, seed: int = 0) -> Interval:
    """Return the mean of one value per example with its range."""
    if len(values) < 2:
        raise DataError("an interval needs at least two examples")
    return intervals({"mean": mean_of(values)}, np.arange(len(values)), seed=seed)["mean"]


def paired_difference(better: np.ndarray, worse: np.ndarray, *, seed: int = 0) -> Interval:
    """Return by how much one system beats another on the same examples."""
    if len(better) != len(worse):
        raise DataError(f"{len(better)} and {len(worse)} results cannot be paired")
    return mean_interval(np.asarray(better, float) - np.asarray(worse, float), seed=seed)


def join_units(statistics: Mapping[str, Statistic], units: np.ndarray) -> dict[str, Statistic]:
    """Return scores whose examples are units; those that share a sample still do."""
    samples: dict[int, Sample] = {}
    found = {}
    for name, one in statistics.items():
        known = id(one.sample)
        if known not in samples:
            samples[known] = one.sample.joined(units)
        is_mean = one.is_mean and samples[known] is one.sample
        found[name] = replace(one, sample=samples[known], is_mean=is_mean)
    return found


def resample(
    statistics: Mapping[str, Statistic], *, num_resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return each score of many samples drawn with replacement, [resamples].

    Scores with one sample are of the same draws.
    """
    by_sample: dict[int, dict[str, Statistic]] = {}
    for name, one in statistics.items():
        by_sample.setdefault(id(one.sample), {})[name] = one
    found: dict[str, np.ndarray] = {}
    for own in by_sample.values():
        sample = condensed(next(iter(own.values())))
        parts: dict[str, list[np.ndarray]] = {name: [] for name in own}
        for sums in draw_sums(sample, num_resamples=num_resamples, seed=seed):
            for name, one in own.items():
                parts[name].append(one.score(sums))
        found |= {name: np.concatenate(scores) for name, scores in parts.items()}
    return found


def draw_sums(sample: Sample, *, num_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield what resamples add up to, [some, S] at a time.

    What counts is how often each different row is drawn, which is a draw from a multinomial
    distribution; where most rows differ, examples are drawn one by one. If both are many, only rows
    that move a sum much are drawn so, and what all others add up to is drawn as a whole.
    """
    random, count = np.random.default_rng(seed), len(sample)
    num_rows, width = sample.rows.shape
    is_grouped = COST_OF_ROW * num_rows <= count + COST_OF_TURN
    cost = COST_OF_ROW * num_rows if is_grouped else count
    crowd = None
    if cost * num_resamples > MOST_DRAWS:
        crowd, sample, is_grouped = *Crowd.parted(sample), True
    shares = np.bincount(sample.which, minlength=len(sample.rows)) / count
    step = max(CHUNK // max(len(shares), width), 1)
    for start in range(0, num_resamples, step):
        size = min(step, num_resamples - start)
        if is_grouped:
            drawn = random.multinomial(count, shares, size=size)
        else:
            drawn = np.stack([_draw(sample, random) for _ in range(size)])
        sums = drawn.astype(np.float64) @ sample.rows
        yield sums if crowd is None else sums + crowd.draw(drawn[:, -1], random)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Many rows of which none moves a sum much: what some of them add up to is nearly normal."""

    mean: np.ndarray  # [S]
    root: np.ndarray  # [S, S] of the covariance of what each adds

    @classmethod
    def parted(cls, sample: Sample) -> tuple[Self, Sample]:
        """Part a sample into its crowd, and all other rows, behind which a row of zeros is it."""
        counts = np.bincount(sample.which, minlength=len(sample.rows))
        is_far = move_far(sample.rows - counts @ sample.rows / len(sample), counts)
        inner, weights = sample.rows[~is_far], counts[~is_far] / max(counts[~is_far].sum(), 1)
        mean = weights @ inner
        place = np.where(is_far, is_far.cumsum() - 1, is_far.sum())
        rows = np.concatenate([sample.rows[is_far], np.zeros((1, len(mean)))])
        return cls(mean, spread_of(inner - mean, weights)), Sample(rows, place[sample.which])

    def draw(self, counts: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return what so many drawn from the crowd add up to, [counts, S]."""
        spread = random.standard_normal((len(counts), len(self.mean))) @ self.root.T
        return counts[:, None] * self.mean + np.sqrt(counts)[:, None] * spread


def move_far(moves: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Tell which rows move a sum by much of its deviation, where so many are of each.

    That are at most 1 / FAR² for a sum, and what all others add to it is skewed by less than FAR.
    """
    return (np.abs(moves) > FAR * np.sqrt(counts @ moves**2)).any(axis=1)


def spread_of(moves: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a root of the covariance of moves, [S, S]: times normal numbers it spreads as they."""
    values, vectors = np.linalg.eigh((moves * weights[:, None]).T @ moves)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    root[~moves.any(axis=0)] = 0.0  # exactly, whatever rounding says
    return root


def interval_of(scores: np.ndarray, value: float) -> Interval:
    """Return the range of the middle of resampled scores, with the score itself."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return Interval(value, float(low), float(high))


def condensed(statistic: Statistic) -> Sample:
    """Return the sample of a mean with neighbours among many numbers replaced by their mean.

    A group has few examples and little of the variance; a number that has much of it, as those of
    rare labels do, is a group by itself. So what is lost, how far the numbers of a group lie from
    each other, is next to nothing beside how far all do.
    """
    sample = statistic.sample
    if not statistic.is_mean or len(sample.rows) <= MOST_ROWS:
        return sample
    counts = np.bincount(sample.which, minlength=len(sample.rows))
    numbers = sample.rows[:, 0]  # of a mean they are sorted
    squares = (numbers - counts @ numbers / len(sample)) ** 2
    squares /= counts @ squares
    shares = counts * (1 / len(sample) + squares) / 2
    group = ((shares.cumsum() - shares) * NUM_GROUPS).astype(np.int64)
    is_alone = squares > 1 / MOST_ROWS
    group[is_alone] = NUM_GROUPS + np.arange(is_alone.sum())
    group = np.unique(group, return_inverse=True)[1].reshape(-1)
    sums = np.bincount(group, counts * sample.rows[:, 0])
    means = sums / np.bincount(group, counts)
    rows = np.stack([means, np.ones_like(means)], axis=1)
    return Sample(rows, group[sample.which])


def _draw(sample: Sample, random: np.random.Generator) -> np.ndarray:
    chosen = random.integers(len(sample), size=len(sample), dtype=np.int32)
    return np.bincount(sample.which[chosen], minlength=len(sample.rows))
