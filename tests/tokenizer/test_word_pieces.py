"""Every word has a first piece of its own, and reads as in running text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.word_pieces import cut_words, find_tagged_words

KINDS = ("wordpiece", "byte-bpe", "unigram")
PARTS = (
    "cat",
    "dog",
    " ",
    "  ",
    "\n",
    ".",
    "...",
    "北京",
    "中",
    "läuft",
    "\x01",
    "\u200b",
    "ﬁ",
    "3,",
)


@pytest.fixture(params=KINDS)
def cutter(request: pytest.FixtureRequest, kinds: dict[str, Tokenizer]) -> Tokenizer:
    return kinds[request.param]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat, 3.5!", ["The", "cat", ",", "3", ".", "5", "!"]),
        ("don't  stop\n", ["don", "'", "t", "stop"]),
        ("我在Paris学3月", ["我", "在", "Paris", "学", "3", "月"]),
        ("กิต", ["กิ", "ต"]),
        ("e\u0301te\u0301 \u0301x", ["e\u0301te\u0301", "\u0301", "x"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("\u200b \x01", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_and_single_signs(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in find_tagged_words(text)] == words


@given(st.text())
def test_words_stand_in_order_and_leave_out_nothing_that_can_be_seen(text: str) -> None:
    words = find_tagged_words(text)
    ends = [0, *(end for _, end in words)]
    for before, (start, end) in zip(ends, words, strict=False):
        assert before <= start < end
        assert not any(char.isalnum() for char in text[before:start])
    assert not any(char.isalnum() for char in text[ends[-1] :])


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.randoms())
def test_every_word_has_a_piece_that_no_other_has(cutter: Tokenizer, text: str, random) -> None:
    words = find_tagged_words(text)
    if random.random() < 0.5:  # other words than the text has by itself
        edges = sorted(random.sample(range(len(text) + 1), k=min(4, len(text) + 1)))
        words = list(pairwise(edges))
    found = cut_words(cutter, text, words)
    firsts = found.firsts.tolist()
    assert len(firsts) == len(words)
    assert firsts == sorted(set(firsts))
    assert all(0 <= first < len(found.ids) for first in firsts)


@given(st.lists(st.sampled_from(["The", "cat", "dog", "ran", "Hügel", "läuft"]), max_size=8))
def test_words_between_spaces_are_cut_as_running_text_is(cutter: Tokenizer, words) -> None:
    text = " ".join(words)
    found = cut_words(cutter, text, find_tagged_words(text))
    assert found.ids.tolist() == cutter.ids_of([text])[0]
    for number, first in enumerate(found.firsts):
        before = cutter.ids_of([" ".join(words[:number])])[0]
        between = cutter.text_of(found.ids[len(before) : first].tolist())
        assert not between.strip()  # a space that is a piece by itself


def test_a_byte_piece_begins_with_the_space_before_its_word(kinds) -> None:
    tokenizer = kinds["byte-bpe"]
    found = cut_words(tokenizer, "cat cat", [(0, 3), (4, 7)])
    alone, behind = (tokenizer.ids_of([text])[0] for text in ("cat", " cat"))
    assert alone != behind
    assert found.ids.tolist() == [*alone, *behind]


def test_words_that_share_a_piece_are_cut_by_themselves(kinds) -> None:
    tokenizer = kinds["byte-bpe"]
    assert len(tokenizer.ids_of(["北京"])[0]) == 1
    found = cut_words(tokenizer, "the 北京 cat", [(0, 3), (4, 5), (5, 6), (7, 10)])
    parts = tokenizer.ids_of(["the", " 北", "京", " cat"])
    assert found.ids.tolist() == [piece for part in parts for piece in part]
    assert found.firsts.tolist() == [sum(map(len, parts[:n])) for n in range(4)]


def test_a_word_inside_another_has_no_space_before_it(kinds) -> None:
    tokenizer = kinds["unigram"]
    found = cut_words(tokenizer, "北京", [(0, 1), (1, 2)])
    pieces = [tokenizer.piece(int(index)) for index in found.ids]
    assert "".join(pieces).replace("▁", "") == "北京"
    assert not pieces[found.firsts[1]].startswith("▁")


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_word_without_pieces_gets_the_unknown_one(tokenizer: Tokenizer, place: int) -> None:
    words = ["the", "cat", "sat", "on"]
    words.insert(place, "\x01\u200b")
    text = " ".join(words)
    ends = [len(" ".join(words[: number + 1])) for number in range(5)]
    places = [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
    found = cut_words(tokenizer, text, places)
    assert found.ids[found.firsts[place]] == tokenizer.specials.unknown
    others = [piece for n, piece in enumerate(found.ids) if n != found.firsts[place]]
    assert others == tokenizer.ids_of([text])[0]


def test_pieces_of_no_word_stay_where_they_are(kinds) -> None:
    tokenizer = kinds["byte-bpe"]
    found = cut_words(tokenizer, "cat\n\ncat", [(0, 3), (5, 8)])
    assert found.ids.tolist() == tokenizer.ids_of(["cat\n\ncat"])[0]
    assert len(found.ids) > 2
    assert cut_words(tokenizer, "\n\n", []).ids.tolist() == tokenizer.ids_of(["\n\n"])[0]
