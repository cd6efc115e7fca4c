"""Losses on vectors, against the plain formula pair by pair."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.batch import Target
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe, VectorPooling
from bertworks.tasks.vector_losses import Pairs, contrast, pair_vectors, rank_cosines

TEMPERATURE = 0.2
golds = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)
scores = st.lists(st.sampled_from([0.0, 1.5, 1.5, 4.0, 5.0]), min_size=1, max_size=7)


def draw_pairs(gold: list[float], *, seed: int = 3, texts: int | None = None) -> Pairs:
    """Draw pairs of vectors of five numbers; fewer texts than pairs repeat."""
    random = torch.Generator().manual_seed(seed)
    keys = torch.arange(2 * len(gold)).view(-1, 2)
    if texts is not None:
        keys = torch.randint(texts, keys.shape, generator=random)
    vectors = torch.randn(max(2 * len(gold), texts or 0), 5, generator=random)[keys]
    vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return Pairs(vectors, torch.tensor(gold), keys.float())


def plain_contrast(pairs: Pairs, side: int) -> float:
    """Find each partner by loops."""
    found = []
    for i in range(len(pairs.gold)):
        if pairs.gold[i] == 0:
            continue
        total = own = 0.0
        for j in range(len(pairs.gold)):
            cosine = float(pairs.vectors[i, side] @ pairs.vectors[j, 1 - side])
            weight = math.exp(cosine / TEMPERATURE)
            mine, key = pairs.keys[i], pairs.keys[j, 1 - side]
            if i == j:
                own = weight
            if i == j or key not in mine:
                total += weight
        found.append(-math.log(own / total))
    return sum(found) / len(found) if found else 0.0


@given(golds, st.integers(0, 9), st.sampled_from([None, 4]))
def test_a_text_finds_its_partner_among_all_that_are_not_equal(
    gold: list[float], seed: int, texts: int | None
) -> None:
    pairs = draw_pairs(gold, seed=seed, texts=texts)
    forth, back = plain_contrast(pairs, 0), plain_contrast(pairs, 1)
    one_way = contrast(pairs, temperature=TEMPERATURE)
    both = contrast(pairs, temperature=TEMPERATURE, is_symmetric=True)
    assert float(one_way) == pytest.approx(forth, abs=1e-5)
    assert float(both) == pytest.approx((forth + back) / 2, abs=1e-5)


@given(scores, st.integers(0, 9))
def test_the_ranking_loss_is_its_formula_over_all_ordered_pairs(
    gold: list[float], seed: int
) -> None:
    pairs = draw_pairs(gold, seed=seed)
    cosines = [float(cosine) for cosine in pairs.cosines]
    total = 1.0
    for i, high in enumerate(gold):
        for j, low in enumerate(gold):
            if high > low:
                total += math.exp((cosines[j] - cosines[i]) / TEMPERATURE)
    loss = rank_cosines(pairs, temperature=TEMPERATURE)
    assert float(loss) == pytest.approx(math.log(total), abs=1e-5)


def test_equal_golds_have_no_order() -> None:
    assert float(rank_cosines(draw_pairs([2.0, 2.0, 2.0]), temperature=0.05)) == 0.0


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_windows_in_any_order_become_the_texts_of_their_pairs(pooling: VectorPooling) -> None:
    random = torch.Generator().manual_seed(7)
    rows = torch.randn(5, 4, generator=random)
    sides = torch.tensor([0.0, 0, 1, 0, 1])  # the first text of the first pair has two windows
    gold, keys = torch.tensor([3.0, 3, 3, 4, 4]), torch.tensor([8.0, 8, 9, 8, 7])
    weights, groups = torch.tensor([0.75, 0.25, 1, 1, 1]), torch.tensor([0, 0, 0, 1, 1])
    first = rows[:2].amax(0) if pooling == "max" else 0.75 * rows[0] + 0.25 * rows[1]
    expected = torch.stack([first, rows[2], rows[3], rows[4]])
    expected = torch.nn.functional.normalize(expected, dim=-1).view(2, 2, 4)
    for order in (torch.arange(5), torch.tensor([3, 1, 4, 0, 2])):
        values = torch.stack([sides, gold, keys, 0 * keys], dim=1)[order]
        target = Target(values, weights=weights[order], groups=groups[order])
        pairs = pair_vectors(rows[order], target, EmbeddingRecipe(pooling=pooling))
        torch.testing.assert_close(pairs.vectors, expected)
        assert pairs.gold.tolist() == [3.0, 4.0]
        assert pairs.keys.tolist() == [[8.0, 9.0], [8.0, 7.0]]


def test_gradients_reach_every_window() -> None:
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    values = torch.tensor([[0.0, 1, 1], [1, 1, 2], [0, 0, 3], [1, 0, 4]])
    target = Target(values, groups=torch.tensor([0, 0, 1, 1]))

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, rows, retain_graph=True)[0].abs().sum(1)

    pairs = pair_vectors(rows, target, EmbeddingRecipe())
    assert bool((gradient(rank_cosines(pairs, temperature=0.1)) > 0).all())
    # The pair that is not the same lends its second text only.
    reached = gradient(contrast(pairs, temperature=0.1)) > 0
    assert reached.tolist() == [True, True, False, True]


def test_windows_are_joined_before_they_pass_through_dense_layers() -> None:
    random = torch.Generator().manual_seed(4)
    rows, weight = torch.randn(3, 4, generator=random), torch.randn(2, 4, generator=random)
    layer = DenseLayer(weight, weight[:, 1], "tanh")
    values = torch.tensor([[0.0, 1, 1, 0], [0, 1, 1, 0], [1, 1, 2, 0]])
    target = Target(values, weights=torch.tensor([0.5, 0.5, 1]), groups=torch.tensor([0, 0, 0]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pairs = pair_vectors(rows, target, EmbeddingRecipe(layers=(layer,)))
    joined = torch.stack([rows[:2].mean(0), rows[2]])
    expected = torch.tanh(joined @ weight.T + weight[:, 1])
    expected = torch.nn.functional.normalize(expected, dim=-1)
    torch.testing.assert_close(pairs.vectors[0], expected)


def test_half_precision_around_it_does_not_blur_a_loss() -> None:
    pairs = draw_pairs([1.0, 0.0, 1.0, 1.0])

    def losses() -> list[float]:
        found = (contrast(pairs, temperature=0.01), rank_cosines(pairs, temperature=0.01))
        return [float(loss) for loss in found]

    plain = losses()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert losses() == pytest.approx(plain, rel=1e-6)
        blurred = pairs.vectors[:, 0] @ pairs.vectors[:, 1].T
    assert blurred.dtype == torch.bfloat16
