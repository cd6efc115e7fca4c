"""Words that come with a place must stand there, and a wrong way of counting is named."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data.examples import Span
from bertworks.data.forms import make_example
from bertworks.data.span_words import require_at

TEXT = "🎉🎉 王小明 lives in 北京."
NAME, START, END = "王小明", 3, 6


def reason(words: str, start: int, end: int) -> str:
    with pytest.raises(DataError) as caught:
        require_at(words, TEXT, start, end)
    return str(caught.value)


@pytest.mark.parametrize("words", [NAME, f" {NAME} "])
def test_words_at_their_place_are_taken(words: str) -> None:
    require_at(words, TEXT, START, END)
    require_at("LIVES  in", TEXT, 7, 15)


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


@pytest.mark.parametrize("words", ["U. S.", "u.s."])
def test_case_and_white_space_do_not_count(words: str) -> None:
    require_at(words, "the U.S. army", 4, 8)


@pytest.mark.parametrize("words", ["muller", "Müller", "Mu\u0308ller"])
def test_marks_on_letters_do_not_count(words: str) -> None:
    require_at(words, "Hans Müller", 5, 11)


@pytest.mark.parametrize(
    "item",
    [
        {"start": START, "end": END},
        {"start": START, "end": END, "text": NAME, "value": "lives"},
        {"start": START, "end": END, "mention": " ", "entity": "LIVES"},  # which stands elsewhere
        {"start": START, "end": END, "entity": "PER", "value": "someone"},  # a kind and a norm
        {"start": START, "end": END, "text": 7},
    ],
)
def test_what_need_not_be_the_words_of_a_place_is_no_fault(item: dict[str, Any]) -> None:
    row = {"text": TEXT, "spans": [item | {"label": "PER"}]}
    assert make_example(row, 1, form="tags").spans == (Span(START, END, "PER"),)


@pytest.mark.parametrize("name", ["text", "word", "mention", "entity", "value"])
def test_the_words_of_a_place_have_several_names(name: str) -> None:
    item = {"start": 5, "end": 8, "label": "PER", name: NAME}
    with pytest.raises(DataError, match="UTF-16 units"):
        make_example({"text": TEXT, "spans": [item]}, 1, form="tags")


def test_rows_whose_words_stand_elsewhere_are_refused() -> None:
    span = {"start": START, "end": END, "label": "PER", "text": NAME}
    row = {"text": TEXT, "spans": [span]}
    assert make_example(row, 1, form="tags").spans == (Span(START, END, "PER"),)
    with pytest.raises(DataError, match="UTF-16 units"):
        make_example({"text": TEXT, "spans": [span | {"start": 5, "end": 8}]}, 1, form="tags")
    pair = {"text": TEXT, "first": span, "second": {"start": 18, "end": 99, "word": "北京"}}
    with pytest.raises(DataError, match=r"'北京' is not what stands at 18\.\.99"):
        make_example(pair | {"label": "lives_in"}, 1, form="relation")
