"""AdamW against the published formula, and its memory under names."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.optimizer import (
    Adam,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_rate,
)

RATES = (0.03, 0.05, 0.02, 0.01, 0.04)
BETAS, EPSILON = Adam().betas, Adam().epsilon
DECAY = 0.3


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)).double()


def fill_gradients(model: nn.Module, step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random, dtype=parameter.dtype)


def walk(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> dict[str, Tensor]:
    for step in steps:
        set_rate(optimizer, RATES[step])
        fill_gradients(model, step)
        optimizer.step()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def walk_by_formula(
    model: nn.Module, *, corrected: bool = True, decoupled: bool = True
) -> dict[str, Tensor]:
    """Take the same steps as Loshchilov and Hutter write them, one parameter at a time."""
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for step, rate in enumerate(RATES):
        fill_gradients(model, step)
        for name, parameter in model.named_parameters():
            decay = DECAY if parameter.dim() >= 2 else 0.0
            gradient = parameter.grad if decoupled else parameter.grad + decay * weights[name]
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * gradient
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * gradient**2
            mean = first[name] / (1 - BETAS[0] ** (step + 1) if corrected else 1)
            square = second[name] / (1 - BETAS[1] ** (step + 1) if corrected else 1)
            shrunk = weights[name] * (1 - rate * decay) if decoupled else weights[name]
            weights[name] = shrunk - rate * mean / (square.sqrt() + EPSILON)
    return weights


def furthest(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def test_the_steps_are_those_of_the_published_formula() -> None:
    model = small_network()
    expected = walk_by_formula(model)
    optimizer = make_optimizer(model, lr=1.0, weight_decay=DECAY)
    assert furthest(walk(model, optimizer, range(5)), expected) < 1e-14


@pytest.mark.parametrize("change", ["corrected", "decoupled"])
def test_another_formula_would_be_noticed(change: str) -> None:
    model = small_network()
    other = walk_by_formula(model, **{change: False})
    optimizer = make_optimizer(model, lr=1.0, weight_decay=DECAY)
    assert furthest(walk(model, optimizer, range(5)), other) > 1e-3


def test_matrices_decay_and_norms_and_biases_do_not(make_model: Callable[..., TaskModel]) -> None:
    model = make_model()
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    make_optimizer(model, lr=0.5, weight_decay=0.2).step()
    decayed = {name for name, p in model.named_parameters() if bool((p < 1).all())}
    kept = {name for name, p in model.named_parameters() if bool((p == 1).all())}
    assert decayed | kept == dict(model.named_parameters()).keys()
    assert all(name.endswith("weight") and "norm" not in name for name in decayed)
    assert all(name.endswith("bias") or "norm" in name for name in kept)
    assert "encoder.embeddings.norm.weight" in kept
    assert "encoder.blocks.0.mixer.qkv.weight" in decayed


@pytest.mark.parametrize("family", ["mpnet", "modernbert", "recurrent", "convolution"])
def test_in_every_family_what_decays_are_the_matrices(family: str, draw_model) -> None:
    model, _ = draw_model(family, make_task("fill_mask", tied=False))
    decaying, kept = make_optimizer(model, lr=0.5, weight_decay=0.2).param_groups
    assert (decaying["weight_decay"], kept["weight_decay"]) == (0.2, 0.0)
    vectors = {id(p) for name, p in model.named_parameters() if "norm" in name or "bias" in name}
    assert {id(p) for p in kept["params"]} == vectors
    assert len(decaying["params"]) + len(kept["params"]) == len(list(model.parameters()))


def test_every_parameter_has_a_place_in_the_optimizer(
    make_model: Callable[..., TaskModel],
) -> None:
    model = make_model()
    groups = make_optimizer(model, lr=0.1, weight_decay=0.1).param_groups
    held = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(held) == sorted(map(id, model.parameters()))


def test_the_memory_travels_under_names_and_the_walk_goes_on_unchanged() -> None:
    model = small_network()
    optimizer = make_optimizer(model, lr=1.0, weight_decay=DECAY)
    walk(model, optimizer, range(3))
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    memory = {name: t.clone() for name, t in optimizer_tensors(model, optimizer).items()}
    expected = walk(model, optimizer, range(3, 5))

    def resume(memory: dict[str, Tensor]) -> dict[str, Tensor]:
        other = small_network(seed=7)
        with torch.no_grad():
            for name, parameter in other.named_parameters():
                parameter.copy_(weights[name])
        fresh = make_optimizer(other, lr=1.0, weight_decay=DECAY)
        restore_optimizer(other, fresh, {name: t.clone() for name, t in memory.items()})
        return walk(other, fresh, range(3, 5))

    assert furthest(resume(memory), expected) == 0
    assert furthest(resume(dict(reversed(memory.items()))), expected) == 0
    assert furthest(resume({}), expected) > 1e-3


def test_the_memory_names_every_parameter_and_what_is_kept_of_it() -> None:
    model = small_network()
    optimizer = make_optimizer(model, lr=1.0, weight_decay=DECAY)
    assert optimizer_tensors(model, optimizer) == {}
    walk(model, optimizer, range(1))
    assert optimizer_tensors(model, optimizer).keys() == {
        f"{name}:{entry}"
        for name in dict(model.named_parameters())
        for entry in ("step", "exp_avg", "exp_avg_sq")
    }
