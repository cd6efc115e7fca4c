"""How much of an input is read: its beginning, to the piece."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.examples import (
    ChoiceExample,
    QuestionExample,
    RelationExample,
    SourceExample,
    TaggedExample,
    TextExample,
)
from bertworks.service.failures import Failure
from bertworks.service.lengths import CHARACTERS, ENOUGH, Lengths

WORDS = st.sampled_from(["cat", "Hügel", "北京", "unseen", "14", "!", "läuft", "   ", "\n"])


@given(st.lists(WORDS, max_size=60), st.integers(1, 40))
def test_a_shortened_text_has_the_first_pieces_of_the_whole(
    tokenizer, words: list[str], most: int
) -> None:
    text = " ".join(words)
    whole, short = tokenizer.ids_of([text, Lengths(tokenizer, most).shorten(text)])
    assert short == whole[: len(short)]
    assert len(short) >= min(most, len(whole))
    if len(text) > most:
        assert len(short) <= most


def test_a_text_that_fits_is_left_as_it_is(tokenizer) -> None:
    text = " the cat\n"
    assert Lengths(tokenizer, 100).shorten(text) is text


def test_characters_that_can_hardly_be_read_are_not_looked_at(tokenizer) -> None:
    text = "cat" + " " * 10_000 + "dog"
    assert tokenizer.ids_of([Lengths(tokenizer, 7).shorten(text)]) == tokenizer.ids_of(["cat"])
    assert len(Lengths(tokenizer, 7).shorten("x" * 10_000)) <= CHARACTERS * 7


ODD = st.sampled_from(["cat ", "a", " ", "\u0301", "北京", "[", "a\u200d", "x" * 130, "the hill\n"])


@given(st.lists(ODD, min_size=1, max_size=3), st.integers(1, 900), st.sampled_from([3, 17, 64]))
def test_of_a_long_text_little_more_is_looked_at_than_is_read(
    kinds, parts: list[str], times: int, most: int
) -> None:
    text = "".join(parts) * times
    for tokenizer in kinds.values():
        begin = text[: CHARACTERS * most]
        plainly = begin[: _plain_end(tokenizer.encode(begin).offsets, most)]
        found = Lengths(tokenizer, most).shorten(text)
        assert tokenizer.ids_of([found]) == tokenizer.ids_of([plainly])


def _plain_end(offsets: list[tuple[int, int]], most: int) -> int | None:
    """Return where so many pieces end, all of whose characters are whole."""
    pairs = list(pairwise(offsets))[:most]
    ends = [0, *(one[1] for one, other in pairs if other[0] >= one[1])]
    return ends[-1] if len(offsets) > most else None


BYTES = st.sampled_from(["中", "é", "🙂", " ", "a", "ﬁ", "한"])


@given(st.lists(BYTES, min_size=1, max_size=3), st.integers(1, 120), st.sampled_from([5, 64, 101]))
def test_whatever_a_character_is_made_of_no_more_pieces_are_left(
    kinds, parts: list[str], times: int, most: int
) -> None:
    text = "".join(parts) * times
    for tokenizer in kinds.values():
        whole, short = tokenizer.ids_of([text, Lengths(tokenizer, most).shorten(text)])
        assert len(short) <= most
        if len(whole) <= most:
            assert short == whole


@pytest.mark.parametrize("count", [33, 34, 100, 101, 500])
def test_a_character_of_several_pieces_is_read_whole_or_not_at_all(kinds, count: int) -> None:
    tokenizer = kinds["byte-bpe"]
    assert len(tokenizer.ids_of(["한"])[0]) == 3
    assert Lengths(tokenizer, 100).shorten("한" * count) == "한" * 33


@pytest.mark.parametrize("part", ["x", " ", "\u0301", "a\u200d"])
def test_of_what_is_no_language_no_more_is_looked_at_where_much_is_read(tokenizer, part) -> None:
    text = part * (1 << 20)
    assert len(Lengths(tokenizer, 1024).shorten(text)) == CHARACTERS * 1024 < ENOUGH
    assert len(Lengths(tokenizer, 2048).shorten(text)) == ENOUGH
    assert len(Lengths(tokenizer, 8192).shorten(text)) == ENOUGH


def test_where_much_is_read_long_words_are_read_as_well(tokenizer) -> None:
    text = ("hill" + " " * 7) * 20_000  # 11 characters a piece
    for most in (8192, 16384):
        assert len(tokenizer.ids_of([Lengths(tokenizer, most).shorten(text)])[0]) == most


def test_the_long_parts_of_an_example_are_shortened_and_no_others(tokenizer) -> None:
    lengths, long, short = Lengths(tokenizer, 9), "cat " * 50, " ".join(["cat"] * 9)
    shorten = lengths.shorten_example
    assert shorten(TextExample(long, "dog", line=3)) == TextExample(short, "dog", line=3)
    assert shorten(TextExample("dog", long)) == TextExample("dog", short)
    assert shorten(TaggedExample(long)) == TaggedExample(short)
    assert shorten(QuestionExample(long, long)) == QuestionExample(long, short)
    assert shorten(ChoiceExample("a", (long, "b"), long)) == ChoiceExample("a", (long, "b"), short)
    assert shorten(SourceExample(long, (long,))) == SourceExample(short, (long,))
    marked = RelationExample(long, (0, 3), (4, 7))
    assert shorten(marked) == marked
    tagged = TaggedExample(long, ((0, 3),))
    assert shorten(tagged) == tagged


def test_an_example_is_not_read_too_often(tokenizer) -> None:
    lengths, example = Lengths(tokenizer, 9), TextExample("cat " * 30, line=5)
    lengths.require_few_readings(example, 4)
    with pytest.raises(Failure, match=r"input 5 has 120 characters to be read 5 times, and 576"):
        lengths.require_few_readings(example, 5)
    lengths.require_few_readings(TextExample("cat " * 300), 1)


@pytest.mark.parametrize(
    "example",
    [
        TaggedExample("cat " * 200, ((0, 3),), line=4),
        QuestionExample("cat " * 200, "dog", line=4),
        ChoiceExample("a", ("cat " * 200, "b"), line=4),
        RelationExample("cat " * 200, (0, 3), (4, 7), line=4),
    ],
)
def test_what_may_not_be_cut_may_not_be_huge(tokenizer, example) -> None:
    assert Lengths(tokenizer, 30).shorten_example(example) == example
    with pytest.raises(Failure, match=r"^input 4 has .* characters.* more than 576; sh") as failed:
        Lengths(tokenizer, 9).shorten_example(example)
    assert failed.value.code == "too_large"
