"""The tasks by name, and what a file of examples says about its own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.data.examples import Example
from bertworks.tasks.catalog import TASKS, find_labels, guess_task, make_task


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_made_under_its_own_name(name: str) -> None:
    task = make_task(name, ("a", "b"))
    assert task.name == name
    assert isinstance(task.labels, tuple)


def test_an_unknown_task_is_answered_with_those_there_are() -> None:
    known = ", ".join(TASKS)
    with pytest.raises(UsageError, match=rf"no task 'tagging'; the tasks are {known}"):
        make_task("tagging")


def test_labels_belong_to_the_tasks_that_choose_among_them() -> None:
    assert make_task("classify", ["x", "y"]).labels == ("x", "y")
    assert make_task("match", ["x", "y"]).labels == ("x", "y")
    assert make_task("fill_mask", ["x", "y"]).labels == ()
    assert make_task("next_sentence", ["x", "y"]).labels == ("next", "random")
    assert make_task("sentence_order", ["x", "y"]).labels == ("in order", "swapped")
    assert make_task("replaced_token", ["x", "y"]).labels == ()


@pytest.mark.parametrize("name", TASKS)
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
    assert guess_task([Example("one", "two")]) == "match"
    assert guess_task([Example("one")]) == "classify"


def test_numbers_come_in_their_order_and_names_in_theirs() -> None:
    examples = [Example("t", label=label) for label in ("b", "10", "2", "a", "0", "2", None)]
    assert find_labels(examples) == ("0", "2", "10", "a", "b")


@given(st.lists(st.text(min_size=1) | st.integers().map(str)), st.randoms())
def test_every_label_is_found_once_whatever_the_order(labels: list[str], random) -> None:
    examples = [Example("t", label=label) for label in labels]
    found = find_labels(examples)
    assert sorted(found) == sorted(set(labels))
    random.shuffle(examples)
    assert find_labels(examples) == found


def test_signs_that_only_look_like_numbers_are_names() -> None:
    examples = [Example("t", label=label) for label in ("²", "½", "1", "३")]
    assert set(find_labels(examples)) == {"²", "½", "1", "३"}
