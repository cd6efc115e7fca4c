"""Scores against scikit-learn and the plain formulas, and gold that leaves some undefined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from bertworks.tasks.metrics import LabelScores, LabelSetScores, NumberScores


def label_metrics(gold: list[int], probabilities: np.ndarray) -> dict[str, float]:
    scores = LabelScores(probabilities.shape[1])
    for label, row in zip(gold, probabilities, strict=True):
        assert scores.add(label, row.tolist()) == row.argmax()
    return scores.metrics()


def draw(num_labels: int, num_examples: int, seed: int) -> tuple[list[int], np.ndarray]:
    random = np.random.default_rng(seed)
    gold = random.integers(num_labels, size=num_examples).tolist()
    return gold, random.dirichlet(np.ones(num_labels), size=num_examples)


@given(st.integers(2, 7), st.integers(1, 60), st.integers(0, 2**31))
def test_scores_are_those_of_scikit_learn(num_labels: int, num_examples: int, seed: int) -> None:
    gold, probabilities = draw(num_labels, num_examples, seed)
    found = label_metrics(gold, probabilities)
    predicted = probabilities.argmax(1)
    assert next(iter(found)) == "accuracy"
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(gold, predicted))
    labels = sorted({*gold})
    if len(labels) == 1:
        assert [*found] == ["accuracy"]
        return
    each = metrics.f1_score(gold, predicted, labels=labels, average=None, zero_division=0)
    assert found["f1"] == pytest.approx(each[1] if num_labels == 2 else each.mean())
    assert found["mcc"] == pytest.approx(metrics.matthews_corrcoef(gold, predicted))
    if num_labels == 2:
        assert found["auc"] == pytest.approx(metrics.roc_auc_score(gold, probabilities[:, 1]))
    if num_labels > 2 and len(set(gold)) == num_labels:
        area = metrics.roc_auc_score(gold, probabilities, multi_class="ovr")
        assert found["auc"] == pytest.approx(area)
    for average in ("macro", "micro"):
        for name in ("precision", "recall", "f1"):
            formula = getattr(metrics, f"{name}_score")
            chosen = labels if average == "macro" else list(range(num_labels))
            expected = formula(gold, predicted, labels=chosen, average=average, zero_division=0)
            prefix = "" if average == "macro" and num_labels > 2 else f"{average}_"
            assert found[f"{prefix}{name}"] == pytest.approx(expected)


@given(st.integers(2, 60), st.integers(0, 2**31))
def test_scores_of_two_labels_follow_their_formulas(num_examples: int, seed: int) -> None:
    gold, probabilities = draw(2, num_examples, seed)
    found = label_metrics(gold, probabilities)
    g, p = np.array(gold, float), probabilities.argmax(1).astype(float)
    hits, false, missed = (g * p).sum(), ((1 - g) * p).sum(), (g * (1 - p)).sum()
    assert found["accuracy"] == pytest.approx((g == p).mean())
    if not g.std():
        return
    assert found["f1"] == pytest.approx(2 * hits / max(2 * hits + false + missed, 1))
    assert found["mcc"] == pytest.approx(np.corrcoef(g, p)[0, 1] if p.std() else 0.0)
    wins = probabilities[g == 1, 1][:, None] - probabilities[g == 0, 1][None]
    assert found["auc"] == pytest.approx((np.sign(wins) / 2 + 0.5).mean())


@pytest.mark.parametrize("only", [0, 1])
@pytest.mark.parametrize("num_labels", [2, 3])
@pytest.mark.parametrize("count", [1, 5])
def test_gold_of_one_class_tells_the_accuracy_alone(only: int, num_labels: int, count: int) -> None:
    right = np.eye(num_labels)[[only] * count]
    assert label_metrics([only] * count, right) == {"accuracy": 1.0}
    wrong = np.eye(num_labels)[[1 - only] * count]
    assert label_metrics([only] * count, wrong) == {"accuracy": 0.0}


def test_what_gold_does_not_tell_is_said_in_a_sentence() -> None:
    labels, sets, numbers = LabelScores(2), LabelSetScores(2), NumberScores()
    assert (labels.lacking, numbers.lacking) == ("", "")
    labels.add(1, [0.1, 0.9])
    sets.add(np.zeros(2), np.ones(2), [0.9, 0.8])
    numbers.add(2.5, 1.0)
    assert "same label, so accuracy alone" in labels.lacking
    assert "no example has a label" in sets.lacking
    assert sets.metrics() == {"subset_accuracy": 0.0}
    assert "all gold scores are 2.5" in numbers.lacking
    labels.add(0, [0.1, 0.9])
    sets.add(np.array([0, 1]), np.ones(2), [0.9, 0.8])
    numbers.add(3.0, 1.0)
    assert {labels.lacking, sets.lacking, numbers.lacking} == {""}


def test_a_label_that_never_occurs_has_no_part_in_the_mean() -> None:
    found = label_metrics([0, 1], np.eye(3)[[0, 1]])
    assert found["f1"] == found["macro_f1"] == 1.0
    found = label_metrics([0, 1, 1], np.eye(3)[[0, 2, 1]])  # given, it costs the label it took
    assert found["f1"] == pytest.approx((1 + 2 / 3) / 2)


def test_scores_are_plain_numbers() -> None:
    gold, probabilities = draw(2, 30, seed=1)
    assert {type(value) for value in label_metrics(gold, probabilities).values()} == {float}


def test_each_label_has_scores_of_its_own() -> None:
    gold, probabilities = draw(4, 50, seed=2)
    scores = LabelScores(4)
    for label, row in zip(gold, probabilities, strict=True):
        scores.add(label, row.tolist())
    expected = metrics.precision_recall_fscore_support(
        gold, probabilities.argmax(1), zero_division=0
    )
    found = [list(row.values()) for row in scores.by_label()]
    np.testing.assert_allclose(found, np.transpose(expected))
    assert list(scores.by_label()[0]) == ["precision", "recall", "f1", "support"]


# Several labels


@pytest.mark.parametrize("num_labels", [1, 2, 5])
@pytest.mark.parametrize("num_examples", [1, 2, 17])
def test_sets_of_labels_are_scored_as_by_scikit_learn(num_labels: int, num_examples: int) -> None:
    random = np.random.default_rng(num_labels + num_examples)
    gold = random.random((num_examples, num_labels)) < 0.4
    gold[0, 0] = True
    chances = random.random((num_examples, num_labels))
    given = chances >= 0.6
    scores = LabelSetScores(num_labels)
    for row in zip(gold, given, chances, strict=True):
        scores.add(row[0], row[1], row[2].tolist())
    found = scores.metrics()
    assert next(iter(found)) == "micro_f1"
    assert found["subset_accuracy"] == pytest.approx((gold == given).all(1).mean())
    columns = [
        metrics.precision_recall_fscore_support(
            gold[:, label], given[:, label], average="binary", zero_division=0
        )[:3]
        for label in range(num_labels)
    ]
    for name, values in zip(("precision", "recall", "f1"), np.transpose(columns), strict=True):
        assert found[f"macro_{name}"] == pytest.approx(values[gold.any(0)].mean())
        whole = getattr(metrics, f"{name}_score")
        expected = whole(gold.ravel(), given.ravel(), zero_division=0)
        assert found[f"micro_{name}"] == pytest.approx(expected)
        assert [row[name] for row in scores.by_label()] == pytest.approx(values.tolist())
    mixed = [label for label in range(num_labels) if 0 < gold[:, label].sum() < num_examples]
    areas = [metrics.roc_auc_score(gold[:, label], chances[:, label]) for label in mixed]
    assert found.get("auc") == (pytest.approx(np.mean(areas)) if areas else None)
    assert {type(value) for value in found.values()} == {float}


# Numbers


def number_metrics(gold: list[float], given: list[float]) -> dict[str, float]:
    scores = NumberScores()
    for pair in zip(gold, given, strict=True):
        scores.add(*pair)
    return scores.metrics()


@given(st.integers(2, 50), st.integers(0, 2**31))
def test_correlations_are_those_of_scipy(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    gold = random.integers(0, 5, count).astype(float)
    gold[0] = 9.0
    given = gold + random.normal(size=count)
    found = number_metrics(gold.tolist(), given.tolist())
    assert found["pearson"] == pytest.approx(stats.pearsonr(gold, given).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(gold, given).statistic)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(gold - given).mean())


@pytest.mark.parametrize(
    ("gold", "given", "named"),
    [
        ([1.0, 2.0], [0.1, 0.1], "all scores that are given are 0.1"),
        ([1.0, 2.0, 4.0], [3.0] * 3, "all scores that are given are 3"),
    ],
)
def test_answers_that_never_change_go_with_nothing_and_that_is_said(
    gold: list[float], given: list[float], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = number_metrics(gold, given)
    assert (found["pearson"], found["spearman"]) == (0.0, 0.0)
    assert found["mean_absolute_error"] == pytest.approx(abs(gold[0] - given[0]), abs=1)
    assert f"{named}, so there is nothing to correlate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gold", "given"), [([2.5, 2.5], [1.0, 2.0]), ([0.1] * 3, [0.3] * 3), ([4.0], [3.0])]
)
def test_gold_that_never_changes_tells_the_distance_alone(
    gold: list[float], given: list[float]
) -> None:
    far = np.abs(np.subtract(gold, given)).mean()
    assert number_metrics(gold, given) == {"mean_absolute_error": pytest.approx(far)}


def test_numbers_are_scored_without_a_word_where_they_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    number_metrics([1.0, 2.0], [2.0, 1.0])
    assert capsys.readouterr().err == ""
