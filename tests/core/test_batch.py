"""A flat batch knows where its texts lie and how much there is to find."""

from dataclasses import replace
from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import LONGEST_TILE, SMALLEST_TILE, Batch, Layout, Target
from bertworks.core.pieces import IGNORE

CPU = torch.device("cpu")
ELSEWHERE = torch.device("meta")  # a device whose numbers cannot be read, as a busy GPU's


@given(st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=13))
def test_runs_are_the_texts_in_order_as_rectangles(lengths: list[int]) -> None:
    layout = Layout.of(tuple(lengths))
    assert [length for count, length in layout.runs for _ in range(count)] == lengths
    neighbours = zip(layout.runs, layout.runs[1:], strict=False)
    assert all(left[1] != right[1] for left, right in neighbours)
    assert layout.starts.tolist() == [0, *accumulate(lengths)]
    assert layout.first_tokens().tolist() == [0, *accumulate(lengths[:-1])]
    assert layout.longest == max(lengths)
    assert layout.starts.dtype == torch.int32


def test_equal_lengths_that_are_no_neighbours_stay_apart() -> None:
    assert Layout.of((5, 5, 3, 5)).runs == ((2, 5), (1, 3), (1, 5))


@given(st.lists(st.integers(1, LONGEST_TILE), min_size=1, max_size=13))
def test_each_text_lies_in_the_smallest_tile_that_holds_it(lengths: list[int]) -> None:
    tiles = Layout.of(tuple(lengths)).tiles
    sizes = [size for size, _ in tiles]
    assert sizes == sorted(set(sizes))
    assert {size & (size - 1) for size in sizes} == {0}
    placed = [(text, size) for size, texts in tiles for text in texts.tolist()]
    assert sorted(text for text, _ in placed) == list(range(len(lengths)))
    for text, size in placed:
        assert SMALLEST_TILE <= size <= LONGEST_TILE
        assert lengths[text] <= size
        assert size == SMALLEST_TILE or lengths[text] > size // 2
    assert {texts.dtype for _, texts in tiles} == {torch.int32}


@given(st.lists(st.integers(1, 150), min_size=1, max_size=13), st.sampled_from([1, 3, 16, 64]))
def test_strips_cover_every_token_once_and_those_of_long_texts_come_first(
    lengths: list[int], size: int
) -> None:
    layout = Layout.of(tuple(lengths))
    strips = layout.strips(size)
    assert strips.dtype == torch.int32
    assert strips.is_contiguous()
    covered = [
        (text, place)
        for text, first in strips.tolist()
        for place in range(first, min(first + size, lengths[text]))
    ]
    assert sorted(covered) == [
        (text, place) for text, n in enumerate(lengths) for place in range(n)
    ]
    assert all(first < lengths[text] for text, first in strips.tolist())
    texts = [lengths[text] for text, _ in strips.tolist()]
    assert texts == sorted(texts, reverse=True)


def test_tiles_and_strips_are_cut_once_for_all_layers_on_the_device_of_the_batch() -> None:
    layout = Layout.of((5, 40)).to(ELSEWHERE)
    assert layout.tiles is layout.tiles
    assert layout.strips(16) is layout.strips(16)
    assert layout.strips(16).shape == (4, 2)
    assert layout.strips(32).shape == (3, 2)
    assert {texts.device for _, texts in layout.tiles} == {layout.strips(16).device} == {ELSEWHERE}


def test_a_target_counts_what_there_is_to_find() -> None:
    values = torch.tensor([3, IGNORE, 0, 7, IGNORE])
    assert Target(values).count == 3
    weights = torch.tensor([0.5, 9.0, 0.25, 1.0, 9.0])
    assert Target(values, weights=weights).count == 1.75
    assert Target(torch.full((5,), IGNORE)).count == 0


def test_a_target_that_is_made_on_a_device_is_counted_there() -> None:
    # Which pieces a generator replaced is known on the device only.
    target = Target(torch.tensor([1, 0, 1], device="meta"))
    assert target.shares.device == target.found.device == target.values.device


def test_a_target_keeps_its_count_on_a_device_that_cannot_be_asked() -> None:
    target = Target(
        torch.tensor([3, IGNORE, 0]), torch.tensor([1, 2, 4]), torch.tensor([0.5, 1.0, 0.25])
    )
    moved = target.to(ELSEWHERE)
    assert moved.count == target.count == 0.75
    assert moved.values.device == ELSEWHERE
    assert moved.at is not None
    assert moved.at.device == ELSEWHERE
    assert target.values.device == CPU


def test_a_batch_moves_as_a_whole_and_leaves_the_original() -> None:
    batch = Batch(
        tokens=torch.arange(5),
        positions=torch.tensor([0, 1, 0, 1, 2]),
        segments=torch.zeros(5, dtype=torch.int64),
        layout=Layout.of((2, 3)),
        targets={"task": Target(torch.tensor([1, IGNORE]))},
        ids=(7, 11),
    )
    moved = batch.to(ELSEWHERE)
    tensors = (moved.tokens, moved.positions, moved.segments, moved.layout.starts)
    assert {tensor.device for tensor in tensors} == {ELSEWHERE}
    assert moved.targets["task"].values.device == ELSEWHERE
    assert (moved.num_texts, moved.ids, moved.layout.lengths) == (2, (7, 11), (2, 3))
    assert moved.layout.runs == batch.layout.runs
    assert batch.tokens.device == CPU


def test_replies_move_with_the_texts_that_they_answer() -> None:
    replies = Batch(
        tokens=torch.arange(3),
        positions=torch.tensor([0, 0, 1]),
        segments=torch.zeros(3, dtype=torch.int64),
        layout=Layout.of((1, 2)),
        targets={},
        ids=(7, 11),
        is_causal=True,
    )
    batch = replace(replies, is_causal=False, prefixes=(1, 0), replies=replies)
    moved = batch.to(ELSEWHERE)
    assert moved.replies is not None
    assert {moved.replies.tokens.device, moved.replies.layout.starts.device} == {ELSEWHERE}
    assert (moved.replies.is_causal, moved.replies.layout.lengths) == (True, (1, 2))
    assert (moved.is_causal, moved.prefixes) == (False, (1, 0))
    assert replies.tokens.device == CPU
    assert replies.to(ELSEWHERE).replies is None


def test_a_smoothed_batch_asks_for_the_same_and_as_much() -> None:
    target = Target(torch.tensor([0, 1, IGNORE]), weights=torch.tensor([0.5, 1.0, 1.0]))
    softer = target.smoothed(0.2)
    assert (softer.smoothing, softer.count, target.smoothing) == (0.2, target.count, 0.0)
    assert softer.values is target.values


def test_the_right_row_of_a_group_gives_to_its_group_alone() -> None:
    groups = torch.tensor([0, 0, 1, 1, 1, 2])
    values = torch.tensor([0, 1, 1, 0, 0, IGNORE])
    target = Target(values, groups=groups).smoothed(0.3)
    chances = target.softened(values.clamp(min=0)).tolist()
    assert chances == pytest.approx([0.15, 0.85, 0.8, 0.1, 0.1, 0.0])
    sharp = Target(values, groups=groups)
    assert sharp.softened(values) is values
