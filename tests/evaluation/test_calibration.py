"""Calibration against the plain formulas, and temperatures that are found or refused."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import brier_score_loss, log_loss

from bertworks.evaluation.calibration import (
    HIGHEST,
    MOST_BINS,
    Calibration,
    Reliability,
    fit_temperature,
)
from bertworks.tasks.claims import Claims


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def draw_claims(count: int, num_labels: int, *, sharpness: float, seed: int = 0) -> list[Claims]:
    """Draw answers whose logits are as many times too large as the sharpness says."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(count, num_labels)) * 2
    right = [random.choice(num_labels, p=row) for row in softmax(logits)]
    chances = softmax(logits * sharpness)
    return [Claims.choice(row.tolist(), n) for row, n in zip(chances, right, strict=True)]


def plain_bins(chances: np.ndarray, is_right: np.ndarray) -> list[tuple[float, float, int]]:
    """Bin claims one by one: as many in each as can be, equal chances in one."""
    num_bins = min(max(len(chances) // 10, 1), MOST_BINS)
    starts = np.searchsorted(np.sort(chances), chances)
    number = starts * num_bins // len(chances)
    return [
        (chances[number == n].mean(), is_right[number == n].mean(), int((number == n).sum()))
        for n in np.unique(number)
    ]


def plain_error(bins: list[tuple[float, float, int]]) -> float:
    total = sum(count for *_, count in bins)
    return sum(count * abs(chance - right) for chance, right, count in bins) / total


def judged(chances: np.ndarray, is_right: np.ndarray, *, at_once: int = 7) -> Calibration:
    kept = Reliability()
    for start in range(0, len(chances), at_once):
        part = slice(start, start + at_once)
        kept.add(Claims.each(chances[part], is_right[part]))
    found = kept.calibration()
    assert found is not None
    return found


@given(st.integers(10, 400), st.integers(0, 2**31))
def test_bins_are_those_of_claims_one_by_one_where_different_ones_lie_apart(
    count: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    chances = 1 / (1 + np.exp(-(random.choice(801, count) - 400) / 50))
    is_right = random.random(count) < chances
    found, expected = judged(chances, is_right, at_once=1), plain_bins(chances, is_right)
    assert [one.count for one in found.bins] == [count for *_, count in expected]
    np.testing.assert_allclose(
        [(one.chance, one.right) for one in found.bins], [own[:2] for own in expected]
    )
    assert found.ece == pytest.approx(plain_error(expected))


@given(st.integers(1_000, 4_000), st.integers(0, 2**31), st.sampled_from([0.5, 2.0, 8.0]))
@settings(max_examples=30)
def test_the_error_is_nearly_that_of_claims_one_by_one(
    count: int, seed: int, sharpness: float
) -> None:
    random = np.random.default_rng(seed)
    logits = random.normal(size=count) * 2
    chances = 1 / (1 + np.exp(-logits * sharpness))
    is_right = random.random(count) < 1 / (1 + np.exp(-logits))
    found, expected = judged(chances, is_right), plain_bins(chances, is_right)
    assert found.ece == pytest.approx(plain_error(expected), abs=2e-3)
    assert sum(one.count for one in found.bins) == count
    total = sum(one.chance * one.count for one in found.bins)
    assert total == pytest.approx(chances.sum())


def test_chances_at_the_ends_are_kept_as_they_are() -> None:
    chances = np.array([0.0, 1e-300, 1e-9, 1 - 1e-9, 1.0] * 10)
    found = judged(chances, chances > 0.5, at_once=5)
    assert found.ece == pytest.approx(0, abs=1e-8)
    assert found.brier == pytest.approx(0, abs=1e-8)


def test_what_is_kept_of_claims_does_not_grow_with_them() -> None:
    random, sizes = np.random.default_rng(5), []
    for count in (1, 200):
        kept = Reliability()
        for _ in range(count):
            kept.add(Claims.each(random.random(1_000), random.random(1_000) < 0.5))
        sizes.append(len(pickle.dumps(kept)))
    assert sizes[1] - sizes[0] < 200 * 10  # a number for each answer, and none for each claim


def test_equal_chances_share_a_bin() -> None:
    found = judged(np.array([0.5] * 90 + [0.9] * 10), np.arange(100) % 2 == 0)
    assert [one.count for one in found.bins] == [90, 10]


def test_the_scores_of_two_labels_are_those_of_scikit_learn() -> None:
    claims, kept = draw_claims(200, 2, sharpness=1.5), Reliability()
    for one in claims:
        kept.add(one)
    found = kept.calibration()
    assert found is not None
    gold = [one.is_right[1] for one in claims]
    expected = brier_score_loss(gold, [one.chances[1] for one in claims])
    assert found.brier == pytest.approx(expected)


def test_chances_that_are_true_have_less_error_than_ones_that_are_too_sure() -> None:
    errors = []
    for sharpness in (1.0, 4.0):
        kept = Reliability()
        for one in draw_claims(5_000, 4, sharpness=sharpness):
            kept.add(one)
        errors.append(kept.calibration().ece)
    assert errors[0] < 0.02 < 0.1 < errors[1]


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_the_temperature_is_where_the_loss_is_least(sharpness: float) -> None:
    claims = draw_claims(700, 3, sharpness=sharpness, seed=2)
    temperature, refusal = fit_temperature(claims)
    assert refusal is None
    logits = np.log([one.chances for one in claims])
    gold = [int(one.is_right.argmax()) for one in claims]
    best = minimize_scalar(
        lambda log: log_loss(gold, softmax(logits / np.exp(log)), labels=range(3)),
        bounds=(-2.9, 2.9),
        method="bounded",
    )
    assert temperature == pytest.approx(np.exp(best.x), rel=1e-3)
    assert temperature == pytest.approx(sharpness, rel=0.3)


def test_sets_of_labels_have_one_temperature_for_all() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(500, 4)) * 2
    is_right = random.random((500, 4)) < 1 / (1 + np.exp(-logits))
    chances = 1 / (1 + np.exp(-2.5 * logits))
    pairs = zip(chances, is_right, strict=True)
    temperature, refusal = fit_temperature([Claims.each(*pair) for pair in pairs])
    assert refusal is None
    assert temperature == pytest.approx(2.5, rel=0.2)


def test_questions_may_have_different_numbers_of_choices() -> None:
    claims = draw_claims(300, 2, sharpness=2.0) + draw_claims(300, 5, sharpness=2.0)
    temperature, refusal = fit_temperature(claims)
    assert refusal is None
    assert temperature == pytest.approx(2.0, rel=0.25)


def test_answers_that_hardly_differ_tell_no_temperature_and_are_not_called_right() -> None:
    claims = [Claims.choice([0.5001, 0.4999], 0)] * 40 + [Claims.choice([0.5001, 0.4999], 1)] * 9
    temperature, refusal = fit_temperature(claims)
    assert temperature == 1.0
    assert refusal is not None
    assert "differ too little in how sure they are; train longer" in refusal


def test_answers_that_are_all_right_tell_no_temperature() -> None:
    claims = [Claims.choice([0.6, 0.4], 0)] * 40
    temperature, refusal = fit_temperature(claims)
    assert temperature == 1.0
    assert refusal is not None
    assert "right however sure they are" in refusal
    one_wrong = [*claims, Claims.choice([0.55, 0.45], 1)]
    temperature, refusal = fit_temperature(one_wrong)
    assert refusal is None
    assert 1 / HIGHEST < temperature < 1


def test_answers_that_are_all_wrong_tell_no_temperature() -> None:
    temperature, refusal = fit_temperature([Claims.choice([0.9, 0.1], 1)] * 40)
    assert temperature == 1.0
    assert refusal is not None
    assert "no better than chance" in refusal


@pytest.mark.parametrize("count", [0, 1, 29])
def test_few_examples_tell_no_temperature(count: int) -> None:
    temperature, refusal = fit_temperature(draw_claims(count, 3, sharpness=2.0) if count else [])
    assert temperature == 1.0
    told = "1 example is" if count == 1 else f"{count} examples are"
    assert refusal == f"{told} too few to tell it; 30 may do"


def test_chances_of_nothing_and_of_all_do_no_harm() -> None:
    sure = [Claims.choice([1.0, 0.0], 0)] * 30 + [Claims.choice([1.0, 0.0], 1)] * 3
    temperature, refusal = fit_temperature(sure)
    assert np.isfinite(temperature)
    assert temperature > 0
    assert refusal is None or temperature == 1.0
