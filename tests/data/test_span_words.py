"""Words that come with a place must stand there, and a wrong way of counting is named."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data.examples import Span
from bertworks.data.forms import make_example
from bertworks.data.span_words import read_place, read_span, require_at

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


@pytest.mark.parametrize(
    "item",
    [
        [START, END, "PER"],
        {"start": START, "end": END, "label": "PER", "type": "person"},
        {"start": START, "end": END, "type": "PER", "start_idx": 7, "end_idx": 9},
        {"id": 7, "start_offset": START, "end_offset": END, "label": "PER"},
        {"start_idx": START, "end_idx": END - 1, "type": "PER", "entity": NAME},
        {"start_idx": START, "end_idx": END, "type": "PER", "entity": NAME},
    ],
)
def test_spans_of_other_tools_are_read(item: Any) -> None:
    assert read_span(item, TEXT) == ((START, END), "PER")


@pytest.mark.parametrize("item", [7, [START, END], {"start": START, "end": END}, {"label": 7}])
def test_what_is_no_span_is_refused(item: Any) -> None:
    with pytest.raises(DataError, match="is not a start, an end and a label"):
        read_span(item, TEXT)


@pytest.mark.parametrize(("words", "end"), [("a", 1), ("a ", 2), ("A", 1), ("a b", 3), ("a  b", 3)])
def test_words_tell_whether_an_end_is_the_last_place(words: str, end: int) -> None:
    for said in {max(end - 1, 1), end}:
        item = {"start_idx": 0, "end_idx": said, "word": words}
        assert read_place(item, "a b c") == (0, end)


def test_an_end_that_may_be_the_last_place_needs_its_words() -> None:
    item: dict[str, Any] = {"start_idx": START, "end_idx": END}
    for words in (None, " ", 7):
        with pytest.raises(
            DataError, match=r"3\.\.6 may be the last place or the one behind it; g"
        ):
            read_place(item | {"entity": words}, TEXT)
    with pytest.raises(DataError, match=r"'北京' is not what stands at 3\.\.6 of the text"):
        read_place(item | {"entity": "北京"}, TEXT)


def test_rows_whose_words_stand_elsewhere_are_refused() -> None:
    span = {"start": START, "end": END, "label": "PER", "text": NAME}
    row = {"text": TEXT, "spans": [span]}
    assert make_example(row, 1, form="tags").spans == (Span(START, END, "PER"),)
    with pytest.raises(DataError, match="UTF-16 units"):
        make_example({"text": TEXT, "spans": [span | {"start": 5, "end": 8}]}, 1, form="tags")
    pair = {"text": TEXT, "first": span, "second": {"start": 18, "end": 99, "word": "北京"}}
    with pytest.raises(DataError, match=r"'北京' is not what stands at 18\.\.99"):
        make_example(pair | {"label": "lives_in"}, 1, form="relation")
