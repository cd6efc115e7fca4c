"""The tasks by name, and what a file of examples says about its own."""

import json

import pytest

from bertworks.core.errors import UsageError
from bertworks.data.examples import TextExample
from bertworks.tasks.catalog import KINDS, guess_kind, learn_task, make_task
from bertworks.tasks.classify import Classify


@pytest.mark.parametrize("name", KINDS)
def test_a_task_is_made_under_its_own_name(name: str) -> None:
    task = make_task(name, ("a", "b"))
    assert task.name == name
    assert isinstance(task.labels, tuple)


def test_an_unknown_task_is_answered_with_those_there_are() -> None:
    known = ", ".join(KINDS)
    with pytest.raises(UsageError, match=rf"no task 'tagging'; the tasks are {known}"):
        make_task("tagging")


def test_labels_belong_to_the_tasks_that_choose_among_them() -> None:
    assert make_task("classify", ["x", "y"]).labels == ("x", "y")
    assert make_task("match", ["x", "y"]).labels == ("x", "y")
    assert make_task("fill_mask", ["x", "y"]).labels == ()
    assert make_task("next_sentence", ["x", "y"]).labels == ("next", "random")
    assert make_task("sentence_order", ["x", "y"]).labels == ("in order", "swapped")
    assert make_task("replaced_token", ["x", "y"]).labels == ()


@pytest.mark.parametrize("name", KINDS)
def test_a_task_is_made_again_from_its_labels_and_options(name: str) -> None:
    task = make_task(name, ("a", "b"))
    again = make_task(name, task.labels, **json.loads(json.dumps(task.options)))
    assert (again.name, again.labels, again.options) == (name, task.labels, task.options)


def test_options_reach_the_task() -> None:
    assert make_task("fill_mask", tied=False).options == {"tied": False}
    task = make_task("match", ("a", "b"), pooling="mean", dropout=0.25)
    assert task.options == {"pooling": "mean", "dropout": 0.25}


@pytest.mark.parametrize("name", ["fill_mask", "next_sentence", "classify", "match"])
def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=rf"task {name} cannot be made with .*'color'"):
        make_task(name, ("a", "b"), color="red")


def test_a_second_text_speaks_of_matching() -> None:
    assert guess_kind("label", [TextExample("one", "two")]) == "match"
    assert guess_kind("label", [TextExample("one")]) == "classify"


def test_examples_tell_the_labels_and_settings_the_rest() -> None:
    examples = [TextExample("t", label=label) for label in ("b", "a")]
    task = learn_task("classify", examples, focal=2.0)
    assert task.labels == ("a", "b")
    assert isinstance(task, Classify)
    assert task.emphasis.focal == 2.0


def test_a_setting_of_another_task_is_refused() -> None:
    with pytest.raises(UsageError, match="the task match has no setting --num-candidates"):
        learn_task("match", [TextExample("t")], num_candidates=3)
    with pytest.raises(UsageError, match="no task 'fill_mask' to fine-tune on; the tasks are cl"):
        learn_task("fill_mask", [TextExample("t")])


def test_a_file_that_answers_are_scored_by_tells_what_is_sought() -> None:
    assert KINDS["embed"].forms() == ("score", "label", "texts")
    assert KINDS["embed"].forms(scored=True) == ("score", "label")
    assert KINDS["classify"].forms(scored=True) == ("label",)


def test_a_task_for_the_same_labels_goes_on_as_it_was_and_any_other_begins_anew() -> None:
    examples = [TextExample("t", label=label) for label in ("b", "a")]
    before = make_task("classify", ("a", "b"), pooling="mean", dropout=0.3)
    assert learn_task("classify", examples, before=before).options == before.options
    fresh = learn_task("classify", examples).options
    assert fresh != before.options
    others = (
        make_task("classify", ("a", "c"), pooling="mean"),
        make_task("match", ("a", "b"), pooling="mean"),
    )
    assert [learn_task("classify", examples, before=other).options for other in others] == [
        fresh
    ] * 2
