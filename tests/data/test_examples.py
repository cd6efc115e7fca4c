"""Examples of every form: what is sought is unknown unless a row says it."""

from dataclasses import FrozenInstanceError

import pytest

from bertworks.data.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    RelationExample,
    TaggedExample,
    TextExample,
)

ASKED = [
    TextExample("a text", line=7),
    TaggedExample("a text", line=7),
    QuestionExample("who?", "a passage", line=7),
    ChoiceExample("who?", ("this", "that"), line=7),
    RelationExample("a text", (0, 1), (2, 6), line=7),
]
LENGTHS = [6, 6, 13, 12, 6]
SOUGHT = {"label", "labels", "score", "tags", "spans", "intent", "answers"}


@pytest.mark.parametrize("example", ASKED, ids=lambda example: type(example).__name__)
def test_what_is_sought_is_not_known_by_itself(example: Example) -> None:
    sought = SOUGHT & vars(example).keys()
    assert sought
    assert {getattr(example, name) for name in sought} == {None}
    assert example.line == 7


@pytest.mark.parametrize("example", ASKED, ids=lambda example: type(example).__name__)
def test_an_example_does_not_change(example: Example) -> None:
    with pytest.raises(FrozenInstanceError):
        example.line = 8  # type: ignore[misc]
    assert example in {example}


@pytest.mark.parametrize(("example", "length"), list(zip(ASKED, LENGTHS, strict=True)))
def test_all_that_an_example_says_counts_as_its_length(example: Example, length: int) -> None:
    assert example.num_characters == length


def test_an_answer_is_given_with_the_line_and_the_name_of_its_row() -> None:
    assert [example.where for example in ASKED] == [{"line": 7}] * len(ASKED)
    assert QuestionExample("who?", "a passage", id="q1", line=7).where == {"line": 7, "id": "q1"}
