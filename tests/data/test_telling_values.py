"""What stands in a table tells where its spans, its tags, its scores and its texts are."""

from typing import Any

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.data.tables import Table
from bertworks.data.telling_values import (
    has_character_tags,
    has_spans,
    refuse_decimals,
    refuse_other_mark,
    refuse_shorter,
    with_spans,
)

SPANS = [[0, 2, "人名"]]


def table(*rows: dict[str, Any]) -> Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return Table(tuple(names), rows, lambda quarantine: iter(()))


@pytest.mark.parametrize("name", ["label", "labels"])
def test_lists_of_starts_ends_and_labels_are_spans(name: str) -> None:
    found = table({"text": "张三", name: SPANS}, {"text": "李", name: []}, {"text": "王"})
    assert has_spans(found)
    assert with_spans({"text": "text"}, found, {}) == {"text": "text", "spans": name}


@pytest.mark.parametrize(
    "values",
    [
        [[]],
        [["人名"]],
        ["人名", SPANS],
        [[[0, 2]]],
        [[[0, 2, "人名"], "人名"]],
        [[["0", 2, "人名"]]],
        [[[False, True, "人名"]]],
        [[[0, 2, 7]]],
    ],
)
def test_other_labels_are_no_spans(values: list[Any]) -> None:
    assert not has_spans(table(*({"text": "张三", "label": value} for value in values)))


def test_a_label_that_is_an_object_holds_the_spans_of_clue() -> None:
    clue = {"name": {"张三": [[0, 1]]}}
    assert has_spans(table({"text": "张三", "label": "x"}, {"text": "张三", "label": clue}))
    assert not has_spans(table({"text": "张三", "labels": clue}))


def test_between_two_columns_of_spans_nothing_is_guessed() -> None:
    found = {"text": "text", "spans": "entities"}
    both = table({"text": "张三", "label": SPANS, "labels": SPANS, "entities": SPANS})
    with pytest.raises(DataError, match="may hold the spans: label, labels, entities; choose with"):
        with_spans(found, both, {})
    assert with_spans(found, both, {"spans": "entities"}) == found
    assert with_spans(found | {"spans": "Spans"}, both, {})["spans"] == "Spans"
    assert with_spans(found, table({"entities": SPANS}), {}) == found


@pytest.mark.parametrize(
    ("text", "tags", "is_so"),
    [
        ("张三", ["B-X", "I-X"], True),
        ("张三", ["B-X"], False),
        ("张三", [0, 1], False),
        ("张三", "BI", False),
        (None, [], False),
    ],
)
def test_tags_of_characters_are_as_many(text: Any, tags: Any, is_so: bool) -> None:
    assert has_character_tags(table({"text": text, "tags": tags}), {}) == is_so
    renamed = table({"文本": text, "ner_tags": tags}, {"文本": text, "ner_tags": tags})
    assert has_character_tags(renamed, {}) == is_so


def test_one_row_among_many_tells_nothing_of_tags() -> None:
    rows = [{"text": "张三", "tags": ["B-X", "I-X"]}, *[{"text": "张三", "tags": ["a"]}] * 3]
    assert not has_character_tags(table(*rows), {})
    assert not has_character_tags(table(), {})


def test_decimals_shorter_texts_and_other_marks_are_refused() -> None:
    with pytest.raises(UsageError, match="decimals in label, which may be labels or scores"):
        refuse_decimals(table({"text": "x", "label": "2.5"}), {})
    longer = table({"title": "x", "story": "longer than it"})
    with pytest.raises(DataError, match="its text in title or in story, which is longer"):
        refuse_shorter(longer, {"text": "title"})
    refuse_shorter(longer, {"text": "story"})
    with pytest.raises(DataError, match="one column only, but its rows hold equally many semicol"):
        refuse_other_mark(table(*[{"1": f"x{at};y"} for at in range(7)]))
