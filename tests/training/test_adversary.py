"""Adversaries move each text by as much as they may, and to where the loss rises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Layout
from bertworks.core.device import Machine
from bertworks.data.packing import Features, Goal, flatten
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.adversary import Adversary, nudged, text_norms, unit, within, word_table
from bertworks.training.passes import Passes
from bertworks.training.plan import TrainingPlan
from bertworks.training.regularize import Regularize

MakeModel = Callable[..., TaskModel]
NAMES = ("fgm", "pgd", "freelb")
lengths = st.lists(st.integers(1, 7), min_size=1, max_size=6).map(tuple)


def drawn(layout: Layout, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(sum(layout.lengths), 5, generator=random)


@given(lengths=lengths, seed=st.integers(0, 99), radius=st.floats(0.01, 10))
def test_every_text_has_the_length_that_is_asked_for(
    lengths: tuple[int, ...], seed: int, radius: float
) -> None:
    layout = Layout.of(lengths)
    norms = text_norms(radius * unit(drawn(layout, seed), layout), layout)
    assert norms.tolist() == pytest.approx([radius] * len(lengths), rel=1e-4)


@given(lengths=lengths, seed=st.integers(0, 99), radius=st.floats(0.01, 10))
def test_only_what_is_too_long_is_drawn_back(
    lengths: tuple[int, ...], seed: int, radius: float
) -> None:
    layout = Layout.of(lengths)
    vectors = drawn(layout, seed)
    norms = text_norms(vectors, layout)
    kept = text_norms(within(vectors, layout, radius=radius), layout)
    assert kept.tolist() == pytest.approx(norms.clamp(max=radius).tolist(), rel=1e-4)


def test_a_text_without_a_slope_is_not_moved() -> None:
    layout = Layout.of((2, 3))
    vectors = torch.cat([torch.zeros(2, 5), torch.ones(3, 5)])
    assert text_norms(unit(vectors, layout), layout).tolist() == pytest.approx([0, 1])


class Watched:
    """A model whose looks are noted: the moves of its vectors, and the loss."""

    def __init__(self, model: TaskModel, batch: Any) -> None:
        self.model, self.batch = model, batch
        self.pieces = word_table(model)
        self.moves: list[torch.Tensor] = []
        self.losses: list[float] = []

    def look(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        hooks = self.pieces.register_forward_hook(self._note)
        total = self.model(self.batch)["fill_mask"]
        hooks.remove()
        self.losses.append(total.item())
        return total, {"fill_mask": total}

    def _note(self, module: Any, given: Any, vectors: torch.Tensor) -> None:
        self.moves.append(vectors.detach() - self.pieces.weight[self.batch.tokens].detach())


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_rises_and_no_text_leaves_its_radius(
    name, make_model: MakeModel, make_batches
) -> None:
    (batch,) = make_batches().at(0)
    watched = Watched(make_model(), batch)
    adversary = Adversary(name=name, radius=0.3, moves=4)
    losses = adversary.learn(watched.look, watched.pieces, batch, seed=3)
    norms = [text_norms(move, batch.layout) for move in watched.moves]
    assert max(float(norm.max()) for norm in norms) <= 0.3 + 1e-5
    assert watched.losses[-1] > watched.losses[0]
    if name == "freelb":
        mean = sum(watched.losses) / len(watched.losses)
        assert len(norms) == 4
        assert float(norms[0].min()) > 0
        assert float(losses["fill_mask"]) == pytest.approx(mean, rel=1e-5)
        return
    assert len(norms) == (2 if name == "fgm" else 5)
    assert float(losses["fill_mask"]) == pytest.approx(watched.losses[0])
    assert float(norms[0].max()) == 0
    if name == "fgm":
        assert norms[1].tolist() == pytest.approx([0.3] * batch.num_texts, rel=1e-3)


def test_the_gradient_is_that_of_the_text_as_it_is_and_of_the_moved_one(
    make_model: MakeModel, make_batches
) -> None:
    (batch,) = make_batches().at(0)
    model = make_model().double()
    watched = Watched(model, batch)
    Adversary(name="fgm", radius=0.5).learn(watched.look, watched.pieces, batch, seed=3)
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model(batch)["fill_mask"].backward()
    with nudged(watched.pieces, watched.moves[1], of=batch.tokens):
        moved = model(batch)["fill_mask"]
    moved.backward()
    expected = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], expected[name], atol=1e-9) for name in found)


@pytest.mark.parametrize("name", NAMES)
def test_of_no_radius_the_gradient_is_the_usual_one(
    name, make_model: MakeModel, make_batches, machine: Machine
) -> None:
    gradients = []
    for radius in (None, 1e-9):
        model = make_model(dropout=0.2)
        adversary = Adversary(name=name, radius=radius) if radius else None
        plan = TrainingPlan(steps=1, lr=0.1, regularize=Regularize(adversary=adversary))
        (part,) = make_batches().at(0)
        totals = {task: target.count for task, target in part.targets.items()}
        Passes(model, plan, machine, share=0.0).learn(part, seed=5, totals=totals)
        gradients.append([p.grad for p in model.parameters()])
    times = 1 if name == "freelb" else 2  # the text as it is, and the moved one
    for usual, found in zip(*gradients, strict=True):
        assert torch.allclose(times * usual, found, atol=1e-5)


def test_neighbours_in_the_batch_do_not_change_a_move(make_model: MakeModel, make_batches) -> None:
    moves = []
    for accumulate in (1, 7):
        parts = make_batches(accumulate=accumulate).at(0)
        for part in parts:
            watched = Watched(make_model(), part)
            Adversary(name="pgd").learn(watched.look, watched.pieces, part, seed=1)
            texts = watched.moves[-1].split(part.layout.lengths)
            moves.append(dict(zip(part.ids, texts, strict=True)))
    together = moves[0]
    alone = {text: move for found in moves[1:] for text, move in found.items()}
    assert together.keys() == alone.keys()
    assert all(torch.allclose(together[text], alone[text], atol=1e-5) for text in together)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_read_moves_though_what_is_written_shares_its_pieces(
    name, make_model: MakeModel, machine: Machine
) -> None:
    config, goals = make_model().config, {"generate": Goal((6, 7, 2))}
    segments = np.zeros(5, dtype=np.int64)
    text = Features(np.arange(5, 10), segments, goals, reply=np.array([1, 6, 7]))
    batch = flatten([text])
    gradients = []
    for radius in (1e-9, 0.5):
        model = TaskModel(config, [make_task("generate", decoder="fresh")], deviation=0.3)
        seen = []
        pieces = word_table(model)
        pieces.register_forward_hook(lambda module, given, out, seen=seen: seen.append(given[0]))
        plan = TrainingPlan(
            steps=1, lr=0.1, regularize=Regularize(adversary=Adversary(name=name, radius=radius))
        )
        Passes(model, plan, machine=machine, share=0).learn(batch, seed=3, totals={"generate": 3.0})
        assert {len(tokens) for tokens in seen} == {5, 3}
        gradients.append(model.encoder.blocks[0].mixer.qkv.weight.grad)
    assert not torch.allclose(*gradients, rtol=1e-3)
