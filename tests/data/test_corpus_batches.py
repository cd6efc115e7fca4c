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
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.masking import Masking, MaskKind
from bertworks.data.passages import IS_NEXT, IS_RANDOM, IS_SWAPPED
from bertworks.data.shards import Shards

PLAN = BatchPlan(tokens=Ramp(307, 307), longest=31, seed=11)
ALONE = replace(PLAN, objectives=("fill_mask",))
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
    batches = make(ALONE)
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


def test_texts_may_have_a_separator_in_their_middle_of_which_nothing_is_asked(
    make: Make, shards: Shards
) -> None:
    batches = make(replace(ALONE, split_share=0.5))
    passages = batches.passages.singles().first
    counts: Counter[int] = Counter()
    for batch in epoch_of(batches, 0):
        assert batch.targets.keys() == {"fill_mask"}
        assert max(batch.layout.lengths) <= PLAN.longest
        for text, index in zip(restored(batch), batch.ids, strict=True):
            counts[text.count(3)] += 1
            assert [piece for piece in text if piece > 4] == shards.tokens(
                *passages[index]
            ).tolist()
    assert counts.keys() == {1, 2}
    assert not same(batches.at(3), make(ALONE).at(3))
    assert same(batches.at(3), make(replace(ALONE, split_share=0.5)).at(3))


def test_texts_may_stand_twice_with_other_pieces_hidden_in_each(make: Make) -> None:
    batches = make(replace(ALONE, repeat_share=1.0))
    num_twice, num_seen_once = 0, 0
    for batch in epoch_of(batches, 0):
        assert max(batch.layout.lengths) <= PLAN.longest
        shown = [text.tolist() for text in batch.tokens.split(list(batch.layout.lengths))]
        for text, hidden in zip(restored(batch), shown, strict=True):
            middle = text.index(3)
            if text[1:middle] == text[middle + 1 : -1]:
                num_twice += 1
                num_seen_once += hidden[1:middle] != hidden[middle + 1 : -1]
    assert num_twice > 20
    assert num_seen_once > num_twice / 2
    assert same(batches.at(3), make(replace(ALONE, repeat_share=1.0)).at(3))


def test_steps_stay_in_the_budget_and_texts_in_their_length(make: Make) -> None:
    for batch in epoch_of(make(), 0):
        assert sum(batch.layout.lengths) <= PLAN.tokens.start
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
    batches = make(ALONE)
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
    plan = replace(ALONE, tokens=Ramp(5 * 22, 5 * 22), longest=22)
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


# Objectives


def test_without_pairs_a_text_fills_the_room_that_a_second_separator_would_take(
    make_shards: Callable[..., Shards], specials: SpecialIds
) -> None:
    long = make_shards([[[7] * 200]] * 3)
    for plan, longest in ((ALONE, PLAN.longest), (PLAN, PLAN.longest - 1)):
        batch = CorpusBatches(long, Masking(specials, 97), plan).at(0)[0]
        assert batch.layout.longest == longest
    singles = CorpusBatches(long, Masking(specials, 97), ALONE).passages.singles().sizes()
    assert singles.max() == PLAN.longest - 2


def test_both_kinds_of_pairs_are_trained_side_by_side(make: Make) -> None:
    both = ("fill_mask", "next_sentence", "sentence_order")
    batches = make(replace(PLAN, objectives=both))
    found: Counter[tuple[int, int, int]] = Counter()
    for epoch in range(3):
        relations = batches._plan_epoch(epoch).pairs.label
        for batch in epoch_of(batches, epoch):
            labels = (batch.targets[name].values.tolist() for name in both[1:])
            for index, next_sentence, order in zip(batch.ids, *labels, strict=True):
                found[int(relations[index]), next_sentence, order] += 1
    assert set(found) == {
        (IS_NEXT, 0, 0),
        (IS_RANDOM, 1, IGNORE),
        (IS_SWAPPED, IGNORE, 1),
        (IGNORE, IGNORE, IGNORE),
    }
    del found[IGNORE, IGNORE, IGNORE]
    num_pairs = sum(found.values())
    for count in found.values():  # so that no answer to either is right more often than another
        assert abs(count / num_pairs - 1 / 3) < 4 * (2 / 9 / num_pairs) ** 0.5


def test_every_ordinary_token_is_asked_for_when_replacements_are_to_be_found(make: Make) -> None:
    batch = make(replace(ALONE, objectives=("fill_mask", "replaced_token"))).at(3)[0]
    target = batch.targets["replaced_token"]
    originals = [piece for text in restored(batch) for piece in text]
    assert target.at is not None
    assert target.at.tolist() == [place for place, piece in enumerate(originals) if piece > 4]
    assert not target.values.any()
    assert target.count == len(target.at)


