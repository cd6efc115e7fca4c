"""LoRA: nothing at first, the chain rule after, and one matrix in the end."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from bertworks.core.errors import UsageError
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.lora import Lora, LoraPlan, projections
from bertworks.training.pretrained import Pretrained

PLAN = LoraPlan(rank=2, alpha=3.0, on="all")
MakeModel = Callable[..., TaskModel]


def put_on(model: nn.Module, plan: LoraPlan = PLAN, fresh: frozenset[str] = frozenset()) -> Lora:
    return Lora(model, plan, pretrained=Pretrained(model, fresh=fresh), seed=5)


def move(lora: Lora, seed: int = 0) -> None:
    random = torch.Generator().manual_seed(seed)
    for pair in lora.pairs.values():
        for matrix in (pair.up, pair.down):
            drawn = torch.randn(matrix.shape, generator=random)
            matrix.data.copy_(drawn.to(matrix.dtype))


def test_at_first_it_changes_nothing(make_model: MakeModel, weights_of, same_bits) -> None:
    model = make_model()
    before = weights_of(model)
    put_on(model).merge()
    assert same_bits({name: weights_of(model)[name] for name in before}, before)


def test_the_merged_matrix_computes_as_the_thin_ones_beside_it(make_model: MakeModel) -> None:
    model = make_model()
    lora = put_on(model)
    before = {name: weight.detach().clone() for name, weight in lora.weights.items()}
    move(lora)
    lora.merge()
    for name, weight in lora.weights.items():
        pair, x = lora.pairs[name], torch.randn(7, weight.shape[1])
        beside = functional.linear(functional.linear(x, pair.down), pair.up) * 3.0 / 2
        apart = functional.linear(x, before[name]) + beside
        size = float(apart.abs().max().detach())
        assert torch.allclose(functional.linear(x, weight), apart, atol=1e-6 * max(size, 1.0))


def test_the_gradients_of_the_thin_matrices_are_those_of_the_formula(
    make_model: MakeModel, make_batches
) -> None:
    model = make_model().double()
    lora = put_on(model)
    move(lora)
    lora.merge()
    (part,) = make_batches().at(0)
    sum(model(part).values()).backward()
    lora.pull_back()
    assert all(weight.grad is None for weight in lora.weights.values())
    thin = [matrix for pair in lora.pairs.values() for matrix in (pair.up, pair.down)]
    merged = {
        name: lora.pretrained.value(weight) + 1.5 * lora.pairs[name].up @ lora.pairs[name].down
        for name, weight in lora.weights.items()
    }
    losses = torch.func.functional_call(model, merged, (part,))
    for matrix, gradient in zip(thin, torch.autograd.grad(sum(losses.values()), thin), strict=True):
        assert torch.allclose(matrix.grad, gradient, atol=1e-12)


def test_a_step_without_gradients_is_none(make_model: MakeModel) -> None:
    lora = put_on(make_model())
    lora.pull_back()
    assert all(pair.up.grad is None for pair in lora.pairs.values())


def test_taken_off_the_model_has_its_own_names_again(make_model: MakeModel) -> None:
    model = make_model()
    names = [name for name, _ in model.named_parameters()]
    lora = put_on(model)
    assert len(list(model.parameters())) > len(names)
    lora.take_off()
    assert [name for name, _ in model.named_parameters()] == names


@pytest.mark.parametrize(
    ("on", "names"),
    [("attention", {"qkv", "output"}), ("feed-forward", {"expand", "contract"})],
)
def test_it_lies_where_it_is_asked_for(on, names: set[str], make_model: MakeModel) -> None:
    model = make_model()
    found = projections(model, on)
    assert {name.split(".")[-2] for name in found} == names
    assert len(found) == 4
    assert projections(model, "all").keys() > found.keys()


def test_fresh_matrices_learn_by_themselves(make_model: MakeModel) -> None:
    fresh = frozenset({"encoder.blocks.1.mixer.qkv.weight"})
    lora = put_on(make_model(), fresh=fresh)
    assert projections(lora.model, "all").keys() - lora.weights.keys() == fresh


def test_a_network_without_such_matrices_is_refused() -> None:
    config = EncoderConfig(
        vocab_size=41, hidden_size=16, num_layers=1, num_heads=2, mixer="recurrent"
    )
    with pytest.raises(UsageError, match="--lora-on attention finds no matrices"):
        put_on(TaskModel(config, []), LoraPlan(rank=2, alpha=2.0, on="attention"))


def test_thin_matrices_are_not_wider_than_those_they_move(make_model: MakeModel) -> None:
    with pytest.raises(UsageError, match="--lora is 22, but a matrix has a side of 21; lower it"):
        put_on(make_model(), LoraPlan(rank=22, alpha=1.0))
    assert put_on(make_model(), LoraPlan(rank=21, alpha=1.0)).pairs


def test_a_head_that_writes_learns_as_a_whole(make_model) -> None:
    model = TaskModel(make_model().config, [make_task("generate")])
    assert "heads.generate.blocks.0.mixer.qkv.weight" in dict(model.named_parameters())
    assert all(name.startswith("encoder.") for name in projections(model, "all"))
