"""Pairs from topics are balanced, true, and tell nothing by their first passage."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.seeds import random_at
from bertworks.data.topic_pairs import OTHER, SAME, make_pairs, split_names

SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
NAMES = [f"topic/{number}" for number in range(2003)]


@pytest.fixture
def topics() -> dict[str, list[str]]:
    """Make topics of one to nineteen passages, each named after its topic."""
    random = random_at(3, "topics")
    sizes = random.integers(1, 20, size=37)
    return {
        f"t{number}": [f"t{number} passage {place}" for place in range(size)]
        for number, size in enumerate(sizes)
    }


def test_half_of_the_pairs_belong_together_and_say_so(topics: dict[str, list[str]]) -> None:
    pairs = make_pairs(topics, count=501, seed=7)
    assert Counter(pair.label for pair in pairs) == {SAME: 251, OTHER: 250}
    for number, pair in enumerate(pairs, start=1):
        assert pair.line == number
        assert pair.text_b is not None
        assert pair.text != pair.text_b
        is_same = pair.text.split()[0] == pair.text_b.split()[0]
        assert is_same == (pair.label == SAME)
        assert pair.text in topics[pair.text.split()[0]]
        assert pair.text_b in topics[pair.text_b.split()[0]]


def test_the_first_passage_alone_does_not_tell(topics: dict[str, list[str]]) -> None:
    pairs = make_pairs(topics, count=6000, seed=7)
    for first in (True, False):
        counts = {label: np.zeros(len(topics)) for label in (SAME, OTHER)}
        for pair in pairs:
            text = pair.text if first else str(pair.text_b)
            counts[str(pair.label)][int(text.split()[0][1:])] += 1
        difference = counts[SAME] - counts[OTHER]
        noise = np.sqrt(counts[SAME] + counts[OTHER]) + 1
        assert (np.abs(difference) < 5 * noise).all()


def test_pairs_are_a_function_of_the_seed(topics: dict[str, list[str]]) -> None:
    assert make_pairs(topics, count=31, seed=7) == make_pairs(topics, count=31, seed=7)
    assert make_pairs(topics, count=31, seed=7) != make_pairs(topics, count=31, seed=8)


def test_a_topic_of_one_passage_is_not_used(topics: dict[str, list[str]]) -> None:
    single = {name for name, passages in topics.items() if len(passages) == 1}
    assert single
    used = {
        text.split()[0]
        for p in make_pairs(topics, count=2001, seed=7)
        for text in (p.text, str(p.text_b))
    }
    assert not used & single
    assert used == set(topics) - single


def test_names_are_dealt_out_by_about_their_shares() -> None:
    parts = split_names(NAMES, SHARES)
    assert sorted(name for names in parts.values() for name in names) == sorted(NAMES)
    for part, share in SHARES.items():
        deviation = (share * (1 - share) * len(NAMES)) ** 0.5
        assert abs(len(parts[part]) - share * len(NAMES)) < 4 * deviation


@given(st.sets(st.sampled_from(NAMES)))
def test_a_name_never_moves_when_others_come_or_go(chosen: set[str]) -> None:
    home = {name: part for part, names in split_names(NAMES, SHARES).items() for name in names}
    for part, names in split_names(sorted(chosen), SHARES).items():
        assert all(home[name] == part for name in names)
