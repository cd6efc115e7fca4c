"""Muon: orthogonal steps for the matrices of the blocks, AdamW for all else."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.muon import Muon, hidden_matrices, orthogonalize
from bertworks.training.optimizer import make_optimizer, set_rate

RATES = (0.03, 0.05, 0.02)
DECAY = 0.3
IN_BLOCKS = ("qkv.weight", "mixer.output.weight", "expand.weight", "contract.weight")


def fill_gradients(parameters: list[Tensor], step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=random)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def plain_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's own Muon compute in single precision, as ours does on a CPU."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (6, 6), (1, 9)])
def test_a_matrix_takes_the_steps_of_torchs_own_optimizer(
    shape: tuple[int, int], plain_numbers: None
) -> None:
    ours, theirs = (nn.Parameter(draw(*shape)) for _ in range(2))
    others = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    optimizers = (
        Muon({ours: 1}, others, lr=1.0, weight_decay=DECAY),
        torch.optim.Muon([theirs], weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
    )
    for step, rate in enumerate(RATES):
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            set_rate(optimizer, rate)
            fill_gradients([parameter], step)
            optimizer.step()
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert not torch.allclose(ours, draw(*shape), atol=1e-2)


def test_stacked_matrices_move_as_each_would_alone(plain_numbers: None) -> None:
    stacked = nn.Parameter(draw(12, 5))
    alone = [nn.Parameter(part.clone()) for part in stacked.detach().chunk(3)]
    others = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    ours = Muon({stacked: 3}, others, lr=0.1, weight_decay=DECAY)
    theirs = torch.optim.Muon(alone, lr=0.1, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
    for step in range(3):
        fill_gradients([stacked], step)
        for part, gradient in zip(alone, stacked.grad.chunk(3), strict=True):
            part.grad = gradient.clone()
        ours.step()
        theirs.step()
    assert torch.allclose(stacked, torch.cat(alone), atol=1e-6)
    whole = nn.Parameter(draw(12, 5))
    whole.grad = draw(12, 5, seed=3)
    Muon({whole: 1}, others, lr=0.1, weight_decay=0.0).step()
    apart = nn.Parameter(draw(12, 5))
    apart.grad = draw(12, 5, seed=3)
    Muon({apart: 3}, others, lr=0.1, weight_decay=0.0).step()
    assert not torch.allclose(whole, apart, atol=1e-3)


@pytest.mark.parametrize("shape", [(3, 5, 9), (3, 9, 5), (2, 7, 7)])
def test_singular_values_are_drawn_near_to_one_and_directions_stay(
    shape: tuple[int, int, int],
) -> None:
    matrices = draw(*shape)
    made = orthogonalize(matrices, in_half=False)
    before, after = torch.linalg.svdvals(matrices), torch.linalg.svdvals(made)
    assert bool(((after > 0.4) & (after < 1.4)).all())
    assert float((before.amax(-1) / before.amin(-1)).max()) > 2
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    turned = left.mT @ made @ right.mT
    assert float((turned - turned.diagonal(dim1=1, dim2=2).diag_embed()).abs().max()) < 1e-4


def test_in_half_precision_the_directions_are_the_same(
    make_model: Callable[..., TaskModel],
) -> None:
    matrices = draw(3, 9, 5)
    whole = orthogonalize(matrices, in_half=False)
    half = orthogonalize(matrices, in_half=True)
    assert half.dtype == torch.bfloat16
    assert torch.allclose(whole, half.float(), atol=0.05)
    assert not whole.equal(half.float())
    optimizers = [
        make_optimizer(make_model(), lr=1.0, weight_decay=DECAY, name="muon", in_half=in_half)
        for in_half in (True, False)
    ]
    assert [optimizer.in_half for optimizer in optimizers] == [True, False]


def test_a_matrix_of_zeros_stays_a_number() -> None:
    assert orthogonalize(torch.zeros(2, 3, 5), in_half=False).equal(torch.zeros(2, 3, 5))


def test_the_matrices_of_the_blocks_and_no_others_are_muons(
    make_model: Callable[..., TaskModel],
) -> None:
    model = make_model()
    found = hidden_matrices(model)
    names = {name for name, parameter in model.named_parameters() if parameter in found}
    assert names == {n for n in dict(model.named_parameters()) if n.endswith(IN_BLOCKS)}
    assert len(names) == 2 * 4
    assert [
        found[model.get_parameter(f"encoder.blocks.1.{name}")]
        for name in ("mixer.qkv.weight", "mixer.output.weight", "feed_forward.expand.weight")
    ] == [3, 1, 1]


@pytest.mark.parametrize(
    ("family", "num_stacked"), [("modernbert", 2), ("recurrent", 1), ("albert", 1)]
)
def test_every_family_has_a_matrix_for_muon(family: str, num_stacked: int, draw_model) -> None:
    model, _ = draw_model(family, make_task("fill_mask"))
    found = hidden_matrices(model)
    assert found[model.encoder.blocks[0].feed_forward.expand.weight] == num_stacked
    assert not any("embeddings" in n for n, p in model.named_parameters() if p in found)


def test_what_is_not_muons_moves_as_under_adamw(make_model: Callable[..., TaskModel]) -> None:
    models = [make_model() for _ in range(2)]
    optimizers = [
        make_optimizer(model, lr=1.0, weight_decay=DECAY, name=name)
        for model, name in zip(models, ("adamw", "muon"), strict=True)
    ]
    for step, rate in enumerate(RATES):
        for model, optimizer in zip(models, optimizers, strict=True):
            set_rate(optimizer, rate)
            fill_gradients(list(model.parameters()), step)
            optimizer.step()
    mine = hidden_matrices(models[1])
    for (name, adamw), muon in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        assert adamw.equal(muon) is (muon not in mine), name


def test_gradients_are_forgotten_and_rates_are_set_for_both_parts(
    make_model: Callable[..., TaskModel],
) -> None:
    model = make_model()
    optimizer = make_optimizer(model, lr=0.1, weight_decay=DECAY, name="muon")
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(map(id, model.parameters()))
    set_rate(optimizer, 0.7)
    assert {group["lr"] for group in optimizer.others.param_groups} == {0.7}
    fill_gradients(list(model.parameters()), 0)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_looks_at_a_source_moves_as_the_blocks_do(make_model) -> None:
    model = TaskModel(make_model().config, [make_task("generate")])
    found = hidden_matrices(model)
    (reading, _) = model.heads["generate"].layers
    assert [found[part.weight] for part in (reading.query, reading.kv, reading.output)] == [1, 2, 1]
