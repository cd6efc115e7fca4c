"""Intervals: they hold the truth as often as they say, and know when they cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError
from bertworks.evaluation.statistics import Interval, mean_interval, paired_difference

values = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40).map(np.array)


@given(values)
def test_an_interval_lies_within_the_values_and_around_their_mean(sample: np.ndarray) -> None:
    found = mean_interval(sample)
    slack = 1e-9 * max(1.0, np.abs(sample).max())
    assert found.mean == pytest.approx(sample.mean())
    assert sample.min() - slack <= found.low <= found.high <= sample.max() + slack


@given(values, st.integers(0, 2**31))
def test_an_interval_is_a_function_of_values_and_seed(sample: np.ndarray, seed: int) -> None:
    found = mean_interval(sample, seed=seed)
    assert found == mean_interval(sample, seed=seed)
    shuffled = np.random.default_rng(seed).permutation(sample)
    assert found.low == pytest.approx(mean_interval(shuffled, seed=seed).low)


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    intervals = [mean_interval(random.random(120) < 0.7, seed=n) for n in range(300)]
    assert 0.91 <= np.mean([found.low <= 0.7 <= found.high for found in intervals]) <= 0.98
    # Half as wide an interval would hold it much less often.
    halves = [abs(found.mean - 0.7) <= (found.high - found.low) / 4 for found in intervals]
    assert np.mean(halves) < 0.8


def test_an_interval_is_as_wide_as_the_normal_one_for_many_examples() -> None:
    sample = np.random.default_rng(6).normal(3, 2, size=400)
    found = mean_interval(sample)
    half = 1.96 * sample.std() / 20
    assert found.low == pytest.approx(sample.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(sample.mean() + half, abs=0.1 * half)


def test_examples_that_all_agree_leave_no_doubt() -> None:
    assert mean_interval(np.ones(5, bool)) == Interval(1.0, 1.0, 1.0)


@pytest.mark.parametrize("sample", [[], [1.0]])
def test_too_few_examples_are_refused(sample: list[float]) -> None:
    with pytest.raises(DataError, match="at least two examples"):
        mean_interval(np.array(sample))


def test_a_difference_is_taken_example_by_example() -> None:
    random = np.random.default_rng(7)
    worse = random.random(200) < 0.6
    better = worse | (random.random(200) < 0.1)
    found = paired_difference(better, worse)
    assert found.mean == pytest.approx(better.mean() - worse.mean())
    assert found.low > 0
    # The same answers in another order are no longer pairs, and far less sure.
    loose = paired_difference(better, random.permutation(worse))
    assert loose.high - loose.low > 1.5 * (found.high - found.low)


@given(values)
def test_a_system_does_not_beat_itself(sample: np.ndarray) -> None:
    assert paired_difference(sample, sample) == Interval(0.0, 0.0, 0.0)


def test_results_of_different_examples_cannot_be_paired() -> None:
    with pytest.raises(DataError, match="3 and 5 results cannot be paired"):
        paired_difference(np.zeros(3), np.zeros(5))


def test_truth_values_are_counted_not_subtracted_as_such() -> None:
    found = paired_difference(np.array([True, False, True]), np.array([False, True, True]))
    assert found.mean == 0.0


def test_an_interval_is_written_for_people() -> None:
    assert str(Interval(0.5, 0.25, 0.75)) == "0.5000 [0.2500, 0.7500]"
