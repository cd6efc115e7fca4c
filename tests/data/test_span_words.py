"""Words that come with a place must stand there, and a wrong way of counting is named."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data.examples import Span
from bertworks.data.forms import make_example
from bertworks.data.span_words import require_words, words_of

TEXT = "🎉🎉 王小明 lives in 北京."
NAME, START, END = "王小明", 3, 6


def reason(words: str, start: int, end: int) -> str:
    with pytest.raises(DataError) as caught:
        require_words(words, TEXT, start, end)
    return str(caught.value)


@pytest.mark.parametrize("words", [NAME, f" {NAME} "])
def test_words_at_their_place_are_taken(words: str) -> None:
    require_words(words, TEXT, START, END)
    require_words("LIVES  in", TEXT, 7, 15)


@pytest.mark.parametrize(
    ("start", "end", "cause"),
    [
        (5, 8, "counted in UTF-16 units;"),
        (9, 18, "counted in bytes;"),
        (3, 5, "the end seems to be the last place itself;"),
        (4, 7, "counted from 1;"),
        (4, 6, "counted from 1 and the end seems to be the last place itself;"),
        (5, 7, "counted in UTF-16 units and the end seems to be the last place itself;"),
    ],
)
def test_a_wrong_way_of_counting_is_named(start: int, end: int, cause: str) -> None:
    said = reason(NAME, start, end)
    assert said.startswith(f"'{NAME}' is not what stands at {start}..{end} of the text ('")
    assert cause in said


def test_without_a_likely_cause_both_are_shown() -> None:
    assert reason("上海", START, END) == (
        f"'上海' is not what stands at 3..6 of the text ('{NAME}'); correct its place or its words"
    )
    assert "at -7..99 of the text" in reason(NAME, -7, 99)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"start": 0, "end": 3}, None),
        ({"text": "Ada"}, "Ada"),
        ({"word": "Ada", "value": "lives"}, "Ada"),
        ({"mention": " ", "entity": "LIVES"}, "LIVES"),
        ({"entity": "PER", "value": "someone"}, None),  # a kind and a norm, which stand nowhere
        ({"text": 7}, None),
    ],
)
def test_the_words_of_a_place_have_several_names(item: dict[str, Any], words: str | None) -> None:
    assert words_of(item, TEXT) == words


def test_rows_whose_words_stand_elsewhere_are_refused() -> None:
    span = {"start": START, "end": END, "label": "PER", "text": NAME}
    row = {"text": TEXT, "spans": [span]}
    assert make_example(row, 1, form="tags").spans == (Span(START, END, "PER"),)
    with pytest.raises(DataError, match="UTF-16 units"):
        make_example({"text": TEXT, "spans": [span | {"start": 5, "end": 8}]}, 1, form="tags")
    pair = {"text": TEXT, "first": span, "second": {"start": 18, "end": 99, "word": "北京"}}
    with pytest.raises(DataError, match=r"'北京' is not what stands at 18\.\.99"):
        make_example(pair | {"label": "lives_in"}, 1, form="relation")
