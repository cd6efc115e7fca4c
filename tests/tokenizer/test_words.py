"""Pieces tell where words begin, whatever the mark of their kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, pre_tokenizers

from bertworks.tokenizer.words import after_another, begins_word, plain_bytes


def in_bytes(text: str) -> str:
    """Write a text as byte-level pieces do."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(piece for piece, _ in cut.pre_tokenize_str(text))


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_byte_level_pieces_read_as_the_text_they_stand_for(text: str) -> None:
    piece = in_bytes(text)
    assert plain_bytes(piece, "bytes") == text.encode()
    assert decoders.ByteLevel().decode([piece]) == text


def test_all_bytes_have_a_character() -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert {plain_bytes(char, "bytes") for char in alphabet} == {bytes([n]) for n in range(256)}


def test_pieces_of_other_kinds_lose_only_their_space_marks() -> None:
    assert plain_bytes("▁the", "space") == b" the"
    assert plain_bytes("##ing", "continuation") == b"##ing"
    assert plain_bytes("a b", "bytes") == b"a b"  # no byte-level piece: it was added as it stands


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (" the", True),
        ("\nthe", True),
        ("the", False),
        ("é", False),
        ("3", False),
        ("\u0301", False),
        (",", True),
        ("'s", True),
        ("\U0001f600", True),
        ("北京", True),
        ("ไท", False),
    ],
)
def test_a_space_a_sign_or_a_chinese_character_begins_a_word(text: str, begins: bool) -> None:
    assert begins_word(in_bytes(text), "bytes") == begins
    assert begins_word(text.replace(" ", "▁"), "space") == begins


def test_half_a_character_begins_a_word_where_no_spaces_are_written() -> None:
    chinese, german = in_bytes("北"), in_bytes("ü")
    assert [begins_word(char, "bytes") for char in chinese] == [True, False, False]
    assert [begins_word(char, "bytes") for char in german] == [False, False]


def test_continuations_are_the_only_mark_of_wordpiece() -> None:
    pieces = ("the", "##s", "#", "##", "北")
    begins = [begins_word(piece, "continuation") for piece in pieces]
    assert begins == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("sentence", "spaced"),
    [
        ("The end.", True),
        ("“Oh!”", True),
        ("3 men", True),
        ("...", True),
        ("한국어", True),
        ("北京。", False),
        ("“北京。”", False),
        ("ไทย", False),
    ],
)
def test_a_sentence_after_another_has_a_space_where_its_script_has_spaces(
    sentence: str, spaced: bool
) -> None:
    assert after_another(sentence) == (f" {sentence}" if spaced else sentence)
