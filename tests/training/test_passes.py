"""Whatever passes a part needs: parts add up to the whole, and a stop changes no bit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from bertworks.core.batch import Batch, Target
from bertworks.core.device import Machine
from bertworks.core.settings import Ramp
from bertworks.model.weights import read_tensors
from bertworks.tasks.task import TaskModel
from bertworks.training.adversary import Adversary
from bertworks.training.layers import Layers
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.lora import MODULE, LoraPlan
from bertworks.training.optimizer import Adam
from bertworks.training.passes import Passes
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.regularize import Regularize
from bertworks.training.run import Run

PLAN = TrainingPlan(steps=6, lr=0.02, weight_decay=0.1, seed=3, evaluate_every=2)
KINDS: dict[str, Regularize] = {
    "mixout": Regularize(mixout=0.4),
    "parameter dropout": Regularize(parameter_dropout=0.3),
    "r-drop": Regularize(r_drop=1.0),
    "fgm": Regularize(adversary=Adversary(name="fgm")),
    "pgd": Regularize(adversary=Adversary(name="pgd", moves=2)),
    "freelb": Regularize(adversary=Adversary(name="freelb", moves=2)),
    "smoothing": Regularize(smoothing=Ramp(0.3, 0.0)),
    "toward the pretrained": Regularize(decay_toward="pretrained"),
    "the last two": Regularize(average_last=2),
    "lora": Regularize(lora=LoraPlan(rank=2, alpha=4.0)),
    "all at once": Regularize(
        mixout=0.2,
        r_drop=0.5,
        adversary=Adversary(name="pgd", moves=2),
        smoothing=Ramp(0.2, 0.0),
        decay_toward="pretrained",
        average_last=2,
        lora=LoraPlan(rank=2, alpha=4.0, on="all"),
    ),
}
MakeModel = Callable[..., TaskModel]
MakeRun = Callable[..., Run]


def plan_of(kind: str) -> TrainingPlan:
    asked = KINDS[kind]
    layers = Layers(num_frozen=4) if asked.lora else Layers()
    return replace(PLAN, regularize=asked, layers=layers)


class StoppingBatches:
    """Batches that end before a step."""

    def __init__(self, batches: Any, stop: int) -> None:
        self.batches, self.stop = batches, stop

    def at(self, step: int) -> list[Batch]:
        if step == self.stop:
            raise RuntimeError("the power went")
        return self.batches.at(step)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 4])
def test_a_run_that_is_stopped_ends_in_the_same_bits(
    kind: str, stop: int, make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine,
    weights_of, same_bits,
) -> None:  # fmt: skip
    plan = replace(plan_of(kind), checkpoint_every=stop)

    def go(name: str, batches: Any, resume: bool = False) -> TaskModel:
        model = make_model(dropout=0.1)

        def evaluate(step: int) -> Evaluation:
            size = sum(float(p.detach().abs().sum()) for p in model.encoder.parameters())
            return Evaluation(size, {"size": size})

        run = make_run(name, resume=resume)
        train(model, batches, plan, run=run, machine=machine, evaluate=evaluate)
        return model

    whole = go("whole", make_batches())
    with pytest.raises(RuntimeError, match="the power went"):
        go("stopped", StoppingBatches(make_batches(), stop))
    again = go("stopped", make_batches(), resume=True)
    assert same_bits(weights_of(again), weights_of(whole))
    assert not hasattr(again, MODULE)
    folders = [make_run(name, resume=True).folder for name in ("whole", "stopped")]
    assert read_log(folders[0]) == read_log(folders[1])


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "freelb"])
def test_parts_add_up_to_the_whole(
    kind: str, make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine, weights_of
) -> None:
    found = []
    for accumulate in (1, 3):
        model = make_model()
        run, batches = make_run(str(accumulate)), make_batches(accumulate=accumulate)
        train(model, batches, replace(plan_of(kind), steps=3), run=run, machine=machine)
        found.append((weights_of(model), [entry["fill_mask"] for entry in read_log(run.folder)]))
    (whole, losses), (parts, other_losses) = found
    assert losses == pytest.approx(other_losses, rel=1e-4)
    apart = max(float((whole[name] - parts[name]).abs().max()) for name in whole)
    assert apart < 2e-3  # a tenth of one step: Adam makes much of the last digits


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_another_model_than_none(
    kind: str, make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine, weights_of
) -> None:
    found = []
    for number, regularize in enumerate((KINDS[kind], Regularize())):
        model, plan = make_model(), replace(plan_of(kind), regularize=regularize)
        evaluate = lambda step: Evaluation(None, {})  # noqa: E731
        run = make_run(str(number))
        train(model, make_batches(), plan, run=run, machine=machine, evaluate=evaluate)
        found.append(weights_of(model))
    assert any(not torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_the_last_evaluations_are_averaged_evenly(
    make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine, weights_of
) -> None:
    plan = replace(plan_of("the last two"), checkpoint_every=2)
    averaged, run = make_model(), make_run()
    train(averaged, make_batches(), plan, run=run, machine=machine)
    files = [run.folder / "checkpoints" / f"step-0000000{n}" / "model.safetensors" for n in (4, 6)]
    last = [read_tensors(file) for file in files]
    for name, weight in weights_of(averaged).items():
        assert torch.allclose(weight, (last[0][name] + last[1][name]) / 2, atol=1e-6)


def test_only_what_lora_moves_has_moved(
    make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine, weights_of
) -> None:
    model = make_model()
    before = weights_of(model)
    train(model, make_batches(), plan_of("lora"), run=make_run(), machine=machine)
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    attention = {name for name in before if name.endswith(("qkv.weight", "mixer.output.weight"))}
    heads = {name for name in before if name.startswith("heads.")}
    assert moved == attention | heads
    for name in attention:
        difference = (dict(model.named_parameters())[name] - before[name]).detach()
        assert torch.linalg.matrix_rank(difference, rtol=1e-4) <= 2


class Heard(torch.nn.Module):
    """A model that notes how smooth its labels are."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model
        self.heard: list[float] = []

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        self.heard.append(batch.targets["next_sentence"].smoothing)
        return self.model(batch)


