"""The gradient of a step is that of the mean of its losses, however it is computed."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from bertworks.core.crew import Crew
from bertworks.core.device import Machine
from bertworks.tasks.task import TaskModel
from bertworks.training.gradients import Gradients, Measured
from bertworks.training.plan import TrainingPlan

PLAN = TrainingPlan(steps=5, lr=0.1, clip=1e9)
MakeModel = Callable[..., TaskModel]


def gradient_of(model: TaskModel) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def compute(model: TaskModel, parts: Any, machine: Machine, plan: TrainingPlan = PLAN) -> Measured:
    gradients = Gradients(model, plan, machine, Crew())
    return gradients.compute(parts, 1, share=0.0, weights=nullcontext())


@pytest.mark.parametrize("accumulate", [1, 3])
def test_it_is_that_of_the_mean_over_all_targets(
    accumulate: int, make_model: MakeModel, make_batches: Any, machine: Machine
) -> None:
    model, plain = make_model(), make_model()
    losses, norm = compute(model, make_batches(accumulate=accumulate).at(1), machine).read()
    (batch,) = make_batches().at(1)
    means = {name: loss / batch.targets[name].count for name, loss in plain(batch).items()}
    sum(means.values(), torch.zeros(())).backward()
    expected = gradient_of(plain)
    for name, found in gradient_of(model).items():
        torch.testing.assert_close(found, expected[name], rtol=1e-4, atol=1e-6)
    assert losses == pytest.approx({name: mean.item() for name, mean in means.items()}, rel=1e-5)
    length = torch.cat([one.flatten() for one in expected.values()]).norm()
    assert norm == pytest.approx(length.item(), rel=1e-4)


def test_what_is_too_long_is_shortened_and_its_length_before_is_told(
    make_model: MakeModel, make_batches: Any, machine: Machine
) -> None:
    model = make_model()
    short = TrainingPlan(steps=5, lr=0.1, clip=0.01)
    _, norm = compute(model, make_batches().at(1), machine, short).read()
    left = torch.cat([one.flatten() for one in gradient_of(model).values()]).norm().item()
    assert (norm > 0.1, left) == (True, pytest.approx(0.01, rel=1e-3))


def test_a_step_that_is_left_out_has_no_loss_and_no_gradient(
    make_model: MakeModel, machine: Machine
) -> None:
    model = make_model()
    assert compute(model, [], machine).read() == ({}, 0.0)
    assert gradient_of(model) == {}


def test_weights_are_lent_for_the_passes_and_given_back(
    make_model: MakeModel, make_batches: Any, machine: Machine
) -> None:
    seen: list[str] = []

    class Lent:
        def __enter__(self) -> None:
            seen.append("lent")

        def __exit__(self, *error: object) -> None:
            seen.append("given back")

    gradients = Gradients(make_model(), PLAN, machine, Crew())
    gradients.compute(make_batches().at(1), 1, share=0.0, weights=Lent())
    assert seen == ["lent", "given back"]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_what_is_bad_is_known_on_the_device_by_the_numbers_that_are_read(
    accumulate: int, make_model: MakeModel, make_batches: Any, machine: Machine
) -> None:
    measured = compute(make_model(), make_batches(accumulate=accumulate).at(1), machine)
    losses, _ = measured.read()
    assert not measured.is_bad({}).item()
    assert not measured.is_bad(losses).item()
    for name, loss in losses.items():
        assert measured.is_bad({**losses, name: math.nextafter(loss, 0)}).item()
    assert not measured.is_bad({"another": 0.0}).item()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_bad_wherever_it_stands(bad: float) -> None:
    one = torch.ones(())
    assert Measured(one * bad, [{"a": one}], Crew()).is_bad({}).item()
    assert Measured(one, [{"a": one, "b": one}, {"a": one, "b": bad * one}], Crew()).is_bad({})
    assert not Measured(one, [{"a": one, "b": one}], Crew()).is_bad({"a": 1.0})
