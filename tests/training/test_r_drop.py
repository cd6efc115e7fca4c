"""R-Drop: passes that say the same cost nothing more, and others their divergence."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.r_drop import divergence, losses_of_two_passes

MakeModel = Callable[..., TaskModel]


def pair(*shape: int, seed: int = 0) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random).requires_grad_() for _ in range(2)]


def both_ways(first: Tensor, second: Tensor) -> Tensor:
    """Return both divergences of rows of chances, added up for each row."""
    difference = first - second
    return (difference * (first.log() - second.log())).sum(-1)


def found(kind: str, logits: list[Tensor], target: Target, labels=(), **options) -> float:
    loss = make_task(kind, labels, **options).loss
    return divergence(logits, [loss(each, target) for each in logits]).item()


def test_without_dropout_two_passes_cost_as_one(make_model: MakeModel, make_batches) -> None:
    model = make_model(dropout=0.0)
    (part,) = make_batches().at(0)
    once, twice = model(part), losses_of_two_passes(model, part, weight=5.0)
    assert once.keys() == twice.keys()
    for name in once:
        assert twice[name].item() == pytest.approx(once[name].item(), rel=1e-6)


def test_with_dropout_they_cost_more_and_the_gradient_is_that_of_the_whole(
    make_model: MakeModel, make_batches
) -> None:
    model = make_model(dropout=0.3)
    (part,) = make_batches().at(0)
    costs = []
    for weight in (0.0, 4.0):
        torch.manual_seed(3)
        costs.append(losses_of_two_passes(model, part, weight=weight)["next_sentence"])
    torch.manual_seed(3)
    passes = [model.judged(part)["next_sentence"] for _ in range(2)]
    asked = passes[0][1].values != IGNORE
    chances = [logits.softmax(-1)[asked] for logits, _ in passes]
    expected = both_ways(*chances).sum()
    assert (costs[1] - costs[0]).item() == pytest.approx(expected.item(), rel=1e-4)
    weights = [p for n, p in model.named_parameters() if "next_sentence" in n]
    ours = torch.autograd.grad(costs[1] - costs[0], weights)
    theirs = torch.autograd.grad(expected, weights)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))


def test_one_label_of_many() -> None:
    logits, shares = pair(4, 3), torch.tensor([1.0, 0.5, 2.0, 1.0])
    target = Target(torch.tensor([2, 0, 1, IGNORE]), weights=shares)
    rows = both_ways(*(each.softmax(-1) for each in logits))
    expected = (rows * shares)[:3].sum().item()
    assert found("classify", logits, target, ("a", "b", "c")) == pytest.approx(expected, rel=1e-5)


def test_smoothed_labels_leave_the_divergence_as_it_is() -> None:
    logits = pair(2, 3)
    numbers = [
        found(
            "classify", logits, Target(torch.tensor([2, 0]), smoothing=smoothing), ("a", "b", "c")
        )
        for smoothing in (0.0, 0.3)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)


def test_several_labels_each_on_its_own() -> None:
    logits = pair(3, 2)
    target = Target(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    chances = [each.sigmoid() for each in logits]
    rows = both_ways(*(torch.stack([c, 1 - c], -1) for c in chances)).mean(1)
    expected = rows.sum().item()
    labels, prior = ("a", "b"), [0.0, 0.0]
    assert found("multilabel", logits, target, labels, prior=prior) == pytest.approx(
        expected, rel=1e-5
    )


def test_numbers_as_those_of_a_normal_with_half_the_variance() -> None:
    logits = pair(3, 1)
    target = Target(torch.tensor([0.5, -1.0, 2.0]))
    expected = 2 * (logits[0] - logits[1]).square().sum().item()
    assert found("score", logits, target) == pytest.approx(expected, rel=1e-5)


def test_a_choice_among_the_rows_of_a_group() -> None:
    logits = pair(5, 1)
    target = Target(torch.tensor([0, 1, 0, 1, 0]), groups=torch.tensor([0, 0, 0, 1, 1]))
    expected = sum(
        both_ways(*(each[rows].squeeze(-1).softmax(0) for each in logits)).item()
        for rows in (slice(0, 3), slice(3, 5))
    )
    assert found("choose", logits, target) == pytest.approx(expected, rel=1e-5)


def test_a_chain_of_tags_as_a_whole() -> None:
    labels = ("B-X", "I-X", "O")
    logits = pair(3, 9)
    with torch.no_grad():
        for each in logits:  # the first place has the same scores after every label
            each[0] = each[0].view(3, 3)[:1].expand(3, 3).flatten()
    target = Target(torch.tensor([2, 0, 1]), groups=torch.tensor([0, 0, 0]))
    paths = list(product(range(3), repeat=3))
    scores = [
        torch.stack([c[0, p[0]] + c[1, p[0] * 3 + p[1]] + c[2, p[1] * 3 + p[2]] for p in paths])
        for c in logits
    ]
    expected = both_ways(*(each.softmax(0) for each in scores)).item()
    assert math.isfinite(expected)
    assert found("tag", logits, target, labels, crf=True) == pytest.approx(expected, rel=1e-4)


def test_rows_that_ask_for_nothing_say_nothing() -> None:
    logits = pair(2, 3)
    assert found("classify", logits, Target(torch.tensor([IGNORE, IGNORE])), ("a", "b", "c")) == 0
    same = [logits[0], logits[0].detach().clone().requires_grad_()]
    assert found("classify", same, Target(torch.tensor([0, 2])), ("a", "b", "c")) == 0
    assert functional.kl_div(logits[0].log_softmax(1), logits[1].softmax(1), reduction="sum") > 0