def test_smoothing_falls_in_a_line_over_the_run(
    make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine
) -> None:
    model, plan = Heard(make_model()), replace(PLAN, regularize=Regularize(smoothing=Ramp(0.6, 0)))
    train(model, make_batches(), plan, run=make_run(), machine=machine)
    assert model.heard == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


def test_smoothing_leaves_the_count_as_it_is() -> None:
    target = Target(torch.tensor([0, 1, -100]), weights=torch.tensor([0.5, 1.0, 1.0]))
    assert target.smoothed(0.2).count == target.count
    assert target.smoothed(0.2).smoothing == 0.2


def test_weights_scale_what_is_learned_from_but_not_the_losses(
    make_model: MakeModel, make_batches, machine: Machine
) -> None:
    (part,) = make_batches().at(0)
    totals = {name: target.count for name, target in part.targets.items()}
    gradients, losses = [], []
    for weight in (1.0, 3.0):
        model = make_model()
        weights = {"fill_mask": Ramp(weight, weight), "next_sentence": Ramp(0.0, 0.0)}
        passes = Passes(model, replace(PLAN, weights=weights), machine, share=0.5)
        losses.append(passes.learn(part, seed=1, totals=totals))
        gradients.append(model.encoder.embeddings.pieces.weight.grad)
    assert losses[0] == losses[1]
    assert torch.allclose(3 * gradients[0], gradients[1], atol=1e-6)


def test_the_baseline_without_bias_correction_goes_on_in_the_same_bits(
    make_model: MakeModel, make_batches, make_run: MakeRun, machine: Machine, weights_of, same_bits
) -> None:
    plan = replace(PLAN, adam=Adam(corrects=False), checkpoint_every=3)
    whole = make_model()
    train(whole, make_batches(), plan, run=make_run("whole"), machine=machine)
    first = make_model()
    with pytest.raises(RuntimeError, match="the power went"):
        train(first, StoppingBatches(make_batches(), 4), plan, run=make_run("s"), machine=machine)
    again = make_model()
    train(again, make_batches(), plan, run=make_run("s", resume=True), machine=machine)
    assert same_bits(weights_of(again), weights_of(whole))
