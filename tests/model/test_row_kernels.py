"""The kernels between matrix products alone: what is random in them, and what is approximate."""

import math
from importlib import import_module
from types import ModuleType

import pytest
import torch
from torch import Tensor

from bertworks.model.fused import ACTIVATIONS, draw_chance

RATE = 0.1


@pytest.fixture
def kernels(place) -> ModuleType:
    return import_module("bertworks.model.row_kernels")


def mask_of(
    place,
    kernels: ModuleType,
    shape: tuple[int, int],
    *,
    seed: int,
    programs: int = 4,
    block: int | None = None,
    rate: float = RATE,
) -> Tensor:
    """Read a dropout mask out of the kernel: 1 where a one among zeros was kept."""
    num_rows, size = shape
    ones = torch.ones(shape, device=place.device)
    total, normed, spread = (torch.empty_like(ones) for _ in range(3))
    kernels.add_norm_forward[(programs,)](
        ones, torch.zeros_like(ones), ones[0].clone(), None, total, normed, spread,
        num_rows, size, 1e-5, seed, int(rate * 2**32), 1.0,
        HAS_RESIDUAL=True, HAS_BIAS=False, DROPS=True, BLOCK=block or 1 << (size - 1).bit_length(),
    )  # fmt: skip
    return total.cpu()


def relation(mask: Tensor) -> Tensor:
    """Return the correlations of all pairs of rows, in units of what chance makes of them."""
    unit = mask - mask.mean(1, keepdim=True)
    unit = unit / unit.norm(dim=1, keepdim=True)
    pairs = torch.triu_indices(len(mask), len(mask), offset=1)
    return (unit @ unit.t())[*pairs] * math.sqrt(mask.shape[1])


def looks_random(mask: Tensor, rate: float = RATE) -> bool:
    """Tell whether the share is right, and no row, column or diagonal knows of another."""
    share = float((mask == 0).double().mean())
    is_share = abs(share - rate) < 4 * math.sqrt(rate * (1 - rate) / mask.numel())
    flipped = mask.flip(1)
    slants = [torch.stack([x[1:, 1:], x[:-1, :-1]]).flatten(1) for x in (mask, flipped)]
    related = [relation(x) for x in (mask, mask.t(), *slants)]
    is_even = all(abs(float(x.square().mean()) - 1) < 0.1 for x in related[:2])
    is_loose = all(float(x.abs().max()) < 8 for x in related)
    return is_share and is_even and is_loose


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
@pytest.mark.parametrize("rate", [RATE, 0.5])
def test_what_dropout_keeps_looks_random(place, kernels, seed: int, rate: float) -> None:
    mask = mask_of(place, kernels, (120, 200), seed=seed, rate=rate)
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert looks_random(mask, rate)


def test_that_check_notices_what_is_not_random() -> None:
    random = torch.Generator().manual_seed(1)
    mask = (torch.rand(120, 200, generator=random) >= RATE).float()
    assert looks_random(mask)
    assert not looks_random((torch.rand(120, 200, generator=random) >= 0.12).float())
    repeated = mask.clone()
    repeated[7] = repeated[93]
    assert not looks_random(repeated)
    assert not looks_random(repeated.t())
    line = torch.rand(319, generator=random) >= RATE
    assert not looks_random(torch.stack([line[row : row + 200] for row in range(120)]).float())


def test_masks_of_two_seeds_have_nothing_in_common(place, kernels) -> None:
    masks = [mask_of(place, kernels, (60, 200), seed=seed).flatten() for seed in (3, 4, 3 ^ 2**20)]
    assert float(relation(torch.stack(masks)).abs().max()) < 4


def test_a_mask_depends_on_seed_row_and_column_alone(place, kernels) -> None:
    whole = mask_of(place, kernels, (23, 37), seed=5)
    assert torch.equal(whole, mask_of(place, kernels, (23, 37), seed=5, programs=23))
    assert torch.equal(whole, mask_of(place, kernels, (23, 37), seed=5, programs=1, block=256))
    assert torch.equal(whole[:7, :11], mask_of(place, kernels, (7, 11), seed=5))


def test_a_chance_drops_its_share_and_makes_up_for_it() -> None:
    torch.manual_seed(1)
    for rate in (0.1, 0.5, 1e-12):
        seed, threshold, scale = draw_chance(rate)
        assert 0 <= seed < 2**31
        assert threshold == int(rate * 2**32) < 2**32
        assert scale * (1 - rate) == pytest.approx(1.0)


# Far below zero a sigmoid divides by infinity, which makes it the 0 that it should be.
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_and_their_slopes_are_right_everywhere(place, kernels, activation: str) -> None:
    x = torch.linspace(-30, 30, 2000, dtype=torch.float64).view(20, 100).requires_grad_()
    expected = ACTIVATIONS[activation](x)
    (slope,) = torch.autograd.grad(expected.sum(), x)
    single = x.detach().float().to(place.device)
    found, found_slope = torch.empty_like(single), torch.empty_like(single)
    shape = {"KIND": activation, "GATED": False, "HAS_BIAS": False, "ROWS": 8, "COLUMNS": 32}
    kernels.bend_forward[(3, 4)](single, None, found, 20, 100, **shape)
    ones = torch.ones_like(single)
    kernels.bend_backward[(2, 4)](ones, single, None, found_slope, None, 20, 100, STEPS=2, **shape)
    torch.testing.assert_close(found.cpu().double(), expected.detach(), atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(found_slope.cpu().double(), slope, atol=2e-6, rtol=1e-6)


# Lanes that saw nothing yet take -inf from -inf; the kernel then puts another number there.
@pytest.mark.filterwarnings("ignore:invalid value encountered in subtract:RuntimeWarning")
def test_a_loss_does_not_read_what_lies_between_the_rows(place, kernels) -> None:
    memory = place.draw(4, 50, seed=1).float()
    logits, values = memory.clone(), torch.tensor([0, 20, -100, 7], device=place.device)
    losses, log_sums = torch.empty(2, 4, device=place.device)
    kernels.cross_entropy_forward[(4,)](
        logits, values, losses, log_sums, 37, 50, -100, 0.0, BLOCK=64
    )
    assert torch.equal(logits, memory)
    torch.testing.assert_close(log_sums, memory[:, :37].logsumexp(-1))
    own = torch.stack([memory[0, 0], memory[1, 20], log_sums[2], memory[3, 7]])
    torch.testing.assert_close(losses, log_sums - own)
