"""Layers that are frozen do not move by a bit; those that thaw do, and lower ones more slowly."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.device import Machine
from bertworks.model.weights import read_tensors
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.descent import Descent
from bertworks.training.layers import Ladder, Layers, count_blocks, reinitialize
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run

PLAN = TrainingPlan(steps=6, lr=0.02, weight_decay=0.3)
MakeModel = Callable[..., TaskModel]
MakeRun = Callable[..., Run]


def layer_of(name: str) -> int:
    """Return the layer of a parameter of the small network, which has two blocks."""
    if "embeddings" in name:
        return 0
    if "blocks." in name:
        return 1 + int(name.split("blocks.")[1][0])
    return 3 if name.startswith("encoder.") else 4


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
@pytest.mark.parametrize("num_frozen", [0, 1, 2, 3, 4])
def test_frozen_layers_keep_every_bit_and_all_others_move(
    optimizer: Any, num_frozen: int, make_model: MakeModel, make_batches, make_run: MakeRun,
    machine: Machine, weights_of,
) -> None:  # fmt: skip
    plan = replace(PLAN, optimizer=optimizer, layers=Layers(num_frozen=num_frozen), average=0.6)
    model, run = make_model(dropout=0.1), make_run()
    before = weights_of(model)
    train(model, make_batches(), plan, run=run, machine=machine)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {name for name in before if layer_of(name) >= num_frozen}


def test_a_frozen_layer_has_no_memory_and_no_part_in_the_norm(
    make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine
) -> None:
    norms = []
    for num_frozen in (0, 3):
        plan = replace(PLAN, layers=Layers(num_frozen=num_frozen), checkpoint_every=6, steps=1)
        run = make_run(str(num_frozen))
        train(make_model(), make_batches(), plan, run=run, machine=machine)
        norms.append(read_log(run.folder)[0]["gradient_norm"])
        file = run.folder / "checkpoints" / "step-00000001" / "optimizer.safetensors"
        kept = {layer_of(name) for name in read_tensors(file)}
        assert min(kept) == num_frozen
    assert 0 < norms[1] < norms[0]


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_that_thaws_and_is_stopped_ends_in_the_same_bits(
    stop: int, optimizer: Any, make_model: MakeModel, make_batches, make_run: MakeRun,
    machine: Machine, weights_of, same_bits,
) -> None:  # fmt: skip
    layers = Layers(num_frozen=4, thaw_every=2, decay=0.7)
    plan = replace(PLAN, optimizer=optimizer, layers=layers, checkpoint_every=stop)
    whole = make_model(dropout=0.1)
    train(whole, make_batches(), plan, run=make_run("whole"), machine=machine)
    first = make_model(dropout=0.1)

    class Broken:
        def at(self, step: int) -> Any:
            if step == stop:
                raise RuntimeError("the power went")
            return make_batches().at(step)

    with pytest.raises(RuntimeError):
        train(first, Broken(), plan, run=make_run("cut"), machine=machine)
    again = make_model(dropout=0.1, seed=9)
    train(again, make_batches(), plan, run=make_run("cut", resume=True), machine=machine)
    assert same_bits(weights_of(again), weights_of(whole))
    other = replace(plan, layers=replace(layers, thaw_every=3))
    unlike = make_model(dropout=0.1)
    train(unlike, make_batches(), other, run=make_run("other"), machine=machine)
    assert not same_bits(weights_of(unlike), weights_of(whole))


def test_layers_thaw_from_the_top_one_block_at_a_time(make_model: MakeModel) -> None:
    ladder = Ladder(make_model(), Layers(num_frozen=4, thaw_every=3))
    assert [ladder.num_frozen(step) for step in range(1, 14)] == [4] * 3 + [2] * 3 + [1] * 3 + [
        0
    ] * 4
    part = Ladder(make_model(), Layers(num_frozen=2, thaw_every=1))
    assert [part.num_frozen(step) for step in range(1, 5)] == [2, 1, 0, 0]


@given(st.integers(0, 4), st.integers(0, 5), st.integers(1, 40))
def test_what_has_thawed_never_freezes_again(frozen: int, every: int, step: int) -> None:
    model = torch.nn.Module()
    ladder = Ladder(model, Layers(num_frozen=frozen, thaw_every=every))
    ladder.num_blocks = 2
    assert ladder.num_frozen(step + 1) <= ladder.num_frozen(step) <= frozen


def test_what_starts_fresh_learns_wherever_it_lies(make_model: MakeModel) -> None:
    model = make_model()
    fresh = frozenset(name for name, _ in model.named_parameters() if "pooler" in name)
    Ladder(model, Layers(num_frozen=4, fresh=fresh)).freeze(1)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {n for n, _ in model.named_parameters() if n in fresh or "heads." in n}


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
def test_each_layer_learns_at_a_share_of_the_rate_above_it(
    optimizer: Any, make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine
) -> None:
    plan = replace(PLAN, optimizer=optimizer, layers=Layers(decay=0.5))
    descent = Descent(make_model(), plan)
    for parameter in descent.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    descent.step(0.08, number=1)
    rates = {
        id(p): group["lr"] for group in descent.optimizer.param_groups for p in group["params"]
    }
    found = {name: rates[id(p)] for name, p in descent.model.named_parameters()}
    assert len(rates) == len(found)
    shares = {0: 0.125, 1: 0.25, 2: 0.5, 3: 1.0, 4: 1.0}
    assert found == {name: pytest.approx(0.08 * shares[layer_of(name)]) for name in found}


def test_without_a_decay_the_groups_stay_as_they_are(make_model: MakeModel) -> None:
    assert len(Descent(make_model(), PLAN).optimizer.param_groups) == 2


@pytest.mark.parametrize("family", ["albert", "modernbert", "mpnet", "convolution"])
def test_every_parameter_of_every_family_has_a_layer(family: str, draw_model) -> None:
    model, _ = draw_model(family, make_task("classify", ("a", "b")))
    ladder = Ladder(model, Layers(num_frozen=1))
    assert count_blocks(model) == len(model.encoder.blocks)
    ladder.freeze(1)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {
        name for name, _ in model.named_parameters() if "embeddings." in name or "distances" in name
    }


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_top_blocks_and_what_lies_behind_them_are_drawn_afresh(
    count: int, make_model: MakeModel, weights_of, same_bits
) -> None:
    model, again = make_model(), make_model()
    before = weights_of(model)
    drawn = reinitialize(model, count, seed=4)
    expected = {n for n in before if 3 - count <= layer_of(n) <= 3} if count else set()
    assert drawn == expected
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved <= drawn  # biases and norms were fresh already
    assert {n for n in drawn if before[n].dim() >= 2} <= moved
    reinitialize(again, count, seed=4)
    assert same_bits(weights_of(model), weights_of(again))
