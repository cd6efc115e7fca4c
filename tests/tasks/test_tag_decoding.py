"""The best tags of a text and their probabilities, against all ways counted out."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.tag_schemes import find_misplaced
from bertworks.tasks.tag_decoding import TagChain, rules_of

LABELS = ("O", "B-X", "I-X", "S")
BIO = ("O", "B-X", "I-X", "B-Y", "I-Y")
sizes = st.integers(1, 4)


def draw_rows(num_words: int, num_labels: int, seed: int, *, pairs: bool) -> np.ndarray:
    """Draw the scores of words, each by itself or after each label."""
    random = np.random.default_rng(seed)
    rows = 2 * random.standard_normal((num_words, num_labels ** (2 if pairs else 1)))
    if pairs:  # the first is the same after every label
        rows[0] = np.tile(rows[0, :num_labels], num_labels)
    return rows.astype(np.float32)


def all_ways(rows: np.ndarray, labels: tuple[str, ...], scheme) -> dict[tuple[int, ...], float]:
    """Return the score of every way that the scheme allows."""
    rows = rows.reshape(len(rows), -1, len(labels))
    found = {}
    for path in itertools.product(range(len(labels)), repeat=len(rows)):
        if find_misplaced([labels[tag] for tag in path], scheme):
            continue
        pairs = zip([0, *path], path, strict=False)
        found[path] = sum(
            float(row[before % len(row), tag])
            for row, (before, tag) in zip(rows, pairs, strict=False)
        )
    return found


@settings(max_examples=30)
@given(sizes, st.integers(0, 99), st.booleans())
def test_the_best_way_is_the_best_of_all_that_are_allowed(num_words, seed, pairs) -> None:
    rows = draw_rows(num_words, len(BIO), seed, pairs=pairs)
    ways = all_ways(rows, BIO, "bio")
    path = tuple(TagChain(rows, rules_of(BIO, "bio")).best().tolist())
    assert ways[path] == pytest.approx(max(ways.values()))


@settings(max_examples=30)
@given(sizes, st.integers(0, 99), st.booleans())
def test_probabilities_are_shares_of_all_that_are_allowed(num_words, seed, pairs) -> None:
    rows = draw_rows(num_words, len(BIO), seed, pairs=pairs)
    ways = {way: np.exp(score) for way, score in all_ways(rows, BIO, "bio").items()}
    chain = TagChain(rows, rules_of(BIO, "bio"))
    path = chain.best()
    alone, behind = chain.chances(path)
    total = sum(ways.values())
    for word, tag in enumerate(path):
        having = {way: share for way, share in ways.items() if way[word] == tag}
        assert alone[word] == pytest.approx(sum(having.values()) / total, abs=1e-5)
        if word:
            after = {way: s for way, s in ways.items() if way[word - 1] == path[word - 1]}
            both = sum(share for way, share in after.items() if way[word] == tag)
            assert behind[word] == pytest.approx(both / sum(after.values()), abs=1e-5)
    whole = ways[tuple(path.tolist())] / total
    assert alone[0] * behind[1:].prod() == pytest.approx(whole, abs=1e-5)


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=5, max_size=5), min_size=1))
def test_no_scores_lead_to_tags_that_may_not_follow_each_other(rows: list[list[float]]) -> None:
    chain = TagChain(np.array(rows, np.float32), rules_of(BIO, "bio"))
    path = chain.best()
    assert find_misplaced([BIO[tag] for tag in path], "bio") == []
    alone, behind = chain.chances(path)
    assert np.isfinite(alone).all()
    assert np.isfinite(behind).all()
    assert ((alone >= 0) & (alone <= 1 + 1e-9)).all()


def test_without_rules_the_best_of_each_word_would_break_the_scheme() -> None:
    rows = np.array([[1.0, 0.0, 3.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 3.0]], np.float32)
    assert find_misplaced([BIO[tag] for tag in rows.argmax(1)], "bio")
    assert TagChain(rows, rules_of(BIO, "bio")).best().tolist() == [3, 4]
    assert TagChain(rows, rules_of(BIO, "plain")).best().tolist() == [2, 4]


def test_a_text_that_leaves_no_way_gets_the_best_there_is() -> None:
    rules = rules_of(("B", "E"), "bmes")
    chain = TagChain(np.array([[0.0, 1.0]], np.float32), rules)
    path = chain.best()
    assert path.tolist() in ([0], [1])
    assert np.isfinite(chain.chances(path)).all()


def test_an_open_span_is_closed_at_the_end() -> None:
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    rows = np.array([[0, 5, 0, 0, 1], [0, 0, 5, 1, 0]], np.float32)
    found = TagChain(rows, rules_of(labels, "bioes")).best()
    assert [labels[tag] for tag in found] == ["B-X", "E-X"]
