"""Multilabel: every label by itself, windows that share them, and the threshold."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.data.packing import flatten
from bertworks.tasks.catalog import make_task
from bertworks.tasks.multilabel import (
    LabelEmphasis,
    MultiLabel,
    best_threshold,
    learn_label_sets,
    make_multilabel,
)
from bertworks.tasks.task import Answer, Tunable

LABELS = ("art", "law", "war")


@pytest.fixture
def task() -> MultiLabel:
    return MultiLabel(LABELS)


@pytest.fixture
def decode(tokenizer):
    """Return a way to answer from the logits of one or more windows."""

    def decode(task: MultiLabel, logits: np.ndarray) -> Answer:
        return task.decode(TextExample("t"), [], [row[None] for row in logits], tokenizer)

    return decode


@given(st.sets(st.sampled_from(LABELS)), st.integers(1, 99), st.integers(9, 67))
def test_windows_share_the_labels_and_one_weight(
    task, tokenizer, labels: set[str], num_words: int, longest: int
) -> None:
    example = TextExample("the cat " * num_words, labels=tuple(labels))
    windows = task.features(example, tokenizer, longest=longest)
    expected = [float(label in labels) for label in LABELS]
    goals = [window.goals["multilabel"] for window in windows]
    assert math.isclose(sum(goal.weight for goal in goals), 1.0)
    assert all(goal.values.tolist() == [expected] for goal in goals)
    target = flatten(windows).targets["multilabel"]
    assert target.values.shape == (len(windows), 3)
    assert target.count == pytest.approx(1.0)


def test_no_label_is_an_answer_and_not_knowing_is_none(task, tokenizer) -> None:
    windows = [
        task.features(TextExample("the cat", labels=labels), tokenizer, longest=67)[0]
        for labels in ((), None)
    ]
    target = flatten(windows).targets["multilabel"]
    assert target.found.tolist() == [True, False]
    assert target.count == 1


def test_an_unknown_label_is_named_with_those_that_are_known(task, tokenizer) -> None:
    with pytest.raises(DataError, match=r"the label 'sea'.*\(art, law, war\)"):
        task.features(TextExample("t", labels=("art", "sea")), tokenizer, longest=67)


def test_the_loss_is_the_binary_cross_entropy_of_every_label(task) -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    values = torch.tensor([[0, 1, 1], [0, 0, 0], [math.nan] * 3, [1, 1, 1]])
    known = [0, 1, 3]
    each = functional.binary_cross_entropy_with_logits(
        logits[known], values[known], reduction="none"
    ).mean(1)
    torch.testing.assert_close(task.loss(logits, Target(values)), each.sum())
    weights = torch.tensor([0.5, 1.0, 1.0, 0.25])
    found = task.loss(logits, Target(values, weights=weights))
    torch.testing.assert_close(found, (each * weights[known]).sum())


def test_a_network_that_knows_nothing_says_how_common_labels_are(decode) -> None:
    sets = [("art",), ("art", "law"), ("art",), ("art", "war")] + [()] * 4
    options = learn_label_sets([TextExample("t", labels=labels) for labels in sets])
    task = make_multilabel(**options)
    silent = np.zeros((1, 3), np.float32)
    chances = list(decode(task, silent)["probabilities"].values())
    assert chances == pytest.approx([4.5 / 9, 1.5 / 9, 1.5 / 9])
    gold = torch.tensor([[1.0, 0.0, 1.0]])
    moved = torch.tensor([options["prior"]])
    expected = functional.binary_cross_entropy_with_logits(moved, gold)
    torch.testing.assert_close(task.loss(torch.zeros(1, 3), Target(gold)), expected)


def test_what_is_not_known_teaches_nothing(task) -> None:
    logits = torch.randn(2, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    task.loss(logits, Target(torch.tensor([[math.nan] * 3, [1.0, 0.0, 1.0]]))).backward()
    assert logits.grad is not None
    assert (logits.grad == 0).tolist() == [[True] * 3, [False] * 3]


def test_balance_and_focus_change_training_and_no_score() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    values = torch.tensor([[0.0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
    pairs = ((0.5, 2.0), (1.0, 3.0), (0.25, 0.75))
    task = make_multilabel(LABELS, emphasis=LabelEmphasis(pairs, focal=2.0))
    chances = torch.where(values > 0, logits.sigmoid(), 1 - logits.sigmoid())
    weights = torch.where(values > 0, *(torch.tensor(pairs)[:, side] for side in (1, 0)))
    expected = (weights * (1 - chances) ** 2 * -chances.log()).mean(1).sum()
    torch.testing.assert_close(task.loss(logits, Target(values)), expected)
    plain = MultiLabel(LABELS).loss(logits, Target(values)).detach()
    torch.testing.assert_close(task.loss(logits.detach(), Target(values)), plain)


@pytest.mark.parametrize("margin", [12.0, 18.0, 200.0])
def test_focal_loss_of_labels_that_are_surely_right_is_nearly_flat(margin: float) -> None:
    logits = torch.tensor([[margin, -margin, margin]], requires_grad=True)
    task = make_multilabel(LABELS, emphasis=LabelEmphasis(focal=0.5))
    task.loss(logits, Target(torch.tensor([[1.0, 0.0, 1.0]]))).backward()
    assert logits.grad.abs().max() < 1e-4


def test_a_balanced_label_counts_as_much_where_it_is_as_where_it_is_not() -> None:
    sets = [("a",), ("a", "b"), ("a",), (), ("a",)]
    options = learn_label_sets(
        [TextExample("t", labels=labels) for labels in sets], class_weights="balanced"
    )
    assert options["labels"] == ("a", "b")
    for label, (absent, present) in zip("ab", options["emphasis"].weights, strict=True):
        count = sum(label in labels for labels in sets)
        assert count * present == pytest.approx(2.5)
        assert (5 - count) * absent == pytest.approx(2.5)


def test_a_label_that_all_examples_have_divides_by_nothing() -> None:
    examples = [TextExample("t", labels=labels) for labels in (("a",), ("a", "b"), ("a",))]
    pairs = learn_label_sets(examples, class_weights="balanced")["emphasis"].weights
    assert np.isfinite(pairs).all()


def test_examples_that_do_not_differ_in_labels_are_nothing_to_learn_from() -> None:
    with pytest.raises(DataError, match="has no label at all"):
        learn_label_sets([TextExample("t", labels=())] * 3)
    with pytest.raises(DataError, match=r"has the same labels on every row \(a, b\), so there is"):
        learn_label_sets([TextExample("t", labels=labels) for labels in (("a", "b"), ("b", "a"))])
    assert learn_label_sets([TextExample("t", labels=labels) for labels in ((), ("a",))])


def test_the_answer_names_labels_above_the_threshold_of_averaged_logits(decode) -> None:
    logits = np.array([[3.0, -1.0, -3.0], [-1.0, 0.0, -1.0]], np.float32)
    chances = torch.tensor(logits, dtype=torch.float64).mean(0).sigmoid().tolist()
    found = decode(MultiLabel(LABELS), logits)
    assert list(found["probabilities"].values()) == pytest.approx(chances)
    assert found["labels"] == ["art"]
    assert decode(MultiLabel(LABELS, threshold=0.3), logits)["labels"] == ["art", "law"]
    assert decode(MultiLabel(LABELS, threshold=0.9), logits)["labels"] == []


@given(st.lists(st.floats(-1e5, 1e5, width=32), min_size=3, max_size=3))
def test_probabilities_are_finite_whatever_the_logits(decode, row: list[float]) -> None:
    found = decode(MultiLabel(LABELS), np.array([row], np.float32))
    assert all(0 <= chance <= 1 for chance in found["probabilities"].values())


@given(st.integers(1, 40), st.integers(0, 2**31))
def test_no_threshold_is_better_than_the_tuned_one(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    chances = random.integers(0, 7, count) / 6  # many are equal
    gold = random.random(count) < 0.4
    best = best_threshold(gold, chances, usual=0.5)
    if not gold.any():
        assert best == 0.5
        return
    scores = {
        level: 2 * (gold & given).sum() / (gold.sum() + given.sum())
        for level in (*np.linspace(0, 1, 43), best)
        for given in [chances >= level]
    }
    assert scores[best] == pytest.approx(max(scores.values()))


def test_tuning_changes_the_threshold_alone(decode, score) -> None:
    task = MultiLabel(LABELS, pooling="mean", dropout=0.25, name="topics")
    assert isinstance(task, Tunable)
    logits = [np.array([row], np.float32) for row in ([-1, -3, -4], [-4, -1.5, -3], [-9, -9, -9])]
    examples = [TextExample("t", labels=labels) for labels in (("art",), ("law",), ())]
    answers = [decode(task, row) for row in logits]
    assert score(task, answers, examples)["micro_f1"] == 0
    tuned = task.tuned(examples, answers)
    assert tuned.name == "topics"
    assert {**tuned.options, "threshold": 0.5} == task.options
    again = [decode(tuned, row) for row in logits]
    found = score(tuned, again, examples)
    assert (found["micro_f1"], found["subset_accuracy"]) == (1.0, 1.0)


def test_verdicts_name_the_sets_and_the_least_sure_label(task, decode) -> None:
    answer = decode(task, np.array([[2.0, 1.0, -3.0]], np.float32))
    scorer = task.scorer()
    verdict = scorer.add(TextExample("t", labels=("law", "art")), answer)
    assert (verdict.gold, verdict.given, verdict.score) == ("art, law", "art, law", 1.0)
    assert verdict.certainty == pytest.approx(answer["probabilities"]["law"])
    verdict = scorer.add(TextExample("t", labels=()), answer)
    assert (verdict.gold, verdict.score) == ("none", 0.0)
    assert next(iter(scorer.metrics())) == "micro_f1"
    assert scorer.by_label()["law"] == pytest.approx(
        {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 1}
    )


def test_the_options_make_the_head(config) -> None:
    task = make_task("multilabel", LABELS, pooling="mean", dropout=0.25, threshold=0.1)
    head = task.head(config)
    assert (head.output.out_features, head.pooling, head.dropout.p) == (3, "mean", 0.25)
