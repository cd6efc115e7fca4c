"""Words in arrays of code points: runs of letters, single characters where there are no spaces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.code_points import code_points
from bertworks.corpus.words import count_words, find_words


def words_of(text: str) -> list[str]:
    """Cut a text where words begin, and leave out what is no letter."""
    codes = code_points(text)
    is_letter, begins = find_words(codes)
    starts = [*begins.nonzero()[0].tolist(), len(text)]
    return [
        "".join(c for c, letter in zip(text[a:b], is_letter[a:b], strict=True) if letter)
        for a, b in pairwise(starts)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" ,.! ", []),
        ("It's 3rd-rate, so what?", ["It", "s", "3rd", "rate", "so", "what"]),
        ("Größe naïve Ünïcode", ["Größe", "naïve", "Ünïcode"]),
        ("今天good天气3度", ["今", "天", "good", "天", "气", "3", "度"]),
        ("カタ仮名 한국어 слова", ["カ", "タ", "仮", "名", "한국어", "слова"]),
        ("𠀀𠀁 a\U0010ffffb", ["𠀀", "𠀁", "a", "b"]),
    ],
)
def test_words_are_found(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert count_words(text)[0] == len(words)


def test_characters_that_are_words_are_counted_apart() -> None:
    assert count_words("我们 go 北京 now") == (6, 4)
    assert count_words("สวัสดี and more")[1] >= 3


@given(st.text())
def test_every_letter_belongs_to_a_word_and_nothing_else_does(text: str) -> None:
    assert "".join(words_of(text)) == "".join(c for c in text if c.isalnum())
