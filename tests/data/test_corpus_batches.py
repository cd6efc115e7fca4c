"""A pre-training batch is a pure function of the shards, the seed and the step."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from bertworks.core.batch import Batch
from bertworks.core.pieces import IGNORE, SpecialIds
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.masking import Masking
from bertworks.data.passages import IS_NEXT
from bertworks.data.shards import Shards

PLAN = BatchPlan(tokens=307, longest=31, seed=11)
Make = Callable[..., CorpusBatches]


@pytest.fixture
def shards(
    make_shards: Callable[..., Shards], make_documents: Callable[..., list[list[list[int]]]]
) -> Shards:
    """Write 47 documents, every fifth held out, in several parts."""
    held_out = tuple(range(0, 47, 5))
    return make_shards(make_documents(47, seed=3), held_out=held_out, tokens_per_part=1001)


@pytest.fixture
def make(shards: Shards, specials: SpecialIds) -> Make:
    """Make the batches of a plan."""

    def of(plan: BatchPlan = PLAN, *, held_out: bool = False) -> CorpusBatches:
        return CorpusBatches(shards, Masking(specials, 97), plan, held_out=held_out)

    return of


def same(left: list[Batch], right: list[Batch]) -> bool:
    return len(left) == len(right) and all(
        a.ids == b.ids
        and a.layout.lengths == b.layout.lengths
        and torch.equal(a.tokens, b.tokens)
        and torch.equal(a.segments, b.segments)
        and a.targets.keys() == b.targets.keys()
        and all(torch.equal(a.targets[n].values, b.targets[n].values) for n in a.targets)
        for a, b in zip(left, right, strict=True)
    )


def restored(batch: Batch) -> list[list[int]]:
    """Return the texts as they were before pieces were hidden."""
    tokens = batch.tokens.clone()
    target = batch.targets["fill_mask"]
    assert target.at is not None
    tokens[target.at] = target.values
    return [text.tolist() for text in tokens.split(list(batch.layout.lengths))]


def epoch_of(batches: CorpusBatches, epoch: int) -> Iterator[Batch]:
    first = sum(batches.steps_in_epoch(e) for e in range(epoch))
    steps = range(first, first + batches.steps_in_epoch(epoch))
    return chain.from_iterable(batches.at(step) for step in steps)


def test_a_batch_does_not_depend_on_what_was_asked_before(make: Make) -> None:
    late = 2 * make().steps_in_epoch(0) + 3
    for step in (7, late):
        asked_first = make().at(step)
        batches = make()
        for other in (0, 1, late + 5, 3):
            batches.at(other)
        assert same(batches.at(step), asked_first)
        assert not same(batches.at(step + 1), asked_first)


def test_another_seed_gives_other_batches(make: Make) -> None:
    assert not same(make(replace(PLAN, seed=12)).at(7), make().at(7))


def test_every_passage_comes_once_an_epoch_in_another_order(make: Make) -> None:
    batches = make()
    seen = [[i for batch in epoch_of(batches, epoch) for i in batch.ids] for epoch in range(3)]
    for ids in seen:
        assert sorted(ids) == list(range(len(batches.passages)))
    assert seen[0] != seen[1] != seen[2]


def test_steps_belong_to_epochs_without_gap(make: Make) -> None:
    batches = make()
    steps = sum(batches.steps_in_epoch(epoch) for epoch in range(3))
    epochs = [make().epoch_of(step) for step in range(steps)]
    assert epochs == sorted(epochs)
    assert Counter(epochs) == {epoch: batches.steps_in_epoch(epoch) for epoch in range(3)}


def test_without_pairs_every_piece_comes_once_an_epoch(make: Make, shards: Shards) -> None:
    batches = make(replace(PLAN, pairs=False))
    seen: Counter[int] = Counter()
    for batch in epoch_of(batches, 0):
        assert "next_sentence" not in batch.targets
        assert not batch.segments.any()
        for first, *pieces, last in restored(batch):
            assert (first, last) == (2, 3)
            seen.update(pieces)
    expected: Counter[int] = Counter()
    for document in np.flatnonzero(~shards.is_held_out):
        sentences = shards.document_starts[document : document + 2]
        expected.update(shards.tokens(*shards.sentence_starts[sentences]).tolist())
    assert seen == expected


def test_pairs_read_as_bert_reads_them(make: Make, shards: Shards) -> None:
    batches = make()
    passages = batches.passages.singles().first
    num_pairs = 0
    for batch in epoch_of(batches, 0):
        labels = batch.targets["next_sentence"].values.tolist()
        segments = batch.segments.split(list(batch.layout.lengths))
        for text, label, part, index in zip(
            restored(batch), labels, segments, batch.ids, strict=True
        ):
            assert text[0] == 2
            assert text[-1] == 3
            assert text.count(3) == (1 if label == IGNORE else 2)
            assert part.tolist() == [0] * (text.index(3) + 1) + [1] * (
                len(text) - text.index(3) - 1
            )
            pieces = [piece for piece in text if piece > 4]
            is_whole = pieces == shards.tokens(*passages[index]).tolist()
            assert is_whole == (label in (IGNORE, IS_NEXT))
            num_pairs += label != IGNORE
    assert num_pairs > 0


def test_steps_stay_in_the_budget_and_texts_in_their_length(make: Make) -> None:
    for batch in epoch_of(make(), 0):
        assert sum(batch.layout.lengths) <= PLAN.tokens
        assert batch.layout.longest <= PLAN.longest


@pytest.mark.parametrize("accumulate", [2, 3, 1000])
def test_accumulation_splits_the_same_texts_with_the_same_masks(
    make: Make, accumulate: int
) -> None:
    whole = make().at(5)
    parts = make(replace(PLAN, accumulate=accumulate)).at(5)
    assert len(whole) == 1
    assert len(parts) == min(accumulate, whole[0].num_texts)

    def texts(batches: list[Batch]) -> list[tuple[int, list[int]]]:
        return sorted(
            (index, text.tolist())
            for batch in batches
            for index, text in zip(
                batch.ids, batch.tokens.split(list(batch.layout.lengths)), strict=True
            )
        )

    assert texts(parts) == texts(whole)
    for name in ("fill_mask", "next_sentence"):
        assert sum(p.targets[name].count for p in parts) == whole[0].targets[name].count


def test_masks_are_chosen_freshly_each_epoch(make: Make) -> None:
    batches = make(replace(PLAN, pairs=False))
    chosen: list[dict[int, list[int]]] = []
    for epoch in range(2):
        places: dict[int, list[int]] = {}
        for batch in epoch_of(batches, epoch):
            at = batch.targets["fill_mask"].at
            assert at is not None
            owner = np.searchsorted(batch.layout.starts.numpy(), at.numpy(), side="right") - 1
            for text, place in zip(owner, at.tolist(), strict=True):
                start = int(batch.layout.starts[text])
                places.setdefault(batch.ids[text], []).append(place - start)
        chosen.append(places)
    assert chosen[0].keys() == chosen[1].keys() == set(range(len(batches.passages)))
    changed = sum(chosen[0][passage] != chosen[1][passage] for passage in chosen[0])
    assert changed > 0.8 * len(batches.passages)


def test_masks_are_chosen_freshly_each_step(
    make_shards: Callable[..., Shards], specials: SpecialIds
) -> None:
    alike = make_shards([[[7] * 20]] * 31)  # so that only the draw can move the masks
    plan = BatchPlan(tokens=5 * 23, longest=23, pairs=False, seed=11)
    batches = CorpusBatches(alike, Masking(specials, 97), plan)
    places = [tuple(batches.at(step)[0].targets["fill_mask"].at.tolist()) for step in range(6)]  # type: ignore[union-attr]
    assert {len(found) for found in places} == {5 * 3}
    assert len(set(places)) == 6


def test_held_out_documents_are_never_trained_on(make: Make, shards: Shards) -> None:
    def documents(batches: CorpusBatches) -> set[int]:
        found: set[int] = set()
        for epoch in range(3):
            pairs = batches._plan_epoch(epoch).pairs
            for spans in (pairs.first, pairs.second[pairs.label != IGNORE]):
                sentences = np.searchsorted(shards.sentence_starts, spans[:, 0], side="right") - 1
                places = np.searchsorted(shards.document_starts, sentences, side="right") - 1
                found.update(places.tolist())
        return found

    held_out = set(np.flatnonzero(shards.is_held_out).tolist())
    assert documents(make(held_out=True)) == held_out
    assert documents(make()) == set(range(47)) - held_out


def test_two_separators_between_leave_less_room_for_the_texts(
    shards: Shards, specials: SpecialIds
) -> None:
    two = replace(specials, num_between=2)
    batches = CorpusBatches(shards, Masking(two, 97), PLAN)
    texts = [text for step in range(5) for batch in batches.at(step) for text in restored(batch)]
    assert max(map(len, texts)) == PLAN.longest
    pairs = [text for text in texts if text.count(3) == 3]
    assert pairs
    for text in pairs:
        between = text.index(3)
        assert text[between : between + 2] == [3, 3]
