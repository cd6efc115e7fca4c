"""Words and their scripts are found alike for every tokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.scripts import kind_of
from bertworks.tokenizer.scripts import find_script_runs, needs_no_space


def words(text: str) -> list[tuple[str, str]]:
    """Return the words of a text with their scripts."""
    return [(text[start:end], script) for start, end, script in find_script_runs(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, don't!", [("The", "Latin"), ("cat", "Latin"), ("don", "Latin"), ("t", "Latin")]),
        ("北京 is", [("北", "Han"), ("京", "Han"), ("is", "Latin")]),
        ("COVID19病毒x", [("COVID19", "Latin"), ("病", "Han"), ("毒", "Han"), ("x", "Latin")]),
        ("3rd 14 3°", [("3rd", "Latin"), ("14", "Number"), ("3", "Number")]),
        ("e\u0301tude हिन्दी", [("e\u0301tude", "Latin"), ("हिन्दी", "Devanagari")]),
        ("Москва עברית عربي", [("Москва", "Cyrillic"), ("עברית", "Hebrew"), ("عربي", "Arabic")]),
        ("ひらがなカタカナ한글", [("ひらがなカタカナ한글", "Hiragana")]),
        ("❤\ufe0f 😀 … _", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_marks_and_digits(text: str, expected: object) -> None:
    assert words(text) == expected


@given(st.text(max_size=40))
def test_words_rise_and_hold_every_letter_and_digit(text: str) -> None:
    spans = [(start, end) for start, end, _ in find_script_runs(text)]
    inside = {place for start, end in spans for place in range(start, end)}
    assert all(start < end for start, end in spans)
    assert spans == sorted(spans)
    assert len(inside) == sum(end - start for start, end in spans)
    for place, char in enumerate(text):
        assert place in inside or kind_of(char) in ("", "Mark")
        assert place not in inside or kind_of(char) != ""


@pytest.mark.parametrize(
    ("word", "expected"),
    [("北京", True), ("T恤", True), ("ไทย", True), ("😀", True), ("c++", False), ("über", False)],
)
def test_words_of_some_scripts_and_signs_need_no_space(word: str, expected: bool) -> None:
    assert needs_no_space(word) is expected
