"""Scores as functions of sums, against plain formulas and the bootstrap one by one."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from bertworks.tasks.statistic import (
    Sample,
    Statistic,
    area_of,
    correlation_of,
    distinct,
    mean_of,
    rank_correlation_of,
    ranks_of,
    share_of,
)


def draw_numbers(count: int, seed: int, *, tied: bool) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    first = random.normal(size=count)
    second = first + random.normal(size=count)
    return (np.round(first * 2) if tied else first), second


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**31))
def test_a_sample_keeps_what_each_example_adds(count: int, width: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 2, (count, width)).astype(float)
    sample = Sample.of(values)
    np.testing.assert_array_equal(sample.values, values)
    np.testing.assert_allclose(sample.sums, values.sum(0))
    assert len(sample.rows) == len({tuple(row) for row in values}) <= 2**width


def test_two_samples_stand_beside_each_other() -> None:
    random = np.random.default_rng(8)
    first, second = random.integers(0, 3, (40, 2)) * 1.0, random.integers(0, 3, (40, 3)) * 1.0
    both = Sample.of(first).beside(Sample.of(second))
    np.testing.assert_array_equal(both.values, np.concatenate([first, second], axis=1))
    assert len(both.rows) == len({tuple(row) for row in both.values})


def test_the_examples_of_a_unit_add_together() -> None:
    sample = Sample.of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    joined = sample.joined(np.array([0, 1, 0]))
    np.testing.assert_array_equal(joined.values, [[6.0, 8.0], [3.0, 4.0]])
    assert sample.joined(np.arange(3)) is sample


@given(st.integers(2, 40), st.integers(0, 2**31))
def test_units_of_the_same_rows_share_one(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 3, (count, 2)).astype(float)
    chosen = random.integers(0, count - 1, count)  # so that some share a unit
    units = np.unique(chosen, return_inverse=True)[1].reshape(-1)
    joined = Sample.of(values).joined(units)
    sums = [values[units == unit].sum(0) for unit in range(units.max() + 1)]
    np.testing.assert_allclose(joined.values, sums)
    made_of = {tuple(sorted(map(tuple, values[units == unit]))) for unit in range(len(sums))}
    assert len(joined.rows) == len(made_of)


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=30))
def test_different_numbers_are_those_of_numpy(values: list[int]) -> None:
    numbers, which = distinct(np.array(values))
    expected = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(numbers, expected[0])
    np.testing.assert_array_equal(which, expected[1])


def test_different_numbers_take_few_bytes_each() -> None:
    values = np.random.default_rng(3).random(100_000)
    tracemalloc.start()
    distinct(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * len(values)


def test_many_rows_stand_beside_many() -> None:
    many = np.arange(70_000.0)
    both = mean_of(many).sample.beside(mean_of(many[::-1]).sample)
    assert len(both.rows) == 70_000  # whose squares are beyond small whole numbers
    np.testing.assert_array_equal(both.values[:, [0, 2]], np.stack([many, many[::-1]], axis=1))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_ranks_are_those_of_scipy(values: list[int]) -> None:
    np.testing.assert_allclose(ranks_of(np.array(values)), stats.rankdata(values))


def test_means_and_shares_are_what_they_are_called() -> None:
    assert mean_of(np.array([True, False, True, True])).value == 0.75
    assert share_of(np.array([1, 0, 2]), np.array([2, 1, 2])).value == pytest.approx(3 / 5)
    assert share_of(np.zeros(2), np.zeros(2)).value == 0.0


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    return stats.spearmanr(first, second).statistic


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    return stats.pearsonr(first, second).statistic


def area(first: np.ndarray, second: np.ndarray) -> float:
    return roc_auc_score(first > 0, second)


def area_statistic(first: np.ndarray, second: np.ndarray) -> Statistic:
    found = area_of(first[:, None] > 0, second[:, None])
    assert found is not None
    return found


FORMULAS = [
    (correlation_of, pearson),
    (rank_correlation_of, spearman),
    (area_statistic, area),
]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("ours", "formula"), FORMULAS)
def test_what_each_example_moves_is_what_leaving_it_out_tells(
    ours: Callable[..., Statistic], formula: Callable[..., float], tied: bool
) -> None:
    first, second = draw_numbers(300, 7, tied=tied)
    found = ours(first, second)
    assert found.value == pytest.approx(formula(first, second))
    moves = found.sample.values[:, 0] - found.value
    lost = [
        formula(np.delete(first, n), np.delete(second, n)) - found.value for n in range(len(first))
    ]
    jackknife = -np.array(lost) * (len(first) - 1)
    assert np.corrcoef(moves, jackknife)[0, 1] > 0.99
    assert moves.std() == pytest.approx(jackknife.std(), rel=0.05)


def test_columns_without_both_kinds_of_gold_have_no_area() -> None:
    gold = np.array([[True, True, False], [True, False, False], [True, True, False]])
    chances = np.array([[0.1, 0.9, 0.5], [0.2, 0.3, 0.5], [0.3, 0.2, 0.5]])
    found = area_of(gold, chances)
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert area_of(gold[:, [0, 2]], chances[:, [0, 2]]) is None
