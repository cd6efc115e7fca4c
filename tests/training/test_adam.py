"""Adam's move with and without bias correction, against the formula."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.training.adam import BertAdam, adam_moves, memory_of
from bertworks.training.optimizer import Adam, make_optimizer, set_rate

BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-6, 0.3


@given(
    gradients=st.lists(st.floats(-5, 5).filter(lambda g: abs(g) > 1e-3), min_size=1, max_size=9),
    start=st.floats(-2, 2),
)
def test_the_steps_are_those_of_the_original_bert(gradients: list[float], start: float) -> None:
    weight = torch.nn.Parameter(torch.full((1, 1), start, dtype=torch.float64))
    optimizer = BertAdam([weight], lr=0.1, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    expected, first, second = start, 0.0, 0.0
    for gradient in gradients:
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        expected -= 0.1 * (first / (math.sqrt(second) + EPSILON) + DECAY * expected)
    assert weight.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("corrects", "length"), [(True, 1.0), (False, math.sqrt(10))])
def test_without_correction_the_first_step_is_three_times_as_long(
    corrects: bool, length: float
) -> None:
    layer = torch.nn.Linear(3, 5).double()
    optimizer = make_optimizer(layer, lr=1.0, weight_decay=0.0, adam=Adam(corrects=corrects))
    set_rate(optimizer, 0.01)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.full_like(layer.weight, -0.7)
    optimizer.step()
    moved = (layer.weight - before).abs().detach()
    assert moved.numpy() == pytest.approx(torch.full((5, 3), 0.01 * length).numpy(), rel=1e-3)


def test_what_has_no_gradient_does_not_move() -> None:
    moved, kept = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    optimizer = BertAdam([moved, kept], lr=0.1, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    moved.grad = torch.ones(2, 3)
    optimizer.step()
    assert torch.equal(kept, torch.ones(2, 3))
    assert not torch.equal(moved, torch.ones(2, 3))
    assert kept not in optimizer.state


def test_the_move_is_corrected_by_default() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.tensor([2.0, -3.0, 0.5])
    optimizer = BertAdam([weight], lr=0.1, betas=BETAS, eps=EPSILON)
    group = {"betas": BETAS, "eps": EPSILON}
    (move,) = adam_moves([weight], [memory_of(optimizer, weight)], group)
    assert move.tolist() == pytest.approx([1.0, -1.0, 1.0], abs=1e-4)
