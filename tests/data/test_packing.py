"""Texts lie end to end in a batch, and none is left out of the groups."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.pieces import IGNORE, SpecialIds
from bertworks.data.packing import (
    Features,
    Goal,
    flatten,
    flatten_parts,
    group_by_budget,
    join_pieces,
)


def text(tokens: list[int], **changes: object) -> Features:
    return Features(np.array(tokens), np.array([n % 2 for n in range(len(tokens))]), **changes)  # type: ignore[arg-type]


@given(st.lists(st.lists(st.integers(0, 96), min_size=1, max_size=9), min_size=1, max_size=7))
def test_every_text_can_be_cut_out_of_the_batch_again(texts: list[list[int]]) -> None:
    batch = flatten([text(tokens, example=n) for n, tokens in enumerate(texts)])
    cut = batch.tokens.split(list(batch.layout.lengths))
    assert [part.tolist() for part in cut] == texts
    places = batch.positions.split(list(batch.layout.lengths))
    assert [part.tolist() for part in places] == [list(range(len(tokens))) for tokens in texts]
    segments = batch.segments.split(list(batch.layout.lengths))
    assert [part.tolist() for part in segments] == [
        [n % 2 for n in range(len(tokens))] for tokens in texts
    ]
    assert batch.ids == tuple(range(len(texts)))
    assert batch.num_texts == len(texts)
    tensors = (batch.tokens, batch.positions, batch.segments)
    assert all(tensor.dtype == torch.int64 for tensor in tensors)


def test_goals_point_at_the_same_tokens_in_the_batch() -> None:
    texts = [
        text([11, 12, 13], goals={"word": Goal((12,), (1,)), "text": Goal((0,))}),
        text([21, 22], goals={"word": Goal((), ()), "text": Goal((IGNORE,))}),
        text(
            [31, 32, 33, 34],
            goals={"word": Goal(np.array([31, 34]), np.array([0, 3]))} | {"text": Goal((1,))},
        ),
    ]
    batch = flatten(texts)
    word = batch.targets["word"]
    assert word.at is not None
    assert batch.tokens[word.at].tolist() == word.values.tolist() == [12, 31, 34]
    assert word.count == 3
    assert batch.targets["text"].values.tolist() == [0, IGNORE, 1]
    assert batch.targets["text"].at is None
    assert batch.targets["text"].weights is None
    assert batch.targets["text"].count == 2


def test_weights_follow_their_values() -> None:
    texts = [
        text([11, 12], goals={"text": Goal((0,), weight=0.25)}),
        text([21], goals={"text": Goal((1,))}),
        text([31], goals={"text": Goal((IGNORE,), weight=0.5)}),
    ]
    target = flatten(texts).targets["text"]
    assert target.weights is not None
    assert target.weights.tolist() == [0.25, 1.0, 0.5]
    assert target.count == 1.25


def test_making_a_batch_leaves_the_texts_alone() -> None:
    tokens = np.array([5, 6, 7], dtype=np.uint16)
    batch = flatten([Features(tokens, np.zeros(3, np.int64))])
    batch.tokens[0] = 1
    assert tokens.tolist() == [5, 6, 7]


def test_a_single_text_and_a_pair_get_their_special_pieces(specials: SpecialIds) -> None:
    first, second = np.array([11, 12, 13], np.uint16), np.array([21, 22], np.uint16)
    tokens, segments = join_pieces(first, None, specials)
    assert tokens.tolist() == [2, 11, 12, 13, 3]
    assert segments.tolist() == [0] * 5
    tokens, segments = join_pieces(first, second, specials)
    assert tokens.tolist() == [2, 11, 12, 13, 3, 21, 22, 3]
    assert segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    tokens, segments = join_pieces(first[:0], second[:0], specials)
    assert (tokens.tolist(), segments.tolist()) == ([2, 3, 3], [0, 0, 1])


def test_some_families_have_two_separators_between(specials: SpecialIds) -> None:
    two = replace(specials, num_between=2)
    first, second = np.array([11, 12, 13]), np.array([21, 22])
    assert join_pieces(first, None, two)[0].tolist() == [2, 11, 12, 13, 3]
    tokens, segments = join_pieces(first, second, two)
    assert tokens.tolist() == [2, 11, 12, 13, 3, 3, 21, 22, 3]
    assert segments.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_some_tokenizers_do_not_number_the_second_text(specials: SpecialIds) -> None:
    same = replace(specials, second_segment=0)
    tokens, segments = join_pieces(np.array([11, 12, 13]), np.array([21, 22]), same)
    assert tokens.tolist() == [2, 11, 12, 13, 3, 21, 22, 3]
    assert segments.tolist() == [0] * 8


@given(st.integers(0, 7), st.integers(0, 7), st.integers(1, 3))
def test_a_text_grows_by_as_many_pieces_as_are_said_to_be_added(
    num_first: int, num_second: int, num_between: int
) -> None:
    specials = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4, num_between=num_between)
    first, second = np.arange(5, 5 + num_first), np.arange(50, 50 + num_second)
    assert len(join_pieces(first, None, specials)[0]) == num_first + specials.num_added(pair=False)
    tokens, segments = join_pieces(first, second, specials)
    assert len(tokens) == len(segments) == num_first + num_second + specials.num_added(pair=True)


@given(st.lists(st.integers(1, 13), max_size=40), st.integers(1, 29))
def test_groups_keep_the_order_lose_nothing_and_stay_in_the_budget(
    lengths: list[int], budget: int
) -> None:
    groups = group_by_budget(np.array(lengths, dtype=np.int64), budget=lambda _: budget)
    assert [length for group in groups for length in lengths[group]] == lengths
    assert all(sum(lengths[group]) <= budget or group.stop - group.start == 1 for group in groups)
    for group in groups[:-1]:
        assert sum(lengths[group]) + lengths[group.stop] > budget


def test_a_text_over_the_budget_has_a_group_of_its_own() -> None:
    groups = group_by_budget(np.array([3, 3, 11, 3, 3]), budget=lambda _: 7)
    assert groups == [slice(0, 2), slice(2, 3), slice(3, 5)]


def grouped(tokens: list[int], group: int, *, example: int = 0) -> Features:
    """Make a text with two rows that are weighed against others of its group."""
    return text(tokens, goals={"pick": Goal((0, 1), (0, 0), group=group)}, example=example)


def test_rows_are_grouped_within_an_example_only() -> None:
    texts = [grouped([1], 0, example=4), grouped([2], 1, example=4), grouped([3], 0, example=4)]
    target = flatten([*texts, grouped([4], 0, example=5)]).targets["pick"]
    assert target.groups.tolist() == [0, 0, 1, 1, 0, 0, 2, 2]
    assert target.count == 3


def test_examples_that_name_the_same_line_are_not_grouped_together() -> None:
    first = [grouped([1, 1, 1], 0), grouped([2], 0)]
    (batch,) = flatten_parts([first, [grouped([3, 3], 0)]], count=1)
    assert batch.tokens.tolist() == [2, 3, 3, 1, 1, 1]  # short texts first
    assert batch.targets["pick"].groups.tolist() == [0, 0, 1, 1, 0, 0]


def test_replies_lie_end_to_end_beside_their_texts_as_causal_ones() -> None:
    texts = [
        text([1, 2, 3], reply=np.array([7, 8]), example=4, goals={"say": Goal((8, 9))}),
        text([4], reply=np.array([7]), example=5, goals={"say": Goal((IGNORE,))}),
    ]
    batch = flatten(texts)
    replies = batch.replies
    assert replies is not None
    assert (replies.tokens.tolist(), replies.positions.tolist()) == ([7, 8, 7], [0, 1, 0])
    assert replies.segments.tolist() == [0, 0, 0]
    assert (replies.layout.lengths, replies.ids, replies.is_causal) == ((2, 1), (4, 5), True)
    assert (batch.is_causal, batch.prefixes, replies.targets) == (False, None, {})
    target = batch.targets["say"]
    assert (target.values.tolist(), target.count, target.at) == ([8, 9, IGNORE], 2, None)
    (sorted_batch,) = flatten_parts([[one] for one in texts], count=1)  # short texts first
    assert sorted_batch.replies is not None
    assert sorted_batch.replies.tokens.tolist() == [7, 7, 8]
    assert sorted_batch.targets["say"].values.tolist() == [IGNORE, 8, 9]


def test_texts_with_a_prefix_are_causal_and_others_are_not() -> None:
    batch = flatten([text([1, 2, 3], prefix=2), text([4], prefix=0)])
    assert (batch.is_causal, batch.prefixes, batch.replies) == (True, (2, 0), None)
    plain = flatten([text([1, 2, 3]), text([4])])
    assert (plain.is_causal, plain.prefixes) == (False, None)
    (turned,) = flatten_parts([[text([1, 2, 3], prefix=2)], [text([4], prefix=0)]], count=1)
    assert turned.prefixes == (0, 2)


@pytest.mark.parametrize("part", [{"reply": np.array([7])}, {"prefix": 1}])
def test_either_all_texts_of_a_batch_have_a_part_or_none(part: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        flatten([text([1, 2], **part), text([3])])
