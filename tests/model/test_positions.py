"""Places in attention: turns by which only distances count, and buckets of distances."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.model.positions import DistanceScores, Turn, bucket_of, rotate

seeds = st.integers(0, 2**31)
HEADS, HEAD_SIZE, LENGTH = 3, 6, 11


def draw(seed: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(LENGTH, HEADS, HEAD_SIZE, generator=random).to(dtype)


def turn_at(places: Tensor, *, base: float) -> Tensor:
    turn = Turn.of(places, int(places.max()) + 1, head_size=HEAD_SIZE, base=base)
    return turn.by_token


def turned_scores(q: Tensor, k: Tensor, places: Tensor) -> Tensor:
    turn = turn_at(places, base=10_000.0)
    return torch.einsum("qhk,phk->hqp", rotate(q, turn), rotate(k, turn))


@given(seeds, st.integers(0, 8000))
def test_only_distances_count_between_turned_vectors(seed: int, shift: int) -> None:
    q, k, places = draw(seed), draw(seed + 1), torch.arange(LENGTH)
    torch.testing.assert_close(
        turned_scores(q, k, places), turned_scores(q, k, places + shift), atol=2e-2, rtol=0
    )


def test_that_check_notices_other_distances() -> None:
    q, k, places = draw(1), draw(2), torch.arange(LENGTH)
    stretched = turned_scores(q, k, 2 * places)
    assert (stretched - turned_scores(q, k, places)).abs().max() > 1


@given(seeds)
def test_a_turn_keeps_the_length_of_every_vector(seed: int) -> None:
    vectors = draw(seed)
    turned = rotate(vectors, turn_at(torch.arange(LENGTH), base=100.0))
    torch.testing.assert_close(turned.norm(dim=-1), vectors.norm(dim=-1))


def test_the_first_place_is_not_turned() -> None:
    vectors = draw(3)
    turn = turn_at(torch.zeros(LENGTH, dtype=torch.long), base=10_000.0)
    assert turn.shape == (2, LENGTH, 1, HEAD_SIZE // 2)
    assert torch.equal(rotate(vectors, turn), vectors)


def test_a_turn_is_the_published_formula() -> None:
    vectors, base = draw(4), 160_000.0
    turned = rotate(vectors, turn_at(torch.arange(LENGTH), base=base))
    for place in range(LENGTH):
        for pair in range(HEAD_SIZE // 2):
            angle = place / base ** (2 * pair / HEAD_SIZE)
            x, y = vectors[place, :, pair], vectors[place, :, pair + HEAD_SIZE // 2]
            expected = x * math.cos(angle) - y * math.sin(angle)
            torch.testing.assert_close(turned[place, :, pair], expected)
            expected = y * math.cos(angle) + x * math.sin(angle)
            torch.testing.assert_close(turned[place, :, pair + HEAD_SIZE // 2], expected)


def test_a_turn_keeps_one_table_for_all_texts_and_looks_places_up_once() -> None:
    places = torch.tensor([0, 1, 2, 0, 0, 1, 2, 3, 4])
    turn = Turn.of(places, 5, head_size=HEAD_SIZE, base=100.0)
    assert turn.table.shape == (2, 5, HEAD_SIZE // 2)
    assert turn.by_token.shape == (2, 9, 1, HEAD_SIZE // 2)
    assert torch.equal(turn.by_token.squeeze(-2), turn.table[:, places])
    assert turn.by_token is turn.by_token


def test_half_precision_is_turned_in_single_and_stays_half() -> None:
    vectors = draw(5, dtype=torch.bfloat16)
    turn = turn_at(torch.arange(LENGTH) + 8000, base=10_000.0)
    turned = rotate(vectors, turn)
    assert turned.dtype == torch.bfloat16
    assert torch.equal(turned, rotate(vectors.float(), turn).bfloat16())


@given(st.integers(4, 511))
def test_buckets_lie_in_the_table_and_grow_with_the_distance(num_buckets: int) -> None:
    away = torch.arange(1000)
    behind, ahead = (bucket_of(x, num_buckets=num_buckets) for x in (-away, away))
    half = num_buckets // 2
    assert int(behind.min()) == 0
    assert int(ahead.max()) == 2 * half - 1 < num_buckets
    assert bool((behind.diff() >= 0).all())
    assert bool((ahead.diff()[1:] >= 0).all())
    assert torch.equal(ahead[1:], behind[1:] + half)


def test_near_distances_have_buckets_of_their_own_and_far_ones_share_the_last() -> None:
    near = bucket_of(-torch.arange(8), num_buckets=32)
    assert near.tolist() == list(range(8))
    assert bucket_of(-torch.tensor([128, 129, 8000]), num_buckets=32).tolist() == [15, 15, 15]
    assert bucket_of(torch.tensor([128, 8000]), num_buckets=32).tolist() == [31, 31]


@pytest.mark.parametrize("longest", [1, 2, 40])
def test_every_pair_of_places_gets_the_score_of_its_distance(longest: int) -> None:
    distances = DistanceScores(8, HEADS)
    torch.nn.init.normal_(distances.weight, generator=torch.Generator().manual_seed(6))
    scores = distances(longest)
    assert scores.shape == (HEADS, longest, longest)
    for query in range(longest):
        for key in range(longest):
            bucket = bucket_of(torch.tensor(key - query), num_buckets=8)
            assert torch.equal(scores[:, query, key], distances.weight[bucket])


def test_the_scores_learn() -> None:
    distances = DistanceScores(8, HEADS)
    distances(200).sum().backward()
    assert distances.weight.grad is not None
    untouched = [i for i, row in enumerate(distances.weight.grad) if not row.any()]
    assert untouched == [4]  # nothing lies ahead at no distance
