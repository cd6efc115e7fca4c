"""What the vectors of pieces begin with, when their neighbors were counted."""

import pytest
import torch
from torch import Tensor

from bertworks.model.first_vectors import begin_counted

NUM_PIECES, SIZE = 31, 13


def draw(*shape: int, seed: int) -> Tensor:
    return 0.02 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def counts_of_groups(num_groups: int, *, seed: int = 0) -> Tensor:
    """Count pieces that stand mostly near those that are as far from a multiple of it."""
    groups = torch.arange(NUM_PIECES) % num_groups
    often = torch.where(groups.unsqueeze(0) == groups.unsqueeze(1), 40.0, 2.0)
    return torch.poisson(often, generator=torch.Generator().manual_seed(seed)).long()


def cosines(table: Tensor) -> Tensor:
    normed = torch.nn.functional.normalize(table, dim=1)
    return normed @ normed.T


def test_pieces_with_the_same_neighbors_begin_close() -> None:
    table = begin_counted(draw(NUM_PIECES, SIZE, seed=1), counts_of_groups(3), seed=0)
    groups = torch.arange(NUM_PIECES) % 3
    is_same = groups.unsqueeze(0) == groups.unsqueeze(1)
    found = cosines(table)
    found.fill_diagonal_(0)
    assert float(found[is_same].mean()) > 0.3 > 0.1 > float(found[~is_same].mean())
    drawn = cosines(draw(NUM_PIECES, SIZE, seed=1))
    drawn.fill_diagonal_(0)
    assert abs(float(drawn[is_same].mean())) < 0.1  # chance alone tells nothing of them


def test_vectors_are_as_long_as_drawn_ones_and_lie_around_zero() -> None:
    drawn = draw(NUM_PIECES, SIZE, seed=2)
    table = begin_counted(drawn, counts_of_groups(3), seed=0)
    assert torch.allclose(table.norm(dim=1), drawn.norm(dim=1).mean().expand(NUM_PIECES), rtol=1e-4)
    assert float(table.mean(0).norm()) < 0.3 * float(drawn.norm(dim=1).mean())


def test_pieces_that_never_came_begin_together_opposite_to_all_others() -> None:
    drawn, counts = draw(NUM_PIECES, SIZE, seed=3), counts_of_groups(3)
    counts[[0, 4]] = 0
    table = begin_counted(drawn, counts, seed=0)
    assert torch.allclose(table[0], table[4], atol=1e-6)
    others = torch.cat([table[1:4], table[5:]])
    near = torch.nn.functional.cosine_similarity(table[:1], others)
    assert float(near.mean()) < 0
    assert float(near.max()) < 0.9
    middle = others.mean(0)
    assert float(torch.nn.functional.cosine_similarity(table[0], middle, dim=0)) < -0.5


def test_where_nothing_was_counted_the_table_stays() -> None:
    drawn, counts = draw(NUM_PIECES, SIZE, seed=3), counts_of_groups(3)
    assert begin_counted(drawn, torch.zeros_like(counts), seed=0).equal(drawn)
    assert begin_counted(drawn, counts[:, :0], seed=0).equal(drawn)


def test_columns_beyond_the_directions_of_few_counts_keep_what_was_drawn() -> None:
    drawn = draw(NUM_PIECES, SIZE, seed=4)
    table = begin_counted(drawn, counts_of_groups(3)[:, :5], seed=0)
    assert table[:, 5:].equal(drawn[:, 5:])
    assert not torch.isclose(table[:, :5], drawn[:, :5]).any(1).all()


def test_the_same_seed_begins_with_the_same_bits_whatever_was_drawn_before() -> None:
    drawn, counts = draw(NUM_PIECES, SIZE, seed=5), counts_of_groups(3)
    first = begin_counted(drawn, counts, seed=7)
    torch.rand(17)
    state = torch.random.get_rng_state()
    assert begin_counted(drawn, counts, seed=7).equal(first)
    assert torch.random.get_rng_state().equal(state)  # nor is anything drawn from it


@pytest.mark.parametrize("scale", [1, 1000])
def test_a_longer_corpus_of_the_same_kind_begins_alike(scale: int) -> None:
    drawn, counts = draw(NUM_PIECES, SIZE, seed=6), counts_of_groups(3)
    found = begin_counted(drawn, counts * scale, seed=0)
    assert torch.allclose(cosines(found), cosines(begin_counted(drawn, counts, seed=0)), atol=1e-3)
