"""Pieces, words, spans and n-grams are hidden at their rates, never special ones, in every text."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.core.pieces import SpecialIds
from bertworks.core.seeds import random_at
from bertworks.data.masking import RUN_LENGTHS, Masking, MaskKind

VOCAB_SIZE = 1009
BY_WORDS: tuple[MaskKind, ...] = ("word", "span", "ngram")
TEXTS = st.lists(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=30), min_size=1, max_size=7)


@pytest.fixture
def masking(specials: SpecialIds) -> Masking:
    """Hide as BERT does."""
    return Masking(specials, VOCAB_SIZE)


def draw_texts(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = random_at(seed, "texts")
    lengths = random.integers(40, 130, size=count)
    return random.integers(5, VOCAB_SIZE, size=lengths.sum()), lengths


def within(share: float, expected: float, count: int) -> bool:
    """Tell whether a share lies within four standard deviations of what is expected."""
    return abs(share - expected) < 4 * (expected * (1 - expected) / count) ** 0.5


def test_fifteen_percent_are_hidden_eighty_ten_ten(masking: Masking) -> None:
    tokens, lengths = draw_texts(701, seed=3)
    hidden, at = masking.hide(tokens, lengths, random_at(5, "mask"))
    assert abs(len(at) / len(tokens) - 0.15) < 0.001
    masked = hidden[at] == masking.specials.mask
    kept = hidden[at] == tokens[at]
    assert within(masked.mean(), 0.8, len(at))
    assert within((~masked & ~kept).mean(), 0.1, len(at))
    assert within(kept.mean(), 0.1, len(at))


def test_other_shares_are_told_apart(specials: SpecialIds) -> None:
    tokens, lengths = draw_texts(701, seed=3)
    other = Masking(specials, VOCAB_SIZE, rate=0.3, masked_share=0.7, random_share=0.3)
    hidden, at = other.hide(tokens, lengths, random_at(5, "mask"))
    assert abs(len(at) / len(tokens) - 0.3) < 0.001
    assert within((hidden[at] == specials.mask).mean(), 0.7, len(at))
    assert not within((hidden[at] == specials.mask).mean(), 0.8, len(at))
    assert (hidden[at] == tokens[at]).mean() < 0.01


def test_hidden_places_are_spread_evenly_over_a_text(masking: Masking) -> None:
    tokens, lengths = np.full(20 * 3001, 7), np.full(3001, 20)
    _, at = masking.hide(tokens, lengths, random_at(5, "mask"))
    counts = np.bincount(at % 20, minlength=20)
    assert counts.sum() == 3 * 3001
    assert all(within(count / 3001, 0.15, 3001) for count in counts)


def test_random_pieces_come_from_the_whole_vocabulary_but_the_special_ones(
    specials: SpecialIds,
) -> None:
    tokens, lengths = draw_texts(701, seed=3)
    always = Masking(specials, VOCAB_SIZE, masked_share=0.0, random_share=1.0)
    hidden, at = always.hide(tokens, lengths, random_at(5, "mask"))
    assert hidden[at].min() == 5
    assert hidden[at].max() == VOCAB_SIZE - 1
    assert len(np.unique(hidden[at])) > 0.99 * (VOCAB_SIZE - 5)


@given(TEXTS, st.integers(0, 2**31))
def test_special_pieces_are_never_hidden_and_every_text_loses_its_share(
    specials: SpecialIds, texts: list[list[int]], seed: int
) -> None:
    tokens = np.array([piece for text in texts for piece in text], dtype=np.int64)
    lengths = np.array([len(text) for text in texts])
    before = tokens.copy()
    hidden, at = Masking(specials, VOCAB_SIZE).hide(tokens, lengths, random_at(seed, "mask"))
    assert np.array_equal(tokens, before)
    assert np.array_equal(at, np.unique(at))
    assert not np.isin(tokens[at], specials.as_tuple()).any()
    untouched = np.setdiff1d(np.arange(len(tokens)), at)
    assert np.array_equal(hidden[untouched], tokens[untouched])
    owner = np.repeat(np.arange(len(texts)), lengths)
    for number, text in enumerate(texts):
        ordinary = sum(piece >= 5 for piece in text)
        expected = max(round(0.15 * ordinary), 1) if ordinary else 0
        assert (owner[at] == number).sum() == expected


def test_each_place_of_a_run_hides_afresh_and_repeatably(masking: Masking) -> None:
    tokens, lengths = draw_texts(7, seed=3)
    first, again, other = (
        masking.hide(tokens, lengths, random_at(5, "mask", step)) for step in (0, 0, 1)
    )
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    overlap = len(np.intersect1d(first[1], other[1])) / len(first[1])
    assert overlap < 0.4


def test_the_default_hides_what_it_has_always_hidden(masking: Masking) -> None:
    tokens, lengths = draw_texts(53, seed=3)
    tokens[::11] = np.arange(len(tokens[::11])) % 5  # special ones too
    hidden, at = masking.hide(tokens, lengths, random_at(5, "mask"))
    found = hashlib.sha256(hidden.tobytes() + at.tobytes()).hexdigest()
    assert found[:16] == "f3315f8c41d9f39c"


def test_shares_above_the_whole_are_one_sentence(specials: SpecialIds) -> None:
    with pytest.raises(UsageError, match=r"share 0.8 and the random share 0.3 are more than"):
        Masking(specials, VOCAB_SIZE, random_share=0.3)
    assert Masking(specials, VOCAB_SIZE, masked_share=0.9).random_share == 0.1


# Words


def draw_words(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw texts with separators at their ends and inside; most pieces begin words."""
    tokens, lengths = draw_texts(count, seed=seed)
    starts = np.cumsum(lengths) - lengths
    tokens[starts], tokens[starts + lengths - 1], tokens[starts + 17] = 2, 3, 3
    return tokens, lengths, random_at(seed, "words").random(len(tokens)) < 0.7


