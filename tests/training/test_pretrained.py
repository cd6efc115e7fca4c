"""Decay toward the values before training: they are its fixed point."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertworks.core.errors import UsageError
from bertworks.training.descent import Descent
from bertworks.training.lora import LoraPlan
from bertworks.training.plan import TrainingPlan
from bertworks.training.pretrained import Pretrained
from bertworks.training.regularize import Regularize

TOWARD = Regularize(decay_toward="pretrained")
PLAN = TrainingPlan(steps=9, lr=0.1, weight_decay=0.5, regularize=TOWARD)


def without_slope(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


@given(rate=st.floats(0.001, 1), decay=st.floats(0.001, 0.9), away=st.floats(-3, 3))
def test_a_matrix_goes_back_by_a_share_of_its_way(rate: float, decay: float, away: float) -> None:
    layer = nn.Linear(3, 2).double()
    values = layer.weight.detach().clone()
    pretrained = Pretrained(layer)
    with torch.no_grad():
        layer.weight.add_(away)
        layer.bias.add_(away)
    moved = layer.bias.detach().clone()
    without_slope(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
    pretrained.draw_back(optimizer, decay=decay)
    expected = values + (1 - rate * decay) * away
    assert torch.allclose(layer.weight, expected, atol=1e-12)
    assert torch.equal(layer.bias, moved)  # vectors do not decay


def test_without_a_slope_the_pretrained_values_stay_to_the_bit_and_fresh_ones_shrink(
    make_model: Callable[..., nn.Module], weights_of: Callable[..., dict[str, torch.Tensor]]
) -> None:
    model = make_model()
    fresh = frozenset({"heads.next_sentence.output.weight"})
    before = weights_of(model)
    descent = Descent(model, replace(PLAN, layers=replace(PLAN.layers, fresh=fresh)))
    for number in range(1, 4):
        without_slope(model)
        descent.step(0.1, number=number)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == fresh
    (name,) = fresh
    shrunk = dict(model.named_parameters())[name]
    assert torch.allclose(shrunk, before[name] * (1 - 0.05) ** 3)


def test_toward_zero_all_matrices_shrink(
    make_model: Callable[..., nn.Module], weights_of: Callable[..., dict[str, torch.Tensor]]
) -> None:
    model = make_model()
    before = weights_of(model)
    descent = Descent(model, replace(PLAN, regularize=Regularize()))
    without_slope(model)
    descent.step(0.1, number=1)
    for name, parameter in model.named_parameters():
        share = 0.95 if parameter.dim() >= 2 else 1.0
        assert torch.allclose(parameter, before[name] * share)


def test_what_is_frozen_or_came_later_has_a_value_too() -> None:
    layer, later = nn.Linear(3, 2), nn.Parameter(torch.ones(4, 4))
    pretrained = Pretrained(layer, fresh={"bias"})
    assert torch.equal(pretrained.value(layer.weight), layer.weight)
    assert torch.equal(pretrained.value(layer.bias), torch.zeros(2))
    assert torch.equal(pretrained.value(later), torch.zeros(4, 4))
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    before = layer.weight.detach().clone()
    pretrained.draw_back(optimizer, decay=0.5)  # nothing has a gradient
    assert torch.equal(layer.weight, before)


def test_what_is_not_asked_for_is_not_kept_and_nobody_takes_it_for_nothing() -> None:
    layer = nn.Linear(3, 2)
    pretrained = Pretrained(layer, only={"weight"})
    assert torch.equal(pretrained.value(layer.weight), layer.weight)
    with pytest.raises(KeyError, match="not kept"):
        pretrained.value(layer.bias)


@pytest.mark.parametrize(
    "asked",
    [
        Regularize(lora=LoraPlan(rank=2, alpha=4.0)),
        Regularize(lora=LoraPlan(rank=2, alpha=4.0, on="all"), mixout=0.3),
        Regularize(lora=LoraPlan(rank=2, alpha=4.0), decay_toward="pretrained"),
        Regularize(mixout=0.3, decay_toward="pretrained"),
    ],
)
def test_every_ingredient_finds_the_values_that_it_asks_for(
    asked: Regularize, make_model: Callable[..., nn.Module]
) -> None:
    model = make_model()
    descent = Descent(model, replace(PLAN, regularize=asked))
    descent.freeze(1)
    with descent.lent(1):
        without_slope(model)
    descent.step(0.1, number=1)


@pytest.mark.parametrize("optimizer", ["lamb", "muon"])
def test_other_optimizers_decay_in_their_own_way(optimizer: str) -> None:
    with pytest.raises(UsageError, match="goes with --optimizer adamw"):
        replace(PLAN, optimizer=optimizer)