# Causal steps


CAUSAL = replace(PLAN, causal_share=Ramp(0.3, 0.3), num_steps=500)


def test_a_causal_step_hides_nothing_and_asks_for_what_follows(make: Make) -> None:
    batches = make(replace(CAUSAL, causal_share=Ramp(1, 1)))
    batch, masked = batches.at(5)[0], make().at(5)[0]
    assert (batch.is_causal, masked.is_causal) == (True, False)
    assert batch.tokens.tolist() == [piece for text in restored(masked) for piece in text]
    assert list(batch.targets) == ["next_piece"]
    target = batch.targets["next_piece"]
    assert target.at is not None
    assert torch.equal(target.values, batch.tokens[target.at + 1])
    last = (batch.layout.starts[1:] - 1).tolist()
    assert set(range(len(batch.tokens))) - set(target.at.tolist()) == set(last)


def test_which_steps_are_causal_is_a_matter_of_the_seed_and_the_step() -> None:
    def chosen(plan: BatchPlan) -> list[bool]:
        return [plan.is_causal(step) for step in range(500)]

    assert chosen(CAUSAL) == chosen(replace(CAUSAL, accumulate=3))
    assert chosen(CAUSAL) != chosen(replace(CAUSAL, seed=12))
    assert abs(sum(chosen(CAUSAL)) / 500 - 0.3) < 4 * (0.21 / 500) ** 0.5
    assert not any(chosen(PLAN))
    rising = chosen(replace(CAUSAL, causal_share=Ramp(0, 1)))
    assert sum(rising[:250]) < sum(rising[250:]) / 2


# Parts


@pytest.mark.parametrize("causal_share", [0, 1])
def test_a_part_can_be_made_alone(make: Make, causal_share: float) -> None:
    share = Ramp(causal_share, causal_share)
    batches = make(replace(PLAN, accumulate=3, causal_share=share))
    whole = batches.at(4)
    assert len(whole) == 3
    for parts in ([0], [2], [1, 2], range(0, 3, 2), []):
        assert same(batches.at(4, parts), [whole[part] for part in parts])


# Ramps


def test_steps_grow_with_their_budget(make: Make) -> None:
    batches = make(replace(PLAN, tokens=Ramp(100, 600), num_steps=60))
    sizes = [sum(batches.at(step)[0].layout.lengths) for step in range(60)]
    for step, size in enumerate(sizes):
        assert size <= 100 + 500 * (step + 1) / 60
    assert np.mean(sizes[-20:]) > 2.5 * np.mean(sizes[:10])
    late = make(replace(PLAN, tokens=Ramp(100, 600), num_steps=60))
    assert same(late.at(47), batches.at(47))


def test_every_passage_comes_once_an_epoch_while_steps_grow(make: Make) -> None:
    batches = make(replace(PLAN, tokens=Ramp(100, 600), num_steps=60))
    for epoch in (1, 0):  # the second first: its steps depend on those before
        ids = [index for batch in epoch_of(batches, epoch) for index in batch.ids]
        assert sorted(ids) == list(range(len(batches.passages)))


def test_the_share_that_is_hidden_moves_over_the_run(make: Make) -> None:
    batches = make(replace(ALONE, mask_rate=Ramp(0.5, 0.1), num_steps=40))

    def share(step: int) -> float:
        batch = batches.at(step)[0]
        ordinary = sum(piece > 4 for text in restored(batch) for piece in text)
        return batch.targets["fill_mask"].count / ordinary

    for step, expected in ((0, 0.49), (19, 0.3), (39, 0.1)):
        assert share(step) == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("num_between", [1, 2])
@pytest.mark.parametrize("plan", [PLAN, ALONE])
@pytest.mark.parametrize("kind", ["word", "span", "ngram"])
def test_words_are_hidden_whole_as_the_shards_tell_them(
    shards: Shards, specials: SpecialIds, kind: MaskKind, plan: BatchPlan, num_between: int
) -> None:
    masking = Masking(replace(specials, num_between=num_between), 97, kind=kind)
    num_long = 0
    for batch in epoch_of(CorpusBatches(shards, masking, plan), 0):
        hidden = set(batch.targets["fill_mask"].at.tolist())  # type: ignore[union-attr]
        whole = list(chain.from_iterable(restored(batch)))
        for place, piece in enumerate(whole):
            continues = piece % 3 == 0 and piece >= 5 and whole[place - 1] >= 5
            if continues:  # a word, as the pieces of these shards are numbered
                assert (place in hidden) == (place - 1 in hidden)
                num_long += place in hidden
    assert num_long > 50
