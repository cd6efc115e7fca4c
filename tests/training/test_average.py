"""The running average of weights: exact in its first steps, and given back without a trace."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertworks.tasks.task import TaskModel
from bertworks.training.average import Average, applied

DECAY = 0.9


def walk(model: nn.Module, average: Average, numbers: list[float]) -> None:
    for number in numbers:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(number)
        average.update(1)


@given(
    numbers=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20),
    decay=st.floats(0.01, 0.9999),
)
def test_it_is_the_weighted_mean_of_the_weights_seen(numbers: list[float], decay: float) -> None:
    model = nn.Linear(2, 3)
    average = Average(model, decay=decay)
    walk(model, average, numbers)
    shares = [decay**age for age in reversed(range(len(numbers)))]
    expected = sum(s * n for s, n in zip(shares, numbers, strict=True)) / sum(shares)
    average.apply()
    assert model.bias.tolist() == pytest.approx([expected] * 3, rel=1e-4, abs=1e-3)


def test_weights_that_stand_still_are_their_own_average() -> None:
    model = nn.Linear(2, 3)
    before = model.weight.detach().clone()
    average = Average(model, decay=DECAY)
    for _ in range(5):
        average.update(1)
    average.apply()
    assert model.weight.equal(before)


def test_before_the_first_step_there_is_no_average_to_give() -> None:
    model = nn.Linear(2, 3)
    before = model.weight.detach().clone()
    average = Average(model, decay=DECAY)
    average.apply()
    assert model.weight.equal(before)


def test_the_weights_come_back_bit_for_bit_after_a_while(
    make_model: Callable[..., TaskModel], weights_of, same_bits
) -> None:
    model = make_model()
    average = Average(model, decay=DECAY)
    average.update(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    before = weights_of(model)
    with applied(average):
        assert not same_bits(weights_of(model), before)
    assert same_bits(weights_of(model), before)
    with pytest.raises(KeyError), applied(average):
        raise KeyError
    assert same_bits(weights_of(model), before)


def test_without_an_average_the_model_is_left_alone() -> None:
    with applied(None):
        pass


def test_it_is_kept_in_single_precision_whatever_the_model_has() -> None:
    model = nn.Linear(2, 3).double()
    average = Average(model, decay=DECAY)
    average.update(1)
    assert {tensor.dtype for name, tensor in average.tensors().items() if name != "count"} == {
        torch.float32
    }


def test_it_travels_as_tensors_and_goes_on_unchanged() -> None:
    models = [nn.Linear(2, 3) for _ in range(2)]
    first, second = (Average(model, decay=DECAY) for model in models)
    walk(models[0], first, [1.0, 5.0, 2.5])
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for model, average in zip(models, (first, second), strict=True):
        walk(model, average, [0.3, 0.7])
        average.apply()
    assert models[0].weight.equal(models[1].weight)
    forgetful = Average(models[1], decay=DECAY)
    walk(models[1], forgetful, [0.3, 0.7])
    forgetful.apply()
    assert not models[0].weight.equal(models[1].weight)


@given(numbers=st.lists(st.floats(-100, 100, width=32), min_size=6, max_size=20))
def test_only_steps_that_are_due_count_and_all_of_them_alike(numbers: list[float]) -> None:
    model = nn.Linear(2, 3)
    average = Average(model, since=3, every=2)
    for step, number in enumerate(numbers, start=1):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(number)
        average.update(step)
    due = [number for step, number in enumerate(numbers, start=1) if step > 3 and step % 2 == 0]
    average.apply()
    assert model.bias.tolist() == pytest.approx([sum(due) / len(due)] * 3, abs=1e-3)
