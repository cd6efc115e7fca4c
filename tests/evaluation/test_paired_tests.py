"""Tests of two systems against scipy, brute force and simulated data."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bertworks.evaluation import paired_tests
from bertworks.evaluation.paired_tests import (
    Difference,
    Pair,
    compare_scores,
    holm,
    mcnemar,
    num_needed,
    outcomes,
    randomization,
)
from bertworks.tasks.metrics import LabelScores
from bertworks.tasks.statistic import Statistic, area_of, mean_of, share_of


def draw_outcomes(count: int, seed: int, *, better: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw the right answers of two systems that agree often; the second may be better."""
    random = np.random.default_rng(seed)
    first = random.random(count) < 0.7
    moved = random.random(count)
    flipped = (moved < 0.1) | (~first & (moved > 1 - better))
    return first, first ^ flipped


def compare_one(first: Statistic, second: Statistic) -> Difference:
    return compare_scores({"score": first}, {"score": second, "other": first})["score"]


def swap(first: Statistic, second: Statistic, *, seed: int = 0) -> float:
    pair = Pair(first, second, first.sample.beside(second.sample))
    return randomization({"score": pair}, seed=seed)["score"]


def macro_f1(gold: np.ndarray, given_labels: np.ndarray) -> Statistic:
    scores = LabelScores(3)
    for label, row in zip(gold, np.eye(3)[given_labels], strict=True):
        scores.add(int(label), row.tolist())
    return scores.statistics()["macro_f1"]


@given(st.integers(0, 24), st.integers(0, 24), st.integers(0, 9))
def test_mcnemar_is_the_binomial_test_of_answers_that_only_one_has_right(
    only_first: int, only_second: int, both: int
) -> None:
    first = np.array([True] * only_first + [False] * only_second + [True] * both, bool)
    second = np.array([False] * only_first + [True] * only_second + [True] * both, bool)
    name, p_value = mcnemar(first, second)
    count = only_first + only_second
    if count >= 25:
        square = max(abs(only_first - only_second) - 1, 0) ** 2 / count
        assert name == "McNemar"
        assert p_value == pytest.approx(stats.chi2.sf(square, df=1))
        return
    assert name == "McNemar, exact"
    exact = stats.binomtest(only_first, count).pvalue if count else 1.0
    assert p_value == pytest.approx(exact)


def test_the_difference_and_its_interval_are_paired() -> None:
    first, second = draw_outcomes(300, seed=2, better=0.3)
    found = compare_one(mean_of(first), mean_of(second))
    assert (found.first, found.second) == (first.mean(), second.mean())
    assert found.interval.mean == pytest.approx(second.mean() - first.mean())
    random = np.random.default_rng(1)
    rows = random.integers(300, size=(3_000, 300))
    drawn = second[rows].mean(1) - first[rows].mean(1)
    assert found.interval.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.005)
    assert found.interval.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.005)
    assert found.test == "McNemar"


def test_scores_that_are_no_means_are_paired_too() -> None:
    random = np.random.default_rng(3)
    gold = random.integers(3, size=120)
    sides = [np.where(random.random(120) < share, gold, 0) for share in (0.5, 0.6)]
    first, second = (macro_f1(gold, side) for side in sides)
    paired = Pair(first, second, first.sample.beside(second.sample)).difference
    assert paired.value == pytest.approx(second.value - first.value)
    found = compare_one(first, second)
    assert found.test == "randomization"
    assert found.interval.low < paired.value < found.interval.high


def test_randomization_is_the_share_of_all_ways_to_swap() -> None:
    random = np.random.default_rng(4)
    gold = random.integers(3, size=9)
    sides = [random.integers(3, size=9), gold.copy()]
    sides[1][:3] = (gold[:3] + 1) % 3
    first, second = (macro_f1(gold, side) for side in sides)
    observed, num_extreme = abs(second.value - first.value), 0
    for swaps in range(2**9):
        is_swapped = (swaps >> np.arange(9)) & 1 == 1
        one, two = np.where(is_swapped, *sides[::-1]), np.where(is_swapped, *sides)
        found = abs(macro_f1(gold, two).value - macro_f1(gold, one).value)
        num_extreme += found >= observed - 1e-12
    assert swap(first, second) == pytest.approx(num_extreme / 2**9, abs=0.015)
    assert swap(first, first) == 1.0


def test_randomization_of_a_mean_is_the_sign_test_of_differences() -> None:
    random = np.random.default_rng(5)
    first, second = random.random(12), random.random(12) + 0.15
    signs = np.array([[1 - 2 * (n >> k & 1) for k in range(12)] for n in range(2**12)])
    differences = second - first
    exact = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    assert swap(mean_of(first), mean_of(second)) == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("better", [0.0, 0.02])
