"""Means over labels beside scikit-learn's: over labels of the gold, whatever was answered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from bertworks.tasks.metrics import LabelScores, LabelSetScores

NAMES = ("precision", "recall", "f1")


def ours(gold: np.ndarray, answers: np.ndarray, num_labels: int) -> dict[str, float]:
    scores = LabelScores(num_labels)
    for label, row in zip(gold, np.eye(num_labels)[answers], strict=True):
        scores.add(int(label), row.tolist())
    found = scores.metrics()
    return {name: found[name] for name in NAMES}


def theirs(gold: np.ndarray, answers: np.ndarray, **how) -> dict[str, float]:
    rates = {name: getattr(metrics, f"{name}_score") for name in NAMES}
    return {
        name: rate(gold, answers, average="macro", zero_division=0, **how)
        for name, rate in rates.items()
    }


@given(st.integers(3, 7), st.integers(2, 60), st.integers(0, 2**31))
def test_a_mean_is_that_of_scikit_learn_over_the_labels_of_the_gold(
    num_labels: int, num_examples: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    gold, answers = random.integers(num_labels, size=(2, num_examples))
    gold[:2] = 0, 1  # one label alone has no mean
    known = np.unique(gold)
    found = ours(gold, answers, num_labels)
    assert found == pytest.approx(theirs(gold, answers, labels=known))
    # By default labels that were only ever answered count as 0 there.
    either = np.union1d(gold, answers)
    shrunk = {name: value * len(known) / len(either) for name, value in found.items()}
    assert theirs(gold, answers) == pytest.approx(shrunk)
    if len(known) == len(either):
        assert found["recall"] == pytest.approx(metrics.balanced_accuracy_score(gold, answers))


def test_a_label_that_only_an_answer_has_lowers_the_default_mean_and_not_ours() -> None:
    gold, answers = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        balanced = metrics.balanced_accuracy_score(gold, answers)  # which means what ours does
    assert ours(gold, answers, 3)["recall"] == balanced == 0.75
    assert theirs(gold, answers)["recall"] == 0.5


def test_the_mean_over_sets_of_labels_leaves_out_what_no_set_has() -> None:
    random = np.random.default_rng(3)
    gold, answers = random.random((2, 40, 5)) < 0.4
    gold[:, 3] = False
    scores = LabelSetScores(5)
    for row, given_row in zip(gold, answers, strict=True):
        scores.add(row, given_row, given_row.astype(float).tolist())
    found = scores.metrics()
    for name, value in theirs(gold, answers, labels=[0, 1, 2, 4]).items():
        assert found[f"macro_{name}"] == pytest.approx(value)
    assert found["macro_f1"] > theirs(gold, answers)["f1"]
