"""Counts of tokenizing: they add up, survive being put aside, and tell what they say."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.token_statistics import PERCENTILES, TokenStatistics

documents = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 900), st.integers(0, 900)))


def count(rows: list[tuple[int, int, int]]) -> TokenStatistics:
    made = TokenStatistics(sentences=3 * len(rows), unknown_tokens=len(rows))
    for tokens, spaced, unspaced in rows:
        made.add_document(tokens, num_words=spaced + unspaced, num_unspaced=unspaced)
    return made


@given(documents, documents)
def test_the_counts_of_chunks_are_those_of_the_whole(first, second) -> None:
    added = TokenStatistics.from_json(json.loads(json.dumps(count(first).as_json())))
    added.add(count(second))
    whole = count(first + second)
    assert added == whole
    assert json.dumps(added.as_json()) == json.dumps(whole.as_json())
    assert whole.tokens == sum(tokens for tokens, _, _ in first + second)


@given(documents.filter(bool))
def test_percentiles_are_those_of_all_lengths(rows) -> None:
    lengths = [tokens for tokens, _, _ in rows]
    expected = np.percentile(lengths, PERCENTILES, method="inverted_cdf")
    assert list(count(rows).percentiles().values()) == expected.tolist()


def test_the_summary_tells_fertility_by_kind_of_script() -> None:
    summary = count([(12, 10, 1), (30, 0, 20), (18, 9, 0)]).summary()
    assert summary["pieces_per_word"] == pytest.approx(30 / 20)
    assert summary["pieces_per_character"] == pytest.approx(30 / 20)
    assert summary["unknown_share"] == pytest.approx(3 / 60)
    assert summary["tokens_per_sentence"] == pytest.approx(60 / 9)
    assert (summary["documents"], summary["tokens"], summary["longest_document"]) == (3, 60, 30)
    assert summary["length_classes"] == {"8": 1, "16": 2}


def test_an_empty_corpus_has_no_ratios() -> None:
    summary = TokenStatistics().summary()
    assert summary["pieces_per_word"] is summary["unknown_share"] is None
    assert summary["length_percentiles"] == summary["length_classes"] == {}
