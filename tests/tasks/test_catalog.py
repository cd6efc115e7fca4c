"""The tasks by name, and what a file of examples says about its own."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from bertworks.core.errors import UsageError
from bertworks.data.examples import ChoiceExample, SourceExample, TaggedExample, TextExample
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
    assert task.options == {"pooling": "mean", "dropout": 0.25, "temperature": 1.0}


@pytest.mark.parametrize("name", ["classify", "match", "aspect", "relate", "choose", "multilabel"])
def test_a_temperature_makes_chances_flatter_and_answers_stay(name: str) -> None:
    task = make_task(name, ("a", "b"))
    flat = make_task(name, ("a", "b"), **task.options | {"temperature": 2.0})
    assert task.options["temperature"] == 1.0
    assert flat.options == {**task.options, "temperature": 2.0}
    example = ChoiceExample("q", ("a", "b")) if name == "choose" else TextExample("t")
    rows = [np.array([[1.5], [-0.5]]) if name == "choose" else np.array([[1.5, -0.5]])]
    sure, less = (made.decode(example, [], rows, None) for made in (task, flat))
    chances = [np.array(list(_values(one["probabilities"]))) for one in (sure, less)]
    odds = [np.log(one[0] / one[1]) for one in chances]
    if name == "multilabel":
        odds = [np.log(one[0] / (1 - one[0])) for one in chances]
    assert odds[1] == pytest.approx(odds[0] / 2)
    assert sure.get("label") == less.get("label")


def _values(chances: Any) -> Iterable[float]:
    return chances.values() if isinstance(chances, dict) else chances


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


def tagged(tags: str, intent: str | None = None) -> TaggedExample:
    """Make an example of tags alone."""
    found = tuple(tags.split())
    places = tuple((2 * n, 2 * n + 1) for n in range(len(found)))
    return TaggedExample(" ".join("x" * len(found)), places, found, intent=intent)


OF_PAIRS = [TextExample("t", "u", label=label) for label in ("no", "yes")]
# The kind, its examples, and the labels of a model, in an order of its own.
REORDERED: dict[str, tuple[list[Any], tuple[str, ...], dict[str, Any]]] = {
    "classify": ([TextExample("t", label=label) for label in "abc"], ("c", "a", "b"), {}),
    "multilabel": (
        [TextExample("t", labels=("a", "b")), TextExample("u", labels=("a",))],
        ("b", "a"),
        {"prior": [0.5, -2.0]},
    ),
    "tag": ([tagged("O B-X I-X")], ("I-X", "O", "B-X"), {}),
    "intent_slots": (
        [tagged("O B-X", "play"), tagged("O", "book")],
        ("play", "book", "B-X", "O"),
        {"num_intents": 2},
    ),
    "embed": (OF_PAIRS, ("yes", "no"), {}),
}


@pytest.mark.parametrize("kind", REORDERED)
def test_the_same_labels_stay_in_the_order_of_the_task_that_goes_on(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    examples, labels, options = REORDERED[kind]
    before = make_task(kind, labels, **options)
    assert learn_task(kind, examples).labels != labels
    task = learn_task(kind, examples, before=before)
    assert (task.labels, task.options) == (labels, before.options)
    said = f"task {kind}: its labels stay in the order of the model: {', '.join(labels)}\n"
    assert capsys.readouterr().err == said
    assert learn_task(kind, examples, before=task).labels == labels


def test_what_counts_more_follows_the_order_of_the_labels() -> None:
    examples = [TextExample("t", label=label) for label in "aab"]
    before = make_task("classify", ("b", "a"))
    task = learn_task("classify", examples, before=before, class_weights="balanced")
    assert isinstance(task, Classify)
    assert task.emphasis.weights == (1.5, 0.75)


def test_who_says_which_label_is_the_same_is_heard() -> None:
    task = learn_task("embed", OF_PAIRS, before=make_task("embed", ("yes", "no")), same="yes")
    assert task.labels == ("no", "yes")


def test_intents_and_tags_that_change_places_are_other_labels() -> None:
    before = make_task("intent_slots", ("a", "b", "c", "d"), num_intents=2)
    examples = [tagged("a b", "c"), tagged("b", "d")]
    assert learn_task("intent_slots", examples, before=before).labels == ("c", "d", "a", "b")


def test_a_head_that_goes_on_keeps_the_scale_that_it_was_trained_on() -> None:
    numbers = [TextExample("t", score=score) for score in (10.0, 90.0)]
    before = make_task("score", mean=2.5, deviation=2.0)
    assert learn_task("score", numbers, before=before).options == before.options
    assert learn_task("score", numbers).options["mean"] == 50.0
    sets = [TextExample("t", labels=("a", "b")), TextExample("t", labels=("a",))]
    several = make_task("multilabel", ("a", "b"), prior=[-3.0, 3.0], threshold=0.25)
    assert learn_task("multilabel", sets, before=several).options == several.options


def test_a_chain_goes_on_unless_the_flag_says_otherwise() -> None:
    before = make_task("tag", ("O", "B-X"), crf=True)
    examples = [tagged("O B-X")]
    assert learn_task("tag", examples, before=before).options["crf"]
    assert not learn_task("tag", examples, before=before, crf=False).options["crf"]


def test_texts_are_written_as_before_but_for_what_is_said_again() -> None:
    examples = [SourceExample("a", ("b",))]
    first = learn_task("generate", examples, decoder="shared", beams=4, longest_reply=20)
    again = learn_task("generate", examples, before=first, beams=2)
    assert again.options["decoder"] == "shared"
    assert (again.options["writing"]["beams"], again.options["writing"]["most"]) == (2, 20)
    with pytest.raises(UsageError, match="at least 21 pieces are asked for, but at most 20"):
        learn_task("generate", examples, before=first, shortest_reply=21)


@pytest.mark.parametrize(("decoder", "layers"), [("copied", 1), ("fresh", None), ("shared", None)])
def test_another_decoder_begins_anew_with_its_own_number_of_layers(
    decoder: str, layers: int | None
) -> None:
    examples = [SourceExample("a", ("b",))]
    first = learn_task("generate", examples, decoder="copied", decoder_layers=1)
    again = learn_task("generate", examples, before=first, decoder=decoder)
    assert (again.options["decoder"], again.options["decoder_layers"]) == (decoder, layers)
    more = learn_task("generate", examples, before=first, decoder_layers=3)
    assert (more.options["decoder"], more.options["decoder_layers"]) == ("copied", 3)
    with pytest.raises(UsageError, match="leave out --decoder-layers"):
        learn_task("generate", examples, before=first, decoder="prefix", decoder_layers=1)


@pytest.mark.parametrize("kind", ["classify", "match", "multilabel", "score", "aspect", "choose"])
def test_how_vectors_of_tokens_become_one_is_said_once(kind: str) -> None:
    rows = [
        TextExample("a", "b", label=name, labels=(name,), score=len(name)) for name in ("x", "yy")
    ]
    examples: list[Any] = [] if kind == "choose" else rows
    task = learn_task(kind, examples, pooling="mean")
    assert task.options["pooling"] == "mean"
    assert learn_task(kind, examples).options["pooling"] is None
    assert learn_task(kind, examples, before=task).options["pooling"] == "mean"
    assert learn_task(kind, examples, before=task, pooling="max").options["pooling"] == "max"
