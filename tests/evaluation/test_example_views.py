"""Views of examples: every form has texts, labels, gold and something to compare."""

from typing import Any

import pytest

from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    RelationExample,
    SourceExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.evaluation.example_views import (
    compared_of,
    gold_of,
    identity_of,
    labels_of,
    texts_of,
)

SINGLE = TextExample("A cat.", label="x")
PAIR = TextExample("A cat.", "Two dogs here.", label="x")
SEVERAL = TextExample("A cat.", labels=("y", "x"))
TAGGED = TaggedExample("A cat", ((0, 1), (2, 5)), ("O", "B-PET"), intent="look")
SPANS = TaggedExample("A cat", spans=(Span(2, 5, "PET"),))
ASKED = QuestionExample("Who?", "A cat sat.", (Found("A cat", 0),))
CHOICE = ChoiceExample("Who?", ("cat", "dog"), "A cat sat.", 1)
WRITTEN = SourceExample("A cat.", ("Eine Katze.", "Katze."))
RELATION = RelationExample("A cat saw a dog", (2, 5), (12, 15), "saw")


@pytest.mark.parametrize(
    ("example", "texts", "labels"),
    [
        (SINGLE, ("A cat.",), {"label": ("x",)}),
        (PAIR, ("A cat.", "Two dogs here."), {"label": ("x",)}),
        (SEVERAL, ("A cat.",), {"labels": ("y", "x")}),
        (TAGGED, ("A cat",), {"intent": ("look",), "tag": ("O", "B-PET")}),
        (SPANS, ("A cat",), {"span label": ("PET",)}),
        (ASKED, ("Who?", "A cat sat."), {}),
        (CHOICE, ("A cat sat.", "Who?", "cat", "dog"), {}),
        (RELATION, ("A cat saw a dog",), {"label": ("saw",)}),
        (WRITTEN, ("A cat.", "Eine Katze.", "Katze."), {}),
    ],
)
def test_texts_and_labels_of_every_form(
    example: Any, texts: tuple[str, ...], labels: dict[str, tuple[str, ...]]
) -> None:
    assert texts_of(example) == texts
    assert labels_of(example) == labels


def test_gold_differs_where_answers_do_and_only_there() -> None:
    assert gold_of(SEVERAL) == gold_of(TextExample("other", labels=("x", "y")))
    assert gold_of(SINGLE) != gold_of(TextExample("A cat.", label="y"))
    assert gold_of(TextExample("a", score=1.0)) != gold_of(TextExample("a", score=1.5))
    moved = QuestionExample("Who?", "Oh, A cat sat.", (Found("A cat", 4),))
    assert gold_of(ASKED) == gold_of(moved)
    assert gold_of(CHOICE) == gold_of(ChoiceExample("Who?", ("dog", "cat"), None, 0))
    assert gold_of(TAGGED) != gold_of(SPANS)
    assert gold_of(RELATION) != gold_of(RelationExample("A cat saw a dog", (2, 5), (12, 15), "ate"))


def test_relations_in_a_text_are_told_apart_by_their_places() -> None:
    other = RelationExample("A cat saw a dog", (12, 15), (2, 5), "saw")
    assert identity_of(RELATION) != identity_of(other)
    assert identity_of(PAIR) != identity_of(TextExample("A cat. Two dogs here."))


def test_white_space_moves_no_place() -> None:
    for text, start in (("\u3000A cat", 3), ("A  cat ", 3), ("\n A cat", 4)):
        moved = TaggedExample(text, spans=(Span(start, start + 3, "PET"),))
        assert gold_of(moved) == gold_of(SPANS)
    assert gold_of(TaggedExample("A cat", spans=(Span(2, 4, "PET"),))) != gold_of(SPANS)
    assert gold_of(TaggedExample("A cat", spans=(Span(2, 5, "CAT"),))) != gold_of(SPANS)
    assert gold_of(TaggedExample("A cat", spans=())) != gold_of(SPANS)
    other = RelationExample("\u3000A cat saw a dog", (3, 6), (13, 16), "saw")
    assert identity_of(other).strip() == identity_of(RELATION)


def test_near_copies_must_share_what_makes_a_row_another_one() -> None:
    assert compared_of(ASKED) == ("Who?", "A cat sat.")
    assert compared_of(PAIR) == ("Two dogs here.", "A cat.")
    assert compared_of(CHOICE) == ("Who?\ncat\ndog", "A cat sat.")
    assert compared_of(RELATION) == ("A cat saw a dog", "cat\ndog")
    assert compared_of(TAGGED) == ("A cat", "")


def test_a_source_is_the_same_whatever_is_to_be_written_of_it() -> None:
    other = SourceExample("A cat.", ("Un chat.",))
    assert identity_of(WRITTEN) == identity_of(other) == "A cat."
    assert gold_of(WRITTEN) == gold_of(other)
    assert compared_of(WRITTEN) == ("A cat.", "")
