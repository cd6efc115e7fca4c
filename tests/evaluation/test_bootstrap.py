"""Intervals of any score: grouped draws against draws one by one, coverage, units, seeds."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from bertworks.core.errors import DataError
from bertworks.evaluation import bootstrap
from bertworks.evaluation.bootstrap import intervals, mean_interval, paired_difference, resample
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.metrics import LabelScores, LabelSetScores
from bertworks.tasks.statistic import Sample, Statistic, mean_of, rank_correlation_of

Formula = Callable[[np.ndarray, np.ndarray], float]


def macro_f1(gold: np.ndarray, given: np.ndarray) -> float:
    return metrics.f1_score(gold, given, labels=range(3), average="macro", zero_division=0)


def micro_recall(gold: np.ndarray, given: np.ndarray) -> float:
    return metrics.recall_score(gold, given, average="micro")


FORMULAS: dict[str, Formula] = {
    "accuracy": metrics.accuracy_score,
    "macro_f1": macro_f1,
    "mcc": metrics.matthews_corrcoef,
    "micro_recall": micro_recall,
}


def draw_labels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    gold = random.choice(3, size=count, p=[0.6, 0.3, 0.1])
    return gold, np.where(random.random(count) < 0.7, gold, random.integers(3, size=count))


def statistics_of(gold: np.ndarray, given: np.ndarray) -> dict[str, Statistic]:
    scores = LabelScores(3)
    for label, row in zip(gold, np.eye(3)[given], strict=True):
        scores.add(int(label), row.tolist())
    return scores.statistics()


@pytest.mark.parametrize("name", FORMULAS)
def test_grouped_draws_spread_as_draws_one_by_one(name: str) -> None:
    gold, given = draw_labels(90, seed=3)
    grouped = resample({name: statistics_of(gold, given)[name]})[name]
    random = np.random.default_rng(4)
    chosen = random.integers(len(gold), size=(400, len(gold)))
    single = np.array([FORMULAS[name](gold[rows], given[rows]) for rows in chosen])
    assert len(grouped) == 10_000
    assert stats.ks_2samp(grouped, single).pvalue > 0.01
    assert stats.ks_2samp(grouped, single + single.std() / 2).pvalue < 1e-6  # it would tell


def test_rows_that_all_differ_are_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, given = draw_labels(90, seed=3)
    statistics = statistics_of(gold, given)
    grouped = resample(statistics)["macro_f1"]
    monkeypatch.setattr(bootstrap, "COST_OF_ROW", 1_000)
    single = resample(statistics, seed=1)["macro_f1"]
    assert stats.ks_2samp(grouped, single).pvalue > 0.01


def label_sets(count: int, *, seed: int) -> LabelSetScores:
    """Make sets of nine labels, the first of them rare."""
    random, scores = np.random.default_rng(seed), LabelSetScores(9)
    rates = np.array([0.004, *np.linspace(0.1, 0.6, 8)])
    for chances in random.random((count, 9)):
        gold = chances < rates
        given = np.where(random.random(9) < 0.85, gold, random.random(9) < rates)
        scores.add(gold, given, chances.tolist())
    return scores


@pytest.mark.parametrize("name", ["micro_f1", "macro_f1", "macro_recall", "rare"])
def test_many_rows_that_all_differ_spread_as_when_drawn_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = label_sets(2_000, seed=8)
    statistics = scores.statistics() | {"rare": scores.label_statistics()[0]}
    single = resample({name: statistics[name]}, num_resamples=2_000)[name]
    monkeypatch.setattr(bootstrap, "MOST_DRAWS", 0)
    crowded = resample({name: statistics[name]}, num_resamples=4_000, seed=1)[name]
    assert len(crowded) == 4_000
    assert stats.ks_2samp(crowded, single).pvalue > 0.01
    assert stats.ks_2samp(crowded, single + single.std() / 4).pvalue < 1e-6  # it would tell


def test_few_rows_are_far_from_the_mean_of_a_sum() -> None:
    random = np.random.default_rng(2)
    values = np.stack([random.random(3_000), random.random(3_000) < 0.01], axis=1)
    crowd, rest = bootstrap.Crowd.parted(Sample.of(values))
    assert values[:, 1].sum() <= len(rest.rows) <= 2 / bootstrap.FAR**2
    assert len(rest) == 3_000
    np.testing.assert_allclose(
        rest.sums + (rest.which == len(rest.rows) - 1).sum() * crowd.mean, values.sum(axis=0)
    )


def test_neighbours_among_many_numbers_may_be_drawn_as_one() -> None:
    values = np.random.default_rng(5).exponential(size=5_000)
    drawn = resample({"mean": mean_of(values)})["mean"]
    assert drawn.mean() == pytest.approx(values.mean(), abs=3e-4)
    assert drawn.std() == pytest.approx(values.std() / np.sqrt(5_000), rel=0.03)


@pytest.mark.parametrize("name", ["accuracy", "macro_f1", "mcc", "auc"])
def test_intervals_hold_the_truth_about_as_often_as_they_say(name: str) -> None:
    truth = statistics_of(*draw_labels(20_000, seed=11))[name].value
    held = []
    for seed in range(120):
        statistic = statistics_of(*draw_labels(150, seed=100 + seed))[name]
        drawn = intervals({name: statistic}, np.arange(150), num_resamples=1_000, seed=seed)
        found = drawn[name]
        held.append(found.low <= truth <= found.high)
    assert 0.88 <= np.mean(held) <= 0.99


def test_correlations_of_ranks_have_intervals_that_hold_the_truth() -> None:
    held, truth = [], 6 / np.pi * np.arcsin(np.sqrt(0.5) / 2)  # of two normal numbers
    for seed in range(200):
        random = np.random.default_rng(seed)
        first = random.normal(size=80)
        second = first + random.normal(size=80)
        statistic = rank_correlation_of(first, second)
        drawn = intervals({"rho": statistic}, np.arange(80), num_resamples=1_000)
        found = drawn["rho"]
        held.append(found.low <= truth <= found.high)
    assert 0.88 <= np.mean(held) <= 0.99


def test_the_same_seed_draws_the_same() -> None:
    statistics, units = statistics_of(*draw_labels(50, seed=1)), np.arange(50)
    assert intervals(statistics, units, seed=7) == intervals(statistics, units, seed=7)
    assert intervals(statistics, units, seed=7) != intervals(statistics, units, seed=8)


def test_examples_that_repeat_each_other_count_once() -> None:
    gold, given = draw_labels(70, seed=2)
    alone = intervals(statistics_of(gold, given), np.arange(70))
    thrice = statistics_of(np.repeat(gold, 3), np.repeat(given, 3))
    together = intervals(thrice, np.repeat(np.arange(70), 3))
    apart = intervals(thrice, np.arange(210))
    for name in ("accuracy", "macro_f1", "mcc"):
        assert together[name].low == pytest.approx(alone[name].low, abs=0.02)
        width = together[name].high - together[name].low
        assert apart[name].high - apart[name].low < 0.75 * width


def test_one_unit_has_no_interval() -> None:
    assert intervals(statistics_of(*draw_labels(9, seed=1)), np.zeros(9, int)) == {}


def test_a_score_without_spread_has_an_interval_of_one_point() -> None:
    sample = Sample.of(np.ones((5, 2)))
    found = intervals({"all": Statistic(sample, lambda s: s[..., 0] / s[..., 1])}, np.arange(5))
    assert (found["all"].low, found["all"].high) == (1.0, 1.0)


@pytest.mark.parametrize("num_each", [1, 2, 5])
def test_the_range_of_a_mean_over_many_rare_labels_lies_around_it(num_each: int) -> None:
    random = np.random.default_rng(6)
    gold = np.repeat(np.arange(98), num_each)
    given = np.where(random.random(len(gold)) < 0.9, gold, (gold + 1) % 98)
    for answers in (gold, given):
        scores = LabelScores(98)
        for sought, said in zip(gold, answers, strict=True):
            scores.add(int(sought), np.eye(98)[said].tolist())
        found = intervals(scores.statistics(), np.arange(len(gold)))
        for name in ("f1", "precision", "recall"):
            assert found[name].low <= found[name].mean <= found[name].high


def test_a_label_without_any_example_counts_in_no_drawn_sample() -> None:
    scores = LabelScores(3)
    for number in range(40):
        scores.add(number % 2, np.eye(3)[number % 2].tolist())
    found = intervals(scores.statistics(), np.arange(40))["f1"]
    assert (found.low, found.mean, found.high) == pytest.approx((1, 1, 1))


# Means


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
