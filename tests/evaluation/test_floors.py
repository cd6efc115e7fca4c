"""One answer for all: what it scores, and which runs are no better."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from bertworks.data.examples import (
    Found,
    QuestionExample,
    SourceExample,
    TaggedExample,
    TextExample,
)
from bertworks.evaluation.dev_scores import DevSet
from bertworks.evaluation.floors import (
    Floors,
    SeedScores,
    has_collapsed,
    is_told_collapsed,
    majority_metrics,
)
from bertworks.tasks.answering import windows_of
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Task
from bertworks.tokenizer.tokenizer import Tokenizer


@pytest.fixture
def floor(tokenizer: Tokenizer) -> Callable[[Task, list[Any]], dict[str, float]]:
    """Return what one answer for all scores."""

    def score(task: Task, examples: list[Any]) -> dict[str, float]:
        dev = DevSet(examples, windows_of(task, examples, tokenizer, longest=16))
        return majority_metrics(task, dev, tokenizer)

    return score


def questions(*answers: str) -> QuestionExample:
    return QuestionExample("who?", "cat dog", tuple(Found(text, 0) for text in answers), line=1)


def texts(labels: str) -> list[TextExample]:
    return [TextExample("cat", label=label, line=n) for n, label in enumerate(labels)]


@pytest.mark.parametrize(("labels", "share"), [("aaab", 0.75), ("abbb", 0.75), ("abcc", 0.5)])
def test_of_single_labels_it_is_the_share_of_the_most_frequent(
    labels: str, share: float, floor
) -> None:
    found = floor(make_task("classify", ("a", "b", "c")), texts(labels))
    assert found["accuracy"] == share


def test_each_metric_has_the_answer_that_suits_it_best(floor) -> None:
    found = floor(make_task("classify", ("no", "yes")), [*texts(["no"] * 3), *texts(["yes"])])
    assert found["accuracy"] == 0.75  # always no
    assert found["f1"] == pytest.approx(0.4)  # always yes
    assert (found["mcc"], found["auc"]) == (0.0, 0.5)


def test_words_all_have_the_most_frequent_tag(floor) -> None:
    words = ((0, 3), (4, 7), (8, 11))
    examples = [
        TaggedExample("cat dog mat", words, ("O", "O", tag), line=1) for tag in ("B-X", "O")
    ]
    for crf in (False, True):
        found = floor(make_task("tag", ("B-X", "O"), crf=crf), examples)
        assert found["f1"] == 0.0


def test_numbers_have_their_mean_and_several_labels_their_general_chance(floor) -> None:
    assert floor(make_task("score"), [])["pearson"] == 0.0
    examples = [
        TextExample("cat", labels=labels, line=1) for labels in (("a",), ("a", "b"), ("a",))
    ]
    task = make_task("multilabel", ("a", "b"), prior=[3.0, -1.0])
    assert floor(task, examples)["micro_f1"] == pytest.approx(6 / 7)


def test_answers_that_lie_in_the_texts_have_no_floor(floor) -> None:
    assert floor(make_task("choose"), []) == {}
    assert floor(make_task("answer"), [questions("cat")]) == {}


def test_questions_of_which_some_have_no_answer_get_none(floor) -> None:
    examples = [questions(), questions("cat"), questions()]
    found = floor(make_task("answer", nullable=True), examples)
    assert found["f1"] == found["exact_match"] == pytest.approx(2 / 3)
    assert floor(make_task("answer", nullable=True), [questions()] * 2) == {}


def test_texts_that_are_written_have_no_floor(tokenizer: Tokenizer) -> None:
    examples = [SourceExample(f"s {n}", (("a cat", "a dog")[n > 2],)) for n in range(5)]
    assert majority_metrics(make_task("generate"), DevSet(examples, []), tokenizer) == {}


def test_gold_that_is_all_alike_has_no_floor_for_one_answer_is_right(floor) -> None:
    assert floor(make_task("classify", ("a", "b")), texts("aaa")) == {}
    assert floor(make_task("classify", ("a", "b")), texts("aab")) != {}
    words = TaggedExample("cat dog", ((0, 3), (4, 7)), ("O", "O"), line=1)
    assert floor(make_task("tag", ("B-X", "O")), [words]) == {}
    numbers = [TextExample("cat", score=2.0, line=n) for n in range(3)]
    assert floor(make_task("score"), numbers) == {}
    sets = [TextExample("cat", labels=("a",), line=n) for n in range(3)]
    assert floor(make_task("multilabel", ("a", "b"), prior=[3.0, -1.0]), sets) == {}


def test_a_run_has_collapsed_at_its_floor_or_without_a_number() -> None:
    assert has_collapsed(0.5, 0.5)
    assert has_collapsed(math.nan, None)
    assert not has_collapsed(0.51, 0.5)
    assert not has_collapsed(-1.0, None)


def test_what_was_saved_of_a_training_tells_whether_it_has_collapsed() -> None:
    assert is_told_collapsed({"dev_floor": 0.5}, 0.5)
    assert not is_told_collapsed({"dev_floor": 0.5}, 0.6)
    assert is_told_collapsed({"dev_floor": None, "one_text_for_all": True}, 0.6)
    assert not is_told_collapsed({"dev_floor": None}, 0.0)
    assert not is_told_collapsed({}, 0.1)  # of a model from before there were floors


def test_seeds_are_summed_up_with_those_that_collapsed() -> None:
    scores = SeedScores({3: 0.5, 4: 0.9, 5: 0.7}, floor=0.5)
    assert (scores.best, scores.collapsed) == (4, [3])
    assert scores.mean == pytest.approx(0.7)
    assert scores.deviation == pytest.approx(0.2)
    torn = SeedScores({0: math.nan, 1: 0.1})
    assert (torn.best, torn.collapsed) == (1, [0])
    assert SeedScores({0: 0.4}).deviation == 0


def test_a_seed_that_writes_one_text_for_all_is_the_best_of_nothing() -> None:
    scores = SeedScores({0: 0.3, 1: 0.1, 2: 0.2}, floor=0.0, alike=[0])
    assert (scores.best, scores.collapsed) == (2, [0])
    assert SeedScores({0: 0.3, 1: 0.1}, alike=[0, 1]).best == 0


def test_a_seed_without_a_number_leaves_no_mean_and_no_deviation() -> None:
    torn = SeedScores({0: math.nan, 1: 0.1, 2: 0.3})
    assert math.isnan(torn.mean)
    assert math.isnan(torn.deviation)


def test_a_task_by_itself_and_the_whole_run_are_named_where_they_have_collapsed() -> None:
    floors = Floors(0.5, {})
    assert list(floors.warnings(0.6, [])) == []
    said = "this run has collapsed: its score on dev is 0.5000, "
    assert list(floors.warnings(0.5, ["topic"])) == [
        "topic has collapsed: one and the same answer for all scores as much on dev",
        said + "one and the same answer for all scores 0.5000",
    ]
    assert list(Floors(None, {}).warnings(math.nan, [])) == [
        "this run has collapsed: its score on dev is nan, it is no number"
    ]
    assert list(floors.warnings(None, [])) == []
    assert list(floors.warnings(0.6, [], are_alike=True)) == [
        "this run has collapsed: nearly all texts that are written are one and the same on dev"
    ]
