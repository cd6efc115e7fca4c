"""How sure a score is: bootstrap intervals over examples."""

from dataclasses import dataclass

import numpy as np

from bertworks.core.errors import DataError

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with the range that holds it with 95 % confidence."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


def mean_interval(values: np.ndarray, *, seed: int = 0) -> Interval:
    """Return the mean of one value per example with its bootstrap interval."""
    if len(values) < 2:
        raise DataError("an interval needs at least two examples")
    random = np.random.default_rng(seed)
    # A mean depends only on how often each distinct value is drawn, so that is what is drawn.
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    drawn = random.multinomial(len(values), counts / len(values), size=RESAMPLES)
    means = drawn @ distinct / len(values)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(np.mean(values)), float(low), float(high))


def paired_difference(better: np.ndarray, worse: np.ndarray, *, seed: int = 0) -> Interval:
    """Return by how much one system beats another on the same examples."""
    if len(better) != len(worse):
        raise DataError(f"{len(better)} and {len(worse)} results cannot be paired")
    return mean_interval(np.asarray(better, float) - np.asarray(worse, float), seed=seed)
