"""LAMB against the published formula."""

import pytest
import torch
from torch import Tensor, nn

from bertworks.training.lamb import Lamb
from bertworks.training.optimizer import Adam, make_optimizer, set_rate

RATES = (0.03, 0.05, 0.02, 0.01, 0.04)
BETAS, EPSILON, DECAY = (0.8, 0.95), 1e-3, 0.3


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)).double()


def fill_gradients(model: nn.Module, step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random, dtype=parameter.dtype)


def make_lamb(model: nn.Module) -> torch.optim.Optimizer:
    return make_optimizer(
        model, name="lamb", lr=1.0, weight_decay=DECAY, adam=Adam(betas=BETAS, epsilon=EPSILON)
    )


def walk(model: nn.Module) -> dict[str, Tensor]:
    optimizer = make_lamb(model)
    for step, rate in enumerate(RATES):
        set_rate(optimizer, rate)
        fill_gradients(model, step)
        optimizer.step()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def walk_by_formula(
    model: nn.Module, *, trusts: bool = True, corrected: bool = True, everywhere: bool = False
) -> dict[str, Tensor]:
    """Take the same steps as You et al. write them, one parameter at a time."""
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for step, rate in enumerate(RATES):
        fill_gradients(model, step)
        for name, parameter in model.named_parameters():
            is_matrix = parameter.dim() >= 2 or everywhere
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * parameter.grad
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * parameter.grad**2
            mean = first[name] / (1 - BETAS[0] ** (step + 1) if corrected else 1)
            square = second[name] / (1 - BETAS[1] ** (step + 1) if corrected else 1)
            move = mean / (square.sqrt() + EPSILON) + (DECAY if is_matrix else 0) * weights[name]
            ratio = weights[name].norm() / move.norm() if trusts and is_matrix else 1
            weights[name] = weights[name] - rate * ratio * move
    return weights


def furthest(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def test_the_steps_are_those_of_the_published_formula() -> None:
    model = small_network()
    expected = walk_by_formula(model)
    assert furthest(walk(model), expected) < 1e-14


@pytest.mark.parametrize("change", [{"trusts": False}, {"corrected": False}, {"everywhere": True}])
def test_another_formula_would_be_noticed(change: dict[str, bool]) -> None:
    model = small_network()
    other = walk_by_formula(model, **change)
    assert furthest(walk(model), other) > 1e-3


def test_a_step_is_as_long_as_the_rate_times_the_matrix() -> None:
    model = small_network(seed=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = make_lamb(model)
    set_rate(optimizer, 0.1)
    fill_gradients(model, 4)
    optimizer.step()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            move = (parameter.detach() - before[name]).norm()
            assert float(move) == pytest.approx(0.1 * float(before[name].norm()))


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_a_matrix_or_a_step_of_zeros_moves_at_the_plain_rate(weight: float) -> None:
    matrix = nn.Parameter(torch.full((3, 5), weight))
    matrix.grad = torch.zeros(3, 5) if weight else torch.ones(3, 5)
    Lamb([matrix], lr=0.1, betas=BETAS, eps=EPSILON).step()
    assert matrix.detach().allclose(torch.full((3, 5), weight or -0.1), atol=1e-3)


def test_a_tensor_without_a_gradient_stays_and_counts_no_step() -> None:
    moved, kept = nn.Parameter(torch.ones(3, 5)), nn.Parameter(torch.ones(5, 3))
    optimizer = Lamb([moved, kept], lr=0.1, betas=BETAS, eps=EPSILON)
    for _ in range(2):
        moved.grad = torch.ones(3, 5)
        optimizer.step()
    kept.grad = torch.ones(5, 3)
    optimizer.step()
    assert (int(optimizer.state[moved]["step"]), int(optimizer.state[kept]["step"])) == (3, 1)