def words_of(tokens: np.ndarray, begins_word: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the number of each piece's word, which ends with its text and at separators."""
    begins = begins_word | (tokens < 5) | np.append(True, tokens[:-1] < 5)
    begins[np.cumsum(lengths) - lengths] = True
    return np.cumsum(begins)


def by(kind: MaskKind, specials: SpecialIds, **shares: float) -> Masking:
    return Masking(specials, VOCAB_SIZE, kind=kind, **shares)


@pytest.mark.parametrize("kind", BY_WORDS)
@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_whole_words_are_hidden_at_the_rate(
    specials: SpecialIds, kind: MaskKind, rate: float
) -> None:
    tokens, lengths, begins = draw_words(701, seed=3)
    _, at = by(kind, specials).hide(
        tokens, lengths, random_at(5, "mask"), begins_word=begins, rate=rate
    )
    word = words_of(tokens, begins, lengths)
    assert np.isin(word, word[at]).sum() == len(at)  # no word is split
    assert tokens[at].min() >= 5
    assert abs(len(at) / (tokens >= 5).sum() - rate) < 0.001
    text = np.repeat(np.arange(701), lengths)
    excess = np.bincount(text[at]) - rate * np.bincount(text[tokens >= 5])
    assert np.abs(excess).mean() < 0.75
    assert -3 < excess.min() <= excess.max() < np.bincount(word[at]).max()


def test_pieces_hidden_one_by_one_split_words(masking: Masking) -> None:
    tokens, lengths, begins = draw_words(701, seed=3)
    _, at = masking.hide(tokens, lengths, random_at(5, "mask"), begins_word=begins)
    word = words_of(tokens, begins, lengths)
    assert np.isin(word, word[at]).sum() > 1.3 * len(at)


def test_long_words_are_hidden_as_often_as_short_ones(specials: SpecialIds) -> None:
    lengths = np.full(701, 90)
    begins = np.resize([True, True, False, True, False, False], lengths.sum())  # one, two, three
    tokens = np.full(len(begins), 7)
    _, at = by("word", specials).hide(tokens, lengths, random_at(5, "mask"), begins_word=begins)
    first = at[begins[at]] % 6
    for place in (0, 1, 3):
        assert within((first == place).sum() / (15 * 701), 0.15, 15 * 701)


def test_a_word_of_half_the_text_stays_where_there_are_others(specials: SpecialIds) -> None:
    lengths = np.full(101, 40)
    begins = np.resize(np.arange(40) < 20, lengths.sum())
    _, at = by("word", specials).hide(
        np.full(len(begins), 7), lengths, random_at(5, "mask"), begins_word=begins
    )
    assert (at % 40).max() == 18  # the last word has 21 pieces
    _, at = by("word", specials).hide(
        np.full(40, 7), lengths[:1], random_at(5, "mask"), begins_word=np.arange(40) < 1
    )
    assert len(at) == 40  # the only word there is


@pytest.mark.parametrize("kind", BY_WORDS)
def test_words_hidden_together_meet_the_same_fate(specials: SpecialIds, kind: MaskKind) -> None:
    tokens, lengths, begins = draw_words(701, seed=3)
    hidden, at = by(kind, specials).hide(tokens, lengths, random_at(5, "mask"), begins_word=begins)
    is_masked, is_kept = hidden[at] == specials.mask, hidden[at] == tokens[at]
    fate = np.where(is_masked, 0, np.where(is_kept, 2, 1))
    word = words_of(tokens, begins, lengths)[at]
    of_word = [np.unique(fate[word == number]) for number in np.unique(word)[:500]]
    # A random piece may be the piece itself.
    assert sum(len(fates) > 1 for fates in of_word) <= 1
    first = np.append(True, np.diff(word) > 0)
    for number, share in enumerate((0.8, 0.1, 0.1)):
        assert abs((fate[first] == number).mean() - share) < 0.02


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=30), min_size=1, max_size=7
    ),
    st.sampled_from(BY_WORDS),
    st.sampled_from([0.01, 0.15, 0.5, 0.99]),
    st.integers(0, 2**31),
)
def test_no_special_piece_is_hidden_and_no_word_is_split(
    specials: SpecialIds,
    texts: list[list[tuple[int, bool]]],
    kind: MaskKind,
    rate: float,
    seed: int,
) -> None:
    tokens = np.array([piece for text in texts for piece, _ in text], dtype=np.int64)
    begins = np.array([mark for text in texts for _, mark in text], dtype=bool)
    lengths = np.array([len(text) for text in texts])
    before = tokens.copy(), begins.copy()
    hidden, at = by(kind, specials).hide(
        tokens, lengths, random_at(seed, "mask"), begins_word=begins, rate=rate
    )
    assert np.array_equal(tokens, before[0])
    assert np.array_equal(begins, before[1])
    assert np.array_equal(at, np.unique(at))
    assert (tokens[at] >= 5).all()
    untouched = np.setdiff1d(np.arange(len(tokens)), at)
    assert np.array_equal(hidden[untouched], tokens[untouched])
    text = np.repeat(np.arange(len(texts)), lengths)
    apart = (tokens < 5) & (tokens != specials.unknown)
    breaks = begins | apart | np.append(True, apart[:-1])[: len(apart)]
    word = np.cumsum(breaks | np.append(True, np.diff(text) > 0)[: len(text)])
    whole = np.isin(word, word[at]) & (tokens >= 5)
    assert np.array_equal(np.flatnonzero(whole), at)
    has_any = np.bincount(text[tokens >= 5], minlength=len(texts)) > 0
    assert np.array_equal(np.bincount(text[at], minlength=len(texts)) > 0, has_any)


