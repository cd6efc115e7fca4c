"""Passages cover the corpus once, and pairs tell nothing but whether they belong together."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.pieces import IGNORE
from bertworks.core.seeds import random_at
from bertworks.data.passages import IS_NEXT, IS_RANDOM, IS_SWAPPED, Pairs, Passages
from bertworks.data.shards import Shards

MakeShards = Callable[..., Shards]
MakeDocuments = Callable[..., list[list[list[int]]]]
SENTENCE = st.lists(st.just(7), min_size=1, max_size=11)
DOCUMENTS = st.lists(st.lists(SENTENCE, min_size=1, max_size=9), min_size=1, max_size=7)


@pytest.fixture
def shards(make_shards: MakeShards, make_documents: MakeDocuments) -> Shards:
    """Write 211 documents of up to 23 sentences, every seventh held out."""
    documents = make_documents(211, seed=3)
    return make_shards(documents, held_out=tuple(range(0, 211, 7)), tokens_per_part=4001)


def document_at(shards: Shards, tokens: np.ndarray) -> np.ndarray:
    """Return the document in which each token lies."""
    sentence = np.searchsorted(shards.sentence_starts, tokens, side="right") - 1
    return np.searchsorted(shards.document_starts, sentence, side="right") - 1


def pairs_of_epochs(passages: Passages, count: int) -> Pairs:
    drawn = [passages.pairs(random_at(5, "epoch", epoch)) for epoch in range(count)]
    parts = (np.concatenate([getattr(p, n) for p in drawn]) for n in ("first", "second", "label"))
    return Pairs(*parts)


def best_guess_by(sizes: np.ndarray, labels: np.ndarray) -> float:
    """Return how often the best threshold on a size would tell the label."""
    sorted_labels = labels[np.argsort(sizes, kind="stable")]
    signs = np.where(sorted_labels == IS_RANDOM, 1, -1)
    gain = np.concatenate([[0], np.cumsum(signs)])
    hits = gain + (labels == IS_NEXT).sum()
    return max(hits.max(), len(labels) - hits.min()) / len(labels)


@settings(max_examples=40)  # each writes files
@given(DOCUMENTS, st.integers(1, 15), st.data())
def test_passages_cover_every_piece_once_within_documents_and_room(
    make_shards: MakeShards, documents: list[list[list[int]]], room: int, data: st.DataObject
) -> None:
    held_out = data.draw(st.sets(st.integers(0, len(documents) - 1)))
    shards = make_shards(documents, held_out=tuple(held_out), tokens_per_part=31)
    covered = np.zeros(shards.num_tokens, dtype=int)
    for is_held_out in (False, True):
        for start, end in Passages(shards, room=room, held_out=is_held_out).singles().first:
            covered[start:end] += 1
            assert 0 < end - start <= room
            document = document_at(shards, np.array([start, end - 1]))
            assert document[0] == document[1]
            assert shards.is_held_out[document[0]] == is_held_out
    assert (covered == 1).all()


@settings(max_examples=40)  # each writes files
@given(DOCUMENTS, st.integers(2, 15), st.integers(0, 99))
def test_pairs_stay_in_the_room_and_negatives_come_from_another_document(
    make_shards: MakeShards, documents: list[list[list[int]]], room: int, seed: int
) -> None:
    shards = make_shards(documents)
    passages = Passages(shards, room=room, held_out=False)
    pairs = passages.pairs(random_at(seed, "epoch"))
    whole = passages.singles()
    assert (pairs.sizes() <= room).all()
    home = document_at(shards, pairs.first[:, 0])
    for number, label in enumerate(pairs.label):
        first, second = pairs.first[number], pairs.second[number]
        assert first[0] == whole.first[number, 0]
        assert first[1] > first[0]
        if label == IGNORE:
            assert first[1] == whole.first[number, 1]
            assert second[0] == second[1]
        elif label == IS_NEXT:
            assert first[1] == second[0] < second[1] == whole.first[number, 1]
        else:
            assert second[1] > second[0]
            there = document_at(shards, np.array([second[0], second[1] - 1]))
            assert there[0] == there[1] != home[number]


def test_a_passage_is_as_many_whole_sentences_as_fit(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5] * 3, [6] * 4, [7] * 2]]), room=7, held_out=False)
    assert passages.singles().first.tolist() == [[0, 7], [7, 9]]


def test_an_overlong_sentence_is_cut_to_the_room(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5] * 17, [6] * 2], [[7] * 7]]), room=7, held_out=False)
    assert passages.singles().first.tolist() == [[0, 7], [7, 14], [14, 19], [19, 26]]


def test_labels_are_balanced_and_drawn_anew(shards: Shards) -> None:
    passages = Passages(shards, room=61, held_out=False)
    pairs = pairs_of_epochs(passages, 7)
    is_pair = pairs.label != IGNORE
    assert is_pair.mean() > 0.9
    share = (pairs.label[is_pair] == IS_RANDOM).mean()
    assert abs(share - 0.5) < 4 * (0.25 / is_pair.sum()) ** 0.5
    labels = pairs.label.reshape(7, -1)
    assert not np.array_equal(labels[0], labels[1])
    assert not np.array_equal(pairs.first.reshape(7, -1)[0], pairs.first.reshape(7, -1)[1])


def test_both_parts_begin_and_end_with_a_sentence(shards: Shards) -> None:
    pairs = pairs_of_epochs(Passages(shards, room=61, held_out=False), 3)
    assert np.isin(pairs.first, shards.sentence_starts).all()
    assert np.isin(pairs.second, shards.sentence_starts).all()


def test_length_does_not_tell_the_label(shards: Shards) -> None:
    pairs = pairs_of_epochs(Passages(shards, room=61, held_out=False), 7)
    labels = pairs.label[pairs.label != IGNORE]
    second = (pairs.second[:, 1] - pairs.second[:, 0])[pairs.label != IGNORE]
    total = pairs.sizes()[pairs.label != IGNORE]
    assert best_guess_by(second, labels) < 0.54
    assert best_guess_by(total, labels) < 0.54
    a_piece_in_nine_lost = total - np.where(labels == IS_RANDOM, total // 9, 0)
    assert best_guess_by(a_piece_in_nine_lost, labels) > 0.6


def test_the_first_part_does_not_tell_the_label(shards: Shards) -> None:
    pairs = pairs_of_epochs(Passages(shards, room=61, held_out=False), 7)
    first = (pairs.first[:, 1] - pairs.first[:, 0])[pairs.label != IGNORE]
    assert best_guess_by(first, pairs.label[pairs.label != IGNORE]) < 0.54


def test_strangers_come_from_many_documents(shards: Shards) -> None:
    pairs = pairs_of_epochs(Passages(shards, room=61, held_out=False), 7)
    strangers = document_at(shards, pairs.second[pairs.label == IS_RANDOM, 0])
    assert len(np.unique(strangers)) > 0.9 * (~shards.is_held_out).sum()
    assert not shards.is_held_out[strangers].any()


def test_a_passage_of_one_sentence_is_no_pair(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5] * 6, [6] * 6], [[7, 7], [8, 8]]]), room=7, held_out=False)
    labels = passages.pairs(random_at(5, "epoch")).label
    assert labels[:2].tolist() == [IGNORE, IGNORE]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_passages_is_split_and_nothing_is_lost(shards: Shards, share: float) -> None:
    passages = Passages(shards, room=47, held_out=False)
    whole, found = passages.singles().first, passages.halves(random_at(5, "epoch"), share=share)
    assert np.array_equal(found.first[:, 0], whole[:, 0])
    assert np.array_equal(found.first[:, 1], found.second[:, 0])
    assert np.array_equal(found.second[:, 1], whole[:, 1])
    is_split = found.label == IS_NEXT
    assert np.array_equal(is_split, found.second[:, 1] > found.second[:, 0])
    assert (found.label[~is_split] == IGNORE).all()
    can_split = passages.spans[:, 1] - passages.spans[:, 0] > 1
    assert is_split[can_split].mean() == pytest.approx(share, abs=0.06)
    assert set(found.second[is_split, 0]) <= {*shards.sentence_starts.tolist()}


def test_a_passage_of_one_sentence_stays_whole_whatever_share_is_split(
    make_shards: MakeShards,
) -> None:
    passages = Passages(
        make_shards([[[5, 6]], [[5], [6]], [[7, 8, 9]]] * 9), room=7, held_out=False
    )
    found = passages.halves(random_at(5, "epoch"), share=1)
    num_sentences = passages.spans[:, 1] - passages.spans[:, 0]
    assert {*num_sentences.tolist()} == {1, 2}
    assert np.array_equal(found.label == IS_NEXT, num_sentences > 1)


def test_a_share_of_the_passages_stands_in_both_parts_as_far_as_there_is_room(
    shards: Shards,
) -> None:
    passages = Passages(shards, room=47, held_out=False)
    split = passages.halves(random_at(5, "epoch"), share=0.4)
    found = passages.halves(random_at(5, "epoch"), share=0.4, repeated=0.6)
    is_twice = (found.first == found.second).all(axis=1) & (found.label == IS_NEXT)
    assert is_twice.sum() > 20
    assert found.sizes().max() <= 47
    assert np.array_equal(found.first[:, 0], split.first[:, 0])
    assert np.array_equal(found.first[~is_twice], split.first[~is_twice])
    assert np.array_equal(found.second[~is_twice], split.second[~is_twice])
    ends = found.first[is_twice, 1]
    assert {*ends.tolist()} <= {*passages.bounds.tolist()}
    splits = passages.halves(random_at(5, "epoch"), share=1).first[:, 1]
    fits = (splits - found.first[:, 0]) * 2 <= 47
    assert is_twice[fits].mean() == pytest.approx(0.6, abs=0.12)
    assert not is_twice[~fits].any()


def test_a_single_document_has_no_pairs(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5, 6]] * 31]), room=7, held_out=False)
    pairs = passages.pairs(random_at(5, "epoch"))
    assert (pairs.label == IGNORE).all()
    assert np.array_equal(pairs.first, passages.singles().first)


def test_no_document_gives_no_passage(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5, 6]] * 3]), room=7, held_out=True)
    assert len(passages) == 0
    assert len(passages.pairs(random_at(5, "epoch")).label) == 0
    assert len(passages.singles().label) == 0


def test_for_the_order_of_sentences_half_of_the_pairs_change_places(shards: Shards) -> None:
    passages = Passages(shards, room=61, held_out=False)
    whole = passages.singles().first
    pairs = passages.pairs(random_at(5, "epoch"), ("sentence_order",))
    is_pair = pairs.label != IGNORE
    assert np.array_equal(is_pair, np.diff(passages.spans, axis=1)[:, 0] > 1)
    assert set(pairs.label[is_pair].tolist()) == {IS_NEXT, IS_SWAPPED}
    share = (pairs.label[is_pair] == IS_SWAPPED).mean()
    assert abs(share - 0.5) < 4 * (0.25 / is_pair.sum()) ** 0.5
    for number in np.flatnonzero(is_pair):
        parts = [pairs.first[number], pairs.second[number]]
        (start, middle), (same, end) = parts[::-1] if pairs.label[number] == IS_SWAPPED else parts
        assert middle == same
        assert [start, end] == whole[number].tolist()


def test_no_length_tells_the_order_of_sentences(shards: Shards) -> None:
    passages = Passages(shards, room=61, held_out=False)
    drawn = [passages.pairs(random_at(5, "epoch", n), ("sentence_order",)) for n in range(7)]
    first = np.concatenate([p.first[:, 1] - p.first[:, 0] for p in drawn])
    labels = np.where(np.concatenate([p.label for p in drawn]) == IS_SWAPPED, IS_RANDOM, IS_NEXT)
    is_pair = np.concatenate([p.label for p in drawn]) != IGNORE
    assert best_guess_by(first[is_pair], labels[is_pair]) < 0.54


def test_a_single_document_has_pairs_in_order_and_swapped(make_shards: MakeShards) -> None:
    passages = Passages(make_shards([[[5, 6]] * 31]), room=7, held_out=False)
    pairs = passages.pairs(random_at(5, "epoch"), ("sentence_order",))
    assert {IS_NEXT, IS_SWAPPED} < set(pairs.label.tolist())  # the last passage is one sentence
    assert IS_RANDOM not in pairs.label


def test_an_objective_is_told_only_what_it_asks_about() -> None:
    spans = np.zeros((4, 2), dtype=np.int64)
    pairs = Pairs(spans, spans, np.array([IS_NEXT, IS_RANDOM, IS_SWAPPED, IGNORE]))
    told = {
        name: [pairs.label_for(name, index) for index in range(4)]
        for name in ("next_sentence", "sentence_order")
    }
    assert told == {
        "next_sentence": [0, 1, IGNORE, IGNORE],
        "sentence_order": [0, IGNORE, 1, IGNORE],
    }
