"""One table tells which scripts are written without spaces, and every reader of text uses it."""

import re
import unicodedata

import pytest

from bertworks.core.scripts import (
    EAST_ASIAN,
    SPACELESS,
    WITHOUT_SPACES,
    is_invisible,
    kind_of,
    pattern_of,
    script_of,
)
from bertworks.corpus.filter import Filters
from bertworks.corpus.words import count_words
from bertworks.tokenizer.boundaries import find_starts


def letters(first: int, end: int) -> list[str]:
    return [chr(code) for code in range(first, end) if chr(code).isalpha()]


@pytest.mark.parametrize(
    ("char", "kind"),
    [
        ("a", "Latin"),
        ("ж", "Cyrillic"),
        ("한", "Hangul"),
        ("中", "Han"),
        ("々", "Han"),
        ("ー", "Katakana"),
        ("ｶ", "Katakana"),
        ("ก", "Thai"),
        ("7", "Number"),
        ("\u0301", "Mark"),
        (",", ""),
    ],
)
def test_a_letter_has_a_script_and_others_have_a_kind(char: str, kind: str) -> None:
    assert kind_of(char) == kind


def test_a_character_without_a_name_still_has_a_script() -> None:
    assert kind_of("\u4e2d") == "Han"
    assert kind_of("\u3400") == "Han"
    assert kind_of("\U00017000") == "Other"  # Python has no name for it
    assert kind_of("\ue000") == ""


def test_the_table_rises_and_names_scripts_as_unicode_does() -> None:
    bounds = [bound for first, end, _ in SPACELESS for bound in (first, end)]
    assert bounds == sorted(bounds)
    for first, end, script in SPACELESS:
        named = [script.upper() in unicodedata.name(char, "") for char in letters(first, end)]
        assert script == "Han" or first > 0xFFFF or sum(named) > len(named) / 2  # kana's old forms


def test_no_letter_of_a_spaceless_script_lies_outside_of_the_table() -> None:
    wanted = ("CJK UNIFIED", "CJK COMP", *(f"{name.upper()} " for name in WITHOUT_SPACES))
    for code in range(0x20000):
        name = unicodedata.name(chr(code), "")
        if name.startswith(wanted) and unicodedata.category(chr(code))[0] == "L":
            assert kind_of(chr(code)) in WITHOUT_SPACES, name


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", ""),
        ("42, \u0301!", ""),
        ("abc где", "Latin"),
        ("где abc", "Cyrillic"),
        ("Wort слово ещё", "Cyrillic"),
        ("3 1 4 东 e", "Han"),
    ],
)
def test_a_text_has_the_script_of_most_letters_or_of_the_first(text: str, script: str) -> None:
    assert script_of(text) == script


def test_a_pattern_finds_the_characters_of_its_scripts() -> None:
    assert re.findall(f"[{pattern_of(EAST_ASIAN)}]", "a中ไカ𠀀ม") == ["中", "カ", "𠀀"]
    assert re.findall(f"[{pattern_of(WITHOUT_SPACES)}]", "a中ไカ𠀀ม") == [*"中ไカ𠀀ม"]


@pytest.mark.parametrize("char", [letters(first, end)[0] for first, end, _ in SPACELESS])
def test_every_reader_of_text_takes_each_such_character_for_a_word(char: str) -> None:
    assert count_words(char * 7) == (7, 7)
    assert find_starts(char * 7).all()
    few, many = char * 9, char * 10  # each counts as half a word
    assert Filters(min_words=5, max_repeated_words=1).reason(few) == "too short"
    assert Filters(min_words=5, max_repeated_words=1).reason(many) != "too short"


def test_a_mark_that_nobody_sees_is_told_from_spaces_letters_and_flags() -> None:
    assert all(map(is_invisible, "\u200b\ufeff\u00ad\u200e"))
    assert not any(map(is_invisible, "a 好\u3000\U000e0067"))