# Spans and n-grams


def run_lengths(kind: MaskKind, specials: SpecialIds) -> np.ndarray:
    """Hide little of long texts of two-piece words; return the shares of runs by words."""
    lengths = np.full(201, 3000)
    tokens = np.full(lengths.sum(), 7)
    begins = np.arange(len(tokens)) % 2 == 0
    _, at = by(kind, specials).hide(
        tokens, lengths, random_at(5, "mask"), begins_word=begins, rate=0.03
    )
    assert begins[at].sum() * 2 == len(at)
    words = at[begins[at]] // 2
    runs = np.diff(np.flatnonzero(np.append(np.diff(words, prepend=-2) > 1, True)))
    assert len(runs) > 2000
    return np.bincount(runs, minlength=12)[1:] / len(runs)


@pytest.mark.parametrize("kind", ["span", "ngram"])
def test_runs_of_words_follow_their_law(specials: SpecialIds, kind: MaskKind) -> None:
    found, law = run_lengths(kind, specials), RUN_LENGTHS[kind]
    expected = np.append(law, np.zeros(len(found) - len(law)))
    # Neighbors are now and then hidden side by side, and the last run of a text may end early.
    assert np.abs(found - expected).sum() / 2 < 0.05
    for other in (*RUN_LENGTHS.values(), np.full(10, 0.1), np.ones(1)):
        if other is not law:
            wrong = np.append(other, np.zeros(len(found) - len(other)))
            assert np.abs(found - wrong).sum() / 2 > 0.15


def test_the_laws_are_those_of_the_papers() -> None:
    span, ngram = RUN_LENGTHS["span"], RUN_LENGTHS["ngram"]
    assert abs((span * np.arange(1, 11)).sum() - 3.8) < 0.01
    assert np.allclose(span[1:] / span[:-1], 0.8)
    assert np.allclose(ngram, [6 / 11, 3 / 11, 2 / 11])


@pytest.mark.parametrize("kind", BY_WORDS)
def test_words_are_hidden_all_over_a_text(specials: SpecialIds, kind: MaskKind) -> None:
    lengths = np.full(3001, 120)
    tokens = np.full(lengths.sum(), 7)
    _, at = by(kind, specials).hide(
        tokens, lengths, random_at(5, "mask"), begins_word=np.ones(len(tokens), dtype=bool)
    )
    counts = np.bincount(at % 120, minlength=120)
    # The first words of a text are the first of a run, which the run keeps where it ends early.
    assert all(within(count / 3001, 0.15, 3001) for count in counts[5:])
    assert abs(counts[:5] / 3001 - 0.15).max() < 0.04


def test_masking_by_words_must_be_told_of_them(specials: SpecialIds) -> None:
    for kind in BY_WORDS:
        with pytest.raises(ValueError, match="must be told where words begin"):
            by(kind, specials).hide(np.array([7]), np.array([1]), random_at(5, "mask"))
        assert by(kind, specials).needs_words
    assert not by("piece", specials).needs_words
