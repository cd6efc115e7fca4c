"""A descent: with every optimizer it goes on after a stop as if there had been none."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertworks.tasks.task import TaskModel
from bertworks.training.descent import Descent
from bertworks.training.layers import Layers
from bertworks.training.lora import LoraPlan
from bertworks.training.plan import TrainingPlan
from bertworks.training.regularize import Regularize
from bertworks.training.run import Counters, Run

PLAN = TrainingPlan(steps=9, lr=0.02, weight_decay=0.1)
KINDS = {
    "adamw": {},
    "lamb": {"optimizer": "lamb"},
    "muon": {"optimizer": "muon"},
    "averaged": {"average": 0.7},
    "muon, averaged": {"optimizer": "muon", "average": 0.9},
}
MakeModel = Callable[..., TaskModel]
MakeRun = Callable[..., Run]


def walk(descent: Descent, steps: range) -> dict[str, Tensor]:
    """Step along drawn gradients; some parameters have none in the first steps."""
    for step in steps:
        random = torch.Generator().manual_seed(step)
        for name, parameter in descent.model.named_parameters():
            gradient = torch.randn(parameter.shape, generator=random)
            parameter.grad = None if "next_sentence" in name and step < 2 else gradient
        descent.step(0.01 * (step + 1), number=step + 1)
        descent.forget_gradients()
    state = descent.state()
    return {
        f"{file}/{name}": tensor.detach().clone()
        for file, tensors in state.items()
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 4])
def test_a_descent_goes_on_from_a_checkpoint_in_the_same_bits(
    kind: str, stop: int, make_model: MakeModel, make_run: MakeRun, same_bits
) -> None:
    plan = replace(PLAN, **KINDS[kind])
    whole = walk(Descent(make_model(), plan), range(7))
    first, run = Descent(make_model(), plan), make_run()
    walk(first, range(stop))
    run.write(first.state(), Counters(step=stop))
    again = Descent(make_model(seed=5), plan)
    assert again.restore(make_run(resume=True)).step == stop
    assert same_bits(walk(again, range(stop, 7)), whole)
    forgetful = Descent(make_model(), plan)
    forgetful.model.load_state_dict(first.model.state_dict())
    assert not same_bits(walk(forgetful, range(stop, 7)), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_going_back_takes_the_memory_back_too(
    kind: str, make_model: MakeModel, make_run: MakeRun, same_bits
) -> None:
    plan = replace(PLAN, **KINDS[kind])
    descent, run = Descent(make_model(), plan), make_run()
    walk(descent, range(2))
    run.write(descent.state(), Counters(step=2))
    expected = walk(descent, range(2, 5))
    run.write(descent.state(), Counters(step=5))
    assert descent.go_back(run, before=3).step == 2
    assert same_bits(walk(descent, range(2, 5)), expected)


HEEDING = ("adamw", "muon")


def walk_first(descent: Descent, bad: set[int], *, steps: int) -> list[bool]:
    """Step along drawn gradients, those of bad steps no numbers, before anybody knows of it."""
    told = []
    for step in range(1, steps + 1):
        random = torch.Generator().manual_seed(step)
        for parameter in descent.model.parameters():
            gradient = torch.randn(parameter.shape, generator=random)
            parameter.grad = gradient * torch.nan if step in bad else gradient
        told.append(descent.step_unless(torch.tensor(step in bad), 0.01 * step, number=step))
    return told


def state_of(descent: Descent) -> dict[str, Tensor]:
    return {
        f"{file}/{name}": tensor.detach().clone()
        for file, tensors in descent.state().items()
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("kind", HEEDING)
def test_a_step_that_is_told_so_later_changes_nothing(
    kind: str, make_model: MakeModel, same_bits
) -> None:
    descent = Descent(make_model(), replace(PLAN, **KINDS[kind]), moves_first=True)
    assert all(walk_first(descent, set(), steps=2))
    before = state_of(descent)
    assert all(walk_first(descent, {1, 2}, steps=2))
    assert same_bits(state_of(descent), before)
    walk_first(descent, {1}, steps=2)
    assert not same_bits(state_of(descent), before)


@pytest.mark.parametrize("kind", HEEDING)
def test_who_moves_first_takes_the_steps_of_who_asks_first(
    kind: str, make_model: MakeModel, same_bits
) -> None:
    plan = replace(PLAN, **KINDS[kind])
    first, asking = (Descent(make_model(), plan, moves_first=m) for m in (True, False))
    for step in range(1, 6):
        for one in (first, asking):
            random = torch.Generator().manual_seed(step)
            for parameter in one.model.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=random)
        assert first.step_unless(torch.tensor(step == 1), 0.01, number=step)
        if step != 1:  # what is remembered of nothing is zeros
            asking.step(0.01, number=step)
    assert same_bits(state_of(first), state_of(asking))


@pytest.mark.parametrize("kind", KINDS)
def test_who_cannot_be_told_later_waits(kind: str, make_model: MakeModel, same_bits) -> None:
    heeds = kind in HEEDING
    for moves_first in (True, False):
        descent = Descent(make_model(), replace(PLAN, **KINDS[kind]), moves_first=moves_first)
        before = state_of(descent)
        assert walk_first(descent, set(), steps=1) == [heeds and moves_first]
        assert same_bits(state_of(descent), before) is not (heeds and moves_first)


def test_thin_matrices_have_the_rate_of_the_layer_that_they_move(make_model: MakeModel) -> None:
    lora = LoraPlan(rank=2, alpha=4.0, on="all")
    plan = replace(PLAN, layers=Layers(num_frozen=4, decay=0.5), regularize=Regularize(lora=lora))
    descent = Descent(make_model(), plan)
    descent.freeze(1)
    shares = {
        parameter: group["share"]
        for group in descent.optimizer.param_groups
        for parameter in group["params"]
    }
    assert descent.lora is not None
    for name, pair in descent.lora.pairs.items():
        below = {"0": 0.25, "1": 0.5}[name.split(".")[2]]
        assert {shares[pair.up], shares[pair.down]} == {below}
        assert pair.up.requires_grad


def test_gradients_are_forgotten(make_model: MakeModel) -> None:
    descent = Descent(make_model(), PLAN)
    for parameter in descent.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    descent.forget_gradients()
    assert all(parameter.grad is None for parameter in descent.model.parameters())


def test_a_run_ends_with_its_best_weights_or_its_average(
    make_model: MakeModel, make_run: MakeRun, weights_of, same_bits
) -> None:
    descent, run = Descent(make_model(), replace(PLAN, average=0.5)), make_run()
    walk(descent, range(2))
    best = weights_of(descent.model)
    run.write_best(best, 2)
    walk(descent, range(2, 4))
    mean = descent.state()["average"]
    last = weights_of(descent.model)
    descent.finish(run, Counters(step=4))
    assert same_bits(weights_of(descent.model), {name: mean[name] for name in best})
    assert not same_bits(weights_of(descent.model), last)
    descent.finish(run, Counters(step=4, best_step=2))
    assert same_bits(weights_of(descent.model), best)
