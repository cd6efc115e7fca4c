"""Counts of neighbors: every pair within reach, of one document, that is learned from."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch

from bertworks.data import neighbors
from bertworks.data.neighbors import REACH, count_neighbors
from bertworks.data.shards import Shards

MakeShards = Callable[..., Shards]
MakeDocuments = Callable[..., list[list[list[int]]]]
CPU = torch.device("cpu")
VOCAB_SIZE = 97


def by_hand(documents: list[list[list[int]]]) -> Counter[tuple[int, int]]:
    """Count all pairs of places of a document that are within reach."""
    pairs: Counter[tuple[int, int]] = Counter()
    for document in documents:
        pieces = [piece for sentence in document for piece in sentence]
        for here, piece in enumerate(pieces):
            for there in range(max(0, here - REACH), min(len(pieces), here + REACH + 1)):
                if there != here:
                    pairs[piece, pieces[there]] += 1
    return pairs


def most_frequent(documents: list[list[list[int]]]) -> list[int]:
    counts = Counter(piece for document in documents for sentence in document for piece in sentence)
    return sorted(counts, key=lambda piece: (-counts[piece], piece))


@pytest.mark.parametrize("at_once", [7, 61, 1 << 20])
def test_every_pair_of_a_document_is_counted_and_none_of_two(
    at_once: int,
    make_shards: MakeShards,
    make_documents: MakeDocuments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = make_documents(13, seed=6, longest=3)  # shorter than the reach, some of them
    shards = make_shards(documents, held_out=(0, 5), tokens_per_part=101)
    monkeypatch.setattr(neighbors, "AT_ONCE", at_once)
    learned = [document for number, document in enumerate(documents) if number not in (0, 5)]
    counts = count_neighbors(shards, device=CPU)
    expected = by_hand(learned)
    columns = most_frequent(learned)
    assert counts.shape == (VOCAB_SIZE, len(columns))
    assert int(counts.sum()) == expected.total() > 0
    for column, near in enumerate(columns):
        assert counts[:, column].tolist() == [expected[piece, near] for piece in range(VOCAB_SIZE)]


def test_where_there_is_little_room_frequent_pieces_have_columns(
    make_shards: MakeShards, make_documents: MakeDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = make_documents(13, seed=7)
    shards = make_shards(documents, held_out=())
    whole = count_neighbors(shards, device=CPU)
    monkeypatch.setattr(neighbors, "FEWEST_COLUMNS", 7)
    monkeypatch.setattr(neighbors, "MOST_CELLS", VOCAB_SIZE * 11)
    assert count_neighbors(shards, device=CPU).equal(whole[:, :11])
    monkeypatch.setattr(neighbors, "MOST_CELLS", VOCAB_SIZE)
    assert count_neighbors(shards, device=CPU).equal(whole[:, :7])


def test_of_a_large_corpus_stretches_are_counted_all_over(
    make_shards: MakeShards, make_documents: MakeDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = make_documents(40, seed=8)
    shards = make_shards(documents)
    monkeypatch.setattr(neighbors, "AT_ONCE", 1)  # each document is a stretch of its own
    monkeypatch.setattr(neighbors, "MOST_TOKENS", shards.num_tokens // 4 + 1)
    assert int(count_neighbors(shards, device=CPU).sum()) == by_hand(documents[::4]).total()


def test_a_corpus_that_is_held_out_whole_has_no_neighbors(make_shards: MakeShards) -> None:
    shards = make_shards([[[5, 6, 7]]], held_out=(0,))
    assert count_neighbors(shards, device=CPU).shape == (VOCAB_SIZE, 0)