def test_very_many_different_moves_are_swapped_as_a_whole_to_the_same_end(
    better: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(9)
    counts = random.integers(1, 40, size=700)
    hits = [random.binomial(counts, 0.6 + shift) + random.random(700) for shift in (0, better)]
    hits[1][:3] += 60  # a few that count for much
    first, second = (share_of(side, counts + random.random(700)) for side in hits)
    assert len(first.sample.rows) > 500  # so that drawing each would take too long
    crowded = swap(first, second)
    monkeypatch.setattr(paired_tests, "MOST_DRAWS", 10**9)
    assert crowded == pytest.approx(swap(first, second, seed=1), abs=0.02)
    assert crowded != swap(first, second)


def test_all_ten_thousand_swaps_are_made_of_any_number_of_moves() -> None:
    random = np.random.default_rng(2)
    first, second = (share_of(random.random(2_000), 1 + random.random(2_000)) for _ in range(2))
    least = share_of(second.sample.values[:, 0] + 9, second.sample.values[:, 1])
    assert swap(first, least) == 1 / 10_001


@pytest.mark.parametrize("kind", ["mcnemar", "randomization"])
def test_equal_systems_are_rarely_called_different(kind: str) -> None:
    found = []
    for seed in range(200):
        first, second = draw_outcomes(80, seed=seed)
        swapped = np.random.default_rng(1_000 + seed).random(80) < 0.5  # so that neither is better
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
        if kind == "mcnemar":
            found.append(mcnemar(first, second)[1])
        else:
            statistics = [share_of(side, np.ones(80)) for side in (first, second)]
            found.append(swap(*statistics, seed=seed))
    assert np.mean(np.array(found) < 0.05) <= 0.08


def test_systems_that_differ_are_told_apart() -> None:
    first, second = draw_outcomes(400, seed=1, better=0.4)
    found = compare_one(mean_of(first), mean_of(second))
    assert found.p_value < 1e-4
    assert found.interval.low > 0
    assert found.num_more == 0


def test_the_same_answers_differ_in_nothing() -> None:
    first, _ = draw_outcomes(60, seed=1)
    found = compare_one(mean_of(first), mean_of(first))
    assert (found.p_value, found.num_needed, found.num_more) == (1.0, None, None)
    assert (found.interval.low, found.interval.high) == (0.0, 0.0)


def test_scores_of_different_labels_are_tested_by_the_bootstrap() -> None:
    first, second = draw_outcomes(90, seed=3)
    wide = share_of(second, np.ones(90))
    values = np.concatenate([wide.sample.values, np.ones((90, 1))], axis=1)
    other = Statistic(type(wide.sample).of(values), wide.score)
    found = compare_one(share_of(first, np.ones(90)), other)
    assert found.test == "bootstrap"
    assert 0 < found.p_value <= 1


def test_as_many_examples_as_are_asked_for_do_tell_them_apart_four_times_in_five() -> None:
    first, second = draw_outcomes(300_000, seed=6, better=0.25)
    truth, deviation = (second * 1.0 - first).mean(), (second * 1.0 - first).std()
    needed = num_needed(truth, deviation / math.sqrt(100), 100)
    assert needed is not None
    random, found = np.random.default_rng(7), []
    for _ in range(400):
        rows = random.integers(len(first), size=needed)
        difference = second[rows] * 1.0 - first[rows]
        error = difference.std() / math.sqrt(needed)
        found.append(abs(difference.mean()) > 1.96 * error)
    assert 0.73 < np.mean(found) < 0.87
    assert num_needed(0.0, 0.1, 100) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_its_formula(p_values: list[float]) -> None:
    found = holm(p_values)
    count = len(p_values)
    for number, p_value in enumerate(p_values):
        lower = sorted((p, n) for n, p in enumerate(p_values))
        place = lower.index((p_value, number))
        stages = [(count - k) * lower[k][0] for k in range(place + 1)]
        assert found[number] == pytest.approx(min(1.0, max(stages)))


def test_only_shares_of_right_answers_have_outcomes() -> None:
    first, _ = draw_outcomes(9, seed=1)
    assert outcomes(mean_of(first)).tolist() == first.tolist()
    assert outcomes(mean_of(np.array([0.5, 1.0]))) is None
    assert outcomes(share_of(first, np.ones(9))) is None


def test_an_area_is_not_tested_as_answers_that_are_right_or_wrong() -> None:
    gold = np.tile([[True], [False]], (20, 1))
    sure, unsure = (area_of(gold, gold * 0.5 + shift) for shift in (0.0, 0.25))
    assert {*sure.sample.rows[:, 0]} == {1.0}  # as if every answer were right
    assert compare_one(sure, unsure).test == "randomization"


def test_the_difference_of_bounded_scores_is_bounded() -> None:
    gold = np.arange(12)[:, None] % 3 > 0
    chances = np.random.default_rng(2).random((12, 1))
    worst, best = area_of(gold, chances / 2 - gold), area_of(gold, chances / 2 + gold)
    middling = area_of(gold, chances)
    for first, second in ((worst, best), (worst, middling), (best, middling)):
        found = compare_one(first, second)
        assert -1 <= found.interval.low <= found.interval.high <= 1
        assert found.interval.mean == pytest.approx(second.value - first.value)
