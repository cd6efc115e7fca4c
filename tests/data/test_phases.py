"""Length phases: short texts first, long ones from their step on, and nothing else changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bertworks.core.pieces import SpecialIds
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.masking import Masking
from bertworks.data.phases import PhasedBatches
from bertworks.data.shards import Shards

LONG = BatchPlan(tokens=Ramp(401, 401), longest=61, seed=7, num_steps=30, first_step=21)
SHORT = replace(LONG, longest=17, first_step=0)


@pytest.fixture
def phases(
    make_shards: Callable[..., Shards],
    make_documents: Callable[..., list[list[list[int]]]],
    specials: SpecialIds,
) -> tuple[CorpusBatches, CorpusBatches]:
    """Make the batches of short and of long texts."""
    shards = make_shards(make_documents(41, seed=9))
    short, long = (CorpusBatches(shards, Masking(specials, 97), plan) for plan in (SHORT, LONG))
    return short, long


def test_texts_are_short_until_the_long_ones_begin(
    phases: tuple[CorpusBatches, CorpusBatches],
) -> None:
    batches = PhasedBatches(phases)
    longest = [batches.at(step)[0].layout.longest for step in range(30)]
    assert max(longest[:21]) == 17
    assert min(longest[21:]) > 17
    assert max(longest[21:]) == 61


def test_the_second_phase_begins_a_pass_of_its_own(
    phases: tuple[CorpusBatches, CorpusBatches],
) -> None:
    long = phases[1]
    assert long.epoch_of(21) == 0
    steps = range(21, 21 + long.steps_in_epoch(0))
    seen = [index for step in steps for batch in long.at(step) for index in batch.ids]
    assert sorted(seen) == list(range(len(long.passages)))


def test_a_step_does_not_depend_on_what_was_asked_before(
    phases: tuple[CorpusBatches, CorpusBatches],
) -> None:
    batches = PhasedBatches(phases)
    first = batches.at(25)[0]
    for step in (2, 29, 20, 21):
        batches.at(step)
    assert torch.equal(batches.at(25)[0].tokens, first.tokens)
    assert torch.equal(batches.at(25, [0])[0].tokens, first.tokens)
    assert not torch.equal(batches.at(24)[0].tokens, first.tokens)


def test_one_phase_is_the_whole_run(phases: tuple[CorpusBatches, CorpusBatches]) -> None:
    alone = PhasedBatches(phases[:1])
    assert torch.equal(alone.at(25)[0].tokens, phases[0].at(25)[0].tokens)
