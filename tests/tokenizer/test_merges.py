"""Merges make of a word what the engine makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.tokenizer.merges import Merge, merge, merges_in
from bertworks.tokenizer.shrink import Needs
from bertworks.tokenizer.tokenizer import Tokenizer

RANKS = {("a", "b"): 1, ("b", "c"): 0, ("a", "a"): 2, ("aa", "a"): 3, ("aa", "aa"): 4}


@pytest.mark.parametrize(
    ("word", "pieces", "made"),
    [
        ("abc", ["a", "bc"], [("b", "c")]),
        ("aaa", ["aaa"], [("a", "a"), ("aa", "a")]),
        ("aaaa", ["aaaa"], [("a", "a"), ("a", "a"), ("aa", "aa")]),
        ("xaab", ["x", "a", "ab"], [("a", "b")]),
        ("", [], []),
    ],
)
def test_merges_go_by_rank_and_then_from_the_left(
    word: str, pieces: list[str], made: list[Merge]
) -> None:
    assert merge(word, RANKS) == (pieces, made)


@pytest.mark.parametrize(
    ("answers", "pieces"),
    [
        ([True, True], ["a", "b", "c"]),  # nothing is left to be made
        ([True, False], ["ab", "c"]),
        ([False], ["a", "bc"]),
    ],
)
def test_of_merges_that_are_left_out_the_next_is_made(
    answers: list[bool], pieces: list[str]
) -> None:
    left = iter(answers)
    assert merge("abc", RANKS, leaves_out=lambda: next(left))[0] == pieces
    assert list(left) == []


def test_what_is_left_out_once_can_be_made_after_the_next() -> None:
    left = iter([True, False, False])
    pieces, made = merge("bcxab", RANKS, leaves_out=lambda: next(left))
    assert (pieces, made) == (["bc", "x", "ab"], [("a", "b"), ("b", "c")])


@given(word=st.text("thecaonsd", min_size=1, max_size=12))
def test_merges_make_the_pieces_that_the_engine_makes(
    kinds: dict[str, Tokenizer], word: str
) -> None:
    pieces, made = merge(word, Needs(kinds["byte-bpe"]).ranks)
    assert pieces == kinds["byte-bpe"].encode(word).tokens
    again = list(word)
    for first, second in made:
        at = next(i for i in range(len(again)) if again[i : i + 2] == [first, second])
        again[at : at + 2] = [first + second]
    assert again == pieces


def test_merges_written_as_words_are_read_too() -> None:
    assert merges_in({"merges": ["a b", ["c", "d"]]}) == [("a", "b"), ("c", "d")]
    assert merges_in({}) == []
