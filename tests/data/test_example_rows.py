"""Examples as rows: what is written is read back as the same example."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bertworks.data.example_rows import row_of, subject_of
from bertworks.data.examples import (
    ChoiceExample,
    Example,
    Found,
    QuestionExample,
    RelationExample,
    SourceExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.data.forms import FORMS, make_example

PLACES = ((0, 5), (6, 9))
EXAMPLES: dict[str, list[Any]] = {
    "label": [TextExample("a b", None, "x"), TextExample("猫", "b", "0")],
    "labels": [TextExample("a", labels=("x", "y")), TextExample("a", labels=())],
    "score": [TextExample("a", "b", score=-0.25), TextExample("a", score=3.0)],
    "texts": [TextExample("a", "b"), TextExample("a")],
    "aspect": [TextExample("the food", "food", "good")],
    "tags": [
        TaggedExample("Paris now", PLACES, ("B-LOC", "O")),
        TaggedExample("in Paris", spans=(Span(3, 8, "LOC"),)),
        TaggedExample("nowhere", spans=()),
    ],
    "intent_slots": [TaggedExample("Paris now", PLACES, ("B-LOC", "O"), intent="go")],
    "answers": [
        QuestionExample("Where?", "in Paris", (Found("Paris", 3),), "q1"),
        QuestionExample("Where?", "nowhere", ()),
    ],
    "choice": [
        ChoiceExample("Where?", ("here", "there"), None, 1),
        ChoiceExample("Where?", ("here", "there"), "It is here.", 0),
    ],
    "relation": [RelationExample("a meets b", (0, 1), (8, 9), "meets")],
    "target": [SourceExample("a cat", ("猫",)), SourceExample("a cat", ("猫", "一只猫"))],
}


def test_examples_of_every_form_are_tried() -> None:
    assert set(EXAMPLES) == set(FORMS)


@pytest.mark.parametrize("form", EXAMPLES)
def test_what_is_written_is_read_back_as_the_same_example(form: str) -> None:
    for line, example in enumerate(EXAMPLES[form], start=3):
        row = json.loads(json.dumps(row_of(example, form=form)))
        assert make_example(row, line, form=form) == replace(example, line=line)


def test_what_is_not_known_is_left_out() -> None:
    assert row_of(TextExample("a")) == {"text": "a"}
    assert row_of(QuestionExample("Where?", "here"), form="answers").keys() == {
        "question",
        "passage",
    }


def test_examples_about_one_text_have_one_subject() -> None:
    assert subject_of(TextExample("the food", "food")) == "the food"
    assert subject_of(QuestionExample("Where?", "in Paris")) == "in Paris"
    assert subject_of(ChoiceExample("Where?", ("a", "b"))) == "Where?"
    assert subject_of(ChoiceExample("Where?", ("a", "b"), "It is here.")) == "It is here."


def test_an_example_of_no_form_has_no_row() -> None:
    with pytest.raises(TypeError, match="has no columns"):
        row_of(Example())
