"""Counts of a corpus: every piece once, and copies wherever they stand."""

from collections.abc import Callable

import numpy as np

from bertworks.data import corpus_counts
from bertworks.data.corpus_counts import count_pieces, duplicate_share
from bertworks.data.passages import Passages
from bertworks.data.shards import Shards

MakeShards = Callable[..., Shards]
MakeDocuments = Callable[..., list[list[list[int]]]]


def counted(shards: Shards) -> tuple[np.ndarray, float]:
    passages = Passages(shards, room=29, held_out=False)
    return count_pieces(shards, passages), duplicate_share(shards, passages)


def test_pieces_are_counted_where_nothing_is_held_out(
    make_shards: MakeShards, make_documents: MakeDocuments
) -> None:
    documents = make_documents(31, seed=4)
    counts, _ = counted(make_shards(documents, held_out=(0, 7), tokens_per_part=501))
    kept = [document for number, document in enumerate(documents) if number not in (0, 7)]
    pieces = [piece for document in kept for sentence in document for piece in sentence]
    assert np.array_equal(counts, np.bincount(pieces, minlength=97))


def test_copies_are_found_and_nothing_else(
    make_shards: MakeShards, make_documents: MakeDocuments
) -> None:
    documents = make_documents(31, seed=4)
    assert counted(make_shards(documents))[1] == 0
    copied = make_shards([*documents, *documents], tokens_per_part=501)
    assert counted(copied)[1] == 0.5
    other = [[[5 + (piece - 4) % 92 for piece in s] for s in document] for document in documents]
    assert counted(make_shards([*documents, *other]))[1] < 0.02


def test_a_large_corpus_is_sampled_all_over(
    make_shards: MakeShards, make_documents: MakeDocuments, monkeypatch
) -> None:
    shards = make_shards(make_documents(83, seed=5))
    passages = Passages(shards, room=29, held_out=False)
    monkeypatch.setattr(corpus_counts, "MOST_PASSAGES", len(passages) // 3)
    some = count_pieces(shards, passages)
    assert 0.2 * shards.num_tokens < some.sum() < 0.5 * shards.num_tokens


def test_an_empty_corpus_counts_to_nothing(make_shards: MakeShards) -> None:
    shards = make_shards([[[5, 6]]])
    passages = Passages(shards, room=29, held_out=True)
    assert count_pieces(shards, passages).sum() == 0
    assert duplicate_share(shards, passages) == 0
