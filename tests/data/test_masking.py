"""Pieces are hidden at BERT's rates, never special ones, and in every text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.pieces import SpecialIds
from bertworks.core.seeds import random_at
from bertworks.data.masking import Masking

VOCAB_SIZE = 1009
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
