"""Mixout against its formula: on average a weight is itself, and gradients are those of it."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.device import Machine
from bertworks.tasks.task import TaskModel
from bertworks.training.mixout import Mixout, linear_weights, mix
from bertworks.training.pretrained import Pretrained

MakeModel = Callable[..., TaskModel]
ROWS, COLUMNS = 5, 3


def drawn(seed: int, *shape: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64)


@given(rate=st.floats(0, 0.95), seed=st.integers(0, 99))
def test_the_mean_over_all_draws_is_the_weight(rate: float, seed: int) -> None:
    weight, toward = drawn(seed, ROWS, COLUMNS), drawn(seed + 100, ROWS, COLUMNS)
    mean = torch.zeros_like(weight)
    for bits in range(2**COLUMNS):
        kept = torch.tensor([float(bits >> column & 1) for column in range(COLUMNS)]).double()
        chance = float(torch.where(kept > 0, 1 - rate, rate).prod())
        mean += chance * mix(weight, toward, kept, rate=rate)
    assert torch.allclose(mean, weight, atol=1e-9)


def test_at_rate_nothing_all_stays_and_at_one_all_is_put_back() -> None:
    weight, toward = drawn(1, ROWS, COLUMNS), drawn(2, ROWS, COLUMNS)
    kept = torch.ones(COLUMNS).double()
    assert torch.equal(mix(weight, toward, kept, rate=0.0), weight)
    assert torch.equal(mix(weight, toward, 0 * kept, rate=1.0), toward)
    gone = mix(weight, 0 * toward, torch.tensor([1.0, 0.0, 1.0]), rate=0.5)
    assert torch.equal(gone[:, 1], torch.zeros(ROWS).double())
    assert torch.equal(gone[:, 0], 2 * weight[:, 0])


def test_a_weight_that_has_not_moved_is_itself_whatever_is_drawn() -> None:
    weight = drawn(3, ROWS, COLUMNS)
    mixed = mix(weight, weight, torch.tensor([1.0, 0.0, 1.0]), rate=0.9)
    assert torch.allclose(mixed, weight)


@pytest.mark.parametrize("is_zero", [True, False])
def test_gradients_are_those_of_the_formula(
    is_zero: bool, make_model: MakeModel, make_batches, machine: Machine
) -> None:
    model = make_model().double()
    pretrained = None if is_zero else Pretrained(make_model(seed=1).double())
    if pretrained:  # the values of another network
        values = list(pretrained._values.values())
        own = dict(zip(model.parameters(), values, strict=True))
        pretrained._values = own
    mixout = Mixout(model, rate=0.4, seed=7, toward=pretrained)
    before = {name: weight.detach().clone() for name, weight in mixout.weights.items()}
    (part,) = make_batches().at(0)
    with mixout.lent(3):
        sum(model(part).values()).backward()
    kept = {name: mixout._kept(name, weight, 3) for name, weight in before.items()}
    found = {name: weight.grad.clone() for name, weight in mixout.weights.items()}
    assert all(torch.equal(weight, before[name]) for name, weight in mixout.weights.items())

    leaves = {name: weight.clone().requires_grad_() for name, weight in before.items()}
    mixed = {
        name: mix(
            leaf,
            pretrained.value(mixout.weights[name]) if pretrained else torch.zeros_like(leaf),
            kept[name],
            rate=0.4,
        )
        for name, leaf in leaves.items()
    }
    losses = torch.func.functional_call(model, mixed, (part,))
    gradients = torch.autograd.grad(sum(losses.values()), list(leaves.values()))
    for name, gradient in zip(leaves, gradients, strict=True):
        assert torch.allclose(found[name], gradient, atol=1e-12), name


def test_draws_follow_from_seed_step_and_name_alone(make_model: MakeModel) -> None:
    first, again = (Mixout(make_model(), rate=0.5, seed=7) for _ in range(2))
    name, weight = next(iter(first.weights.items()))
    assert torch.equal(first._kept(name, weight, 4), again._kept(name, weight, 4))
    assert not torch.equal(first._kept(name, weight, 4), first._kept(name, weight, 5))
    other = Mixout(make_model(), rate=0.5, seed=8)
    assert not torch.equal(first._kept(name, weight, 4), other._kept(name, weight, 4))


def test_fresh_weights_and_heads_are_left_alone_and_a_failure_gives_all_back(
    make_model: MakeModel, weights_of
) -> None:
    model = make_model()
    assert all(name.startswith("encoder.") for name in linear_weights(model))
    fresh = {"encoder.pooler.dense.weight"}
    mixout = Mixout(model, rate=0.5, seed=1, toward=Pretrained(model, fresh=fresh))
    assert linear_weights(model).keys() - mixout.weights.keys() == fresh
    before = weights_of(model)
    with pytest.raises(RuntimeError, match="the power went"), mixout.lent(1):
        raise RuntimeError("the power went")
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
