"""The training loop: exact sums, no step from numbers that are none, the same bits after a stop."""

import json
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import IGNORE, Batch
from bertworks.core.device import Machine
from bertworks.core.errors import InterruptedRunError, TrainingError
from bertworks.core.freed_memory import _keepers
from bertworks.core.settings import Ramp
from bertworks.data.loader import Batches
from bertworks.model.weights import read_tensors
from bertworks.tasks.task import TaskModel
from bertworks.training import loop
from bertworks.training.descent import Descent
from bertworks.training.health import MOST_BAD_IN_A_ROW
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.optimizer import make_optimizer
from bertworks.training.pace import Budget, Spent
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.run import Run, whole_checkpoints
from bertworks.training.saver import Saver
from bertworks.training.schedule import Schedule

PLAN = TrainingPlan(
    steps=5, lr=0.01, schedule=Schedule(warmup=2), weight_decay=0.1, clip=0.5, seed=3
)
KINDS = ({}, {"optimizer": "lamb"}, {"optimizer": "muon", "average": 0.8}, {"average": 0.9})
Weights = dict[str, Tensor]
MakeModel = Callable[..., TaskModel]
MakeBatches = Callable[..., Batches]
MakeRun = Callable[..., Run]
WeightsOf = Callable[[nn.Module], Weights]
SameBits = Callable[[Weights, Weights], bool]


class DoublePrecision(nn.Module):
    """A model whose sums can be compared to the last digits: its own losses are single."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model.double()

    def forward(self, batch: Batch) -> Weights:
        return {
            name: functional.cross_entropy(
                self.model.logits(batch, name), target.values, reduction="sum"
            )
            for name, target in batch.targets.items()
        }


class MeanOfMeans(nn.Module):
    """The usual mistake: each part's own mean, averaged over the parts."""

    def __init__(self, model: nn.Module, parts: list[Batch]) -> None:
        super().__init__()
        self.model = model
        self.totals = {
            name: sum(part.targets[name].count for part in parts) / len(parts)
            for name in parts[0].targets
        }

    def forward(self, batch: Batch) -> Weights:
        return {
            name: loss * self.totals[name] / max(batch.targets[name].count, 1.0)
            for name, loss in self.model(batch).items()
        }


class SameStep:
    """The batch of one step, whatever the step."""

    def __init__(self, batches: Batches, step: int) -> None:
        self.parts = batches.at(step)

    def at(self, step: int) -> list[Batch]:
        return self.parts


class CrashError(Exception):
    """Stands for whatever ends a run without warning."""


class CrashingBatches:
    """Batches that end the run before a chosen step."""

    def __init__(self, batches: Batches, before: int) -> None:
        self.batches, self.before = batches, before

    def at(self, step: int) -> list[Batch]:
        if step == self.before:
            raise CrashError
        return self.batches.at(step)


def signalling(model: nn.Module, batch: Batch, number: int) -> nn.Module:
    """Let a model send this process a signal while it computes on one batch."""

    def send(_: nn.Module, given: tuple[Batch]) -> None:
        if given[0].ids == batch.ids:
            os.kill(os.getpid(), number)

    model.register_forward_pre_hook(send)
    return model


class Drawing(nn.Module):
    """A model that notes the random number it would draw first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.drawn: list[float] = []

    def forward(self, batch: Batch) -> Weights:
        self.drawn.append(float(torch.rand(1)))
        return self.model(batch)


class Poisoned(nn.Module):
    """A model that goes bad at chosen steps: in its loss, one gradient, or one weight."""

    def __init__(self, model: nn.Module, steps: dict[int, float], *, where: str, parts: int = 1):
        super().__init__()
        self.model, self.steps, self.where, self.parts = model, steps, where, parts
        self.num_calls = 0
        self.victim = next(model.parameters())
        self.victim.register_hook(self._touch_gradient)

    @property
    def poison(self) -> float | None:
        """What the part at hand is poisoned with: of a step's parts, the last."""
        step, part = divmod(self.num_calls - 1, self.parts)
        return self.steps.get(step + 1) if part == self.parts - 1 else None

    def forward(self, batch: Batch) -> Weights:
        self.num_calls += 1
        poison = self.poison
        if poison is not None and self.where == "weight":
            with torch.no_grad():
                self.victim.view(-1)[0] = poison
        losses = self.model(batch)
        if poison is not None and self.where == "loss":
            losses["next_sentence"] = losses["next_sentence"] + poison
        return losses

    def _touch_gradient(self, gradient: Tensor) -> Tensor:
        if self.poison is None or self.where != "gradient":
            return gradient
        touched = gradient.clone()
        touched.view(-1)[-1] = self.poison
        return touched


def furthest(first: Weights, second: Weights) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def strict_log(run: Run) -> list[dict[str, Any]]:
    """Read a log as any JSON reader would: NaN and Infinity are no JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    lines = run.log.read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


# Accumulation


@pytest.mark.parametrize("accumulate", [3, 5])
def test_a_step_in_parts_equals_the_step_in_one_to_the_last_digits(
    accumulate: int,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
) -> None:
    ends, logs = [], []
    for parts in (1, accumulate):
        model, run = DoublePrecision(make_model()), make_run(f"in-{parts}")
        train(model, make_batches(accumulate=parts), PLAN, run=run, machine=machine)
        ends.append(weights_of(model))
        logs.append(read_log(run.folder))
    assert furthest(*ends) < 1e-12
    for whole, split in zip(*logs, strict=True):
        assert split == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("name", ["lamb", "muon"])
def test_with_every_optimizer_a_step_in_parts_equals_the_step_in_one(
    name: str,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
) -> None:
    ends, plan = [], replace(PLAN, optimizer=name)
    for parts in (1, 3):
        model, run = DoublePrecision(make_model()), make_run(f"in-{parts}")
        train(model, make_batches(accumulate=parts), plan, run=run, machine=machine)
        ends.append(weights_of(model))
    assert furthest(*ends) < 1e-9


@pytest.mark.parametrize("accumulate", [3, 5])
def test_a_step_in_parts_equals_the_step_in_one_in_single_precision(
    accumulate: int,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
) -> None:
    ends, logs = [], []
    for parts in (1, accumulate):
        model, run = make_model(), make_run(f"in-{parts}")
        train(model, make_batches(accumulate=parts), PLAN, run=run, machine=machine)
        ends.append(weights_of(model))
        logs.append(read_log(run.folder))
    # The keys' biases have no gradient but rounding, which the optimizer makes larger.
    assert furthest(*ends) < 2e-5
    for whole, split in zip(*logs, strict=True):
        assert split == pytest.approx(whole, rel=1e-5)


def test_weights_scale_what_is_learned_and_not_what_is_logged(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
) -> None:
    batches, found = SameStep(make_batches(), 1), {}
    for name, weights in {
        "both": {},
        "first": {"next_sentence": Ramp(0, 0)},
        "second": {"fill_mask": Ramp(0, 0)},
        "mixed": {"fill_mask": Ramp(2, 2), "next_sentence": Ramp(9, 0.5)},
    }.items():
        plan, model = replace(PLAN, steps=1, clip=1e9, weights=weights), make_model()
        gradients: dict[str, Tensor] = {}
        for parameter_name, parameter in model.named_parameters():
            note = gradients.__setitem__
            parameter.register_hook(
                lambda grad, key=parameter_name, note=note: note(key, grad.clone())
            )
        run = make_run(name)
        train(model, batches, plan, run=run, machine=machine)
        found[name] = (gradients, read_log(run.folder)[0])
    head = "heads.next_sentence.output.weight"
    assert not found["first"][0][head].any()
    first, second, mixed = (found[name][0] for name in ("first", "second", "mixed"))
    for name in found["both"][0]:
        torch.testing.assert_close(mixed[name], 2 * first[name] + 0.5 * second[name])
    losses = [(log["fill_mask"], log["next_sentence"]) for _, log in found.values()]
    assert len(set(losses)) == 1


def test_a_task_that_a_batch_does_not_ask_for_is_left_alone(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    class Alternating:
        """Ask for one task in one step and for the other in the next."""

        def at(self, step: int) -> list[Batch]:
            name = ("fill_mask", "next_sentence")[step % 2]
            parts = make_batches(accumulate=2).at(step)
            return [replace(part, targets={name: part.targets[name]}) for part in parts]

    run = make_run()
    train(make_model(), Alternating(), PLAN, run=run, machine=machine)
    asked = [{"fill_mask", "next_sentence"} & entry.keys() for entry in read_log(run.folder)]
    assert asked == [{"fill_mask"}, {"next_sentence"}] * 2 + [{"fill_mask"}]


def test_a_task_whose_targets_are_all_ignored_has_no_loss_in_the_log(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    class NothingToFollow:
        """Batches whose texts are all single, so that no sentence follows another."""

        def at(self, step: int) -> list[Batch]:
            parts = make_batches(accumulate=2).at(step)
            for part in parts:
                part.targets["next_sentence"].values.fill_(IGNORE)
            return parts

    run = make_run()
    train(make_model(), NothingToFollow(), PLAN, run=run, machine=machine)
    for entry in strict_log(run):
        assert "fill_mask" in entry
        assert "next_sentence" not in entry


def test_without_a_score_no_weights_are_the_best(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run, plan = make_run(), replace(PLAN, evaluate_every=1)
    for score, best_step in ((None, 0), (1.0, 1)):
        run = make_run(f"scored-{score}")
        at = train(
            make_model(),
            make_batches(),
            plan,
            run=run,
            machine=machine,
            evaluate=lambda step, score=score: Evaluation(score, {"loss": 1.0}),
        )
        assert at.best_step == best_step


def test_the_mean_of_the_parts_means_would_be_noticed(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
) -> None:
    whole, mistaken = DoublePrecision(make_model()), DoublePrecision(make_model())
    train(whole, SameStep(make_batches(), 1), PLAN, run=make_run("whole"), machine=machine)
    batches = SameStep(make_batches(accumulate=3), 1)
    wrapped = MeanOfMeans(mistaken, batches.parts)
    train(wrapped, batches, PLAN, run=make_run("mistaken"), machine=machine)
    assert furthest(weights_of(whole), weights_of(mistaken)) > 1e-4


def test_parts_really_have_unequal_numbers_of_targets(make_batches: MakeBatches) -> None:
    counts = [part.targets["fill_mask"].count for part in make_batches(accumulate=3).at(1)]
    assert len(set(counts)) > 1


# One step, by hand


def test_the_loop_does_what_is_written_down_step_by_step(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
) -> None:
    model, by_hand = DoublePrecision(make_model()), DoublePrecision(make_model())
    run = make_run()
    train(model, make_batches(), PLAN, run=run, machine=machine)
    optimizer = make_optimizer(by_hand, lr=PLAN.lr, weight_decay=PLAN.weight_decay)
    norms = []
    for step, rate in enumerate((0.005, 0.01, 0.0075, 0.005, 0.0025)):
        (batch,) = make_batches().at(step)
        sums = by_hand(batch)
        sum(sums[name] / batch.targets[name].count for name in sums).backward()
        norms.append(math.hypot(*(float(p.grad.norm()) for p in by_hand.parameters())))
        for parameter in by_hand.parameters():
            parameter.grad *= min(1.0, PLAN.clip / norms[-1])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    assert furthest(weights_of(model), weights_of(by_hand)) < 1e-6  # the clip has an epsilon
    assert min(norms) > PLAN.clip
    log = read_log(run.folder)
    assert [entry["gradient_norm"] for entry in log] == pytest.approx(norms, rel=1e-7)
    assert [entry["lr"] for entry in log] == pytest.approx((0.005, 0.01, 0.0075, 0.005, 0.0025))


def test_every_step_has_a_line_in_the_log(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run = make_run()
    at = train(make_model(), make_batches(), PLAN, run=run, machine=machine)
    log = strict_log(run)
    assert at.step == PLAN.steps
    assert [entry["step"] for entry in log] == [1, 2, 3, 4, 5]
    assert all(
        entry.keys() == {"step", "fill_mask", "next_sentence", "lr", "gradient_norm"}
        for entry in log
    )


def test_dropout_depends_on_the_seed_and_on_nothing_else(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    ends = []
    for number, seed in enumerate((3, 3, 4)):
        torch.manual_seed(number)  # whatever came before in this process
        model = make_model(dropout=0.3)
        plan = replace(PLAN, seed=seed)
        train(model, make_batches(), plan, run=make_run(str(number)), machine=machine)
        ends.append(weights_of(model))
    assert same_bits(ends[0], ends[1])
    assert not same_bits(ends[0], ends[2])


def test_every_part_of_every_step_draws_its_own_dropout(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    drawn = []
    for name, seed in (("first", 3), ("second", 3), ("other", 4)):
        model = Drawing(make_model())
        plan = replace(PLAN, seed=seed)
        train(model, make_batches(accumulate=3), plan, run=make_run(name), machine=machine)
        drawn.append(model.drawn)
    assert len(set(drawn[0])) == 3 * PLAN.steps
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])


def test_a_batch_is_on_the_device_before_the_losses_of_the_step_before_are_read(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    """A copy that is asked for after it would wait for the optimizer, and keep a GPU waiting."""
    told: list[str] = []

    class Telling(Batch):
        def to(self, device: torch.device) -> Batch:
            told.append("moved")
            return super().to(device)

    class TellingBatches:
        def at(self, step: int) -> list[Batch]:
            return [Telling(**vars(part)) for part in make_batches().at(step)]

    class TellingModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_model()

        def forward(self, batch: Batch) -> Weights:
            told.append("learned")
            return self.model(batch)

    tolist = torch.Tensor.tolist

    def reading(tensor: Tensor) -> Any:
        if tensor.dtype == torch.float64:  # as only losses are here
            told.append("read")
        return tolist(tensor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "tolist", reading)
        plan = replace(PLAN, steps=3)
        train(TellingModel(), TellingBatches(), plan, run=make_run(), machine=machine)
    step = ["learned", "moved", "read"]
    assert told == ["moved", *step, *step, "learned", "read"]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_number_of_workers_changes_no_bit(
    accumulate: int,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    ends = []
    for workers in (0, 2):
        model, run = make_model(dropout=0.3), make_run(f"with-{workers}")
        plan = replace(PLAN, workers=workers)
        train(model, make_batches(accumulate=accumulate), plan, run=run, machine=machine)
        ends.append((weights_of(model), run.log.read_bytes()))
    assert same_bits(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


def test_the_workers_end_with_the_training_even_when_it_fails(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    model = Poisoned(make_model(), dict.fromkeys(range(1, 9), math.nan), where="loss")
    plan = replace(PLAN, steps=50, workers=2)
    with pytest.raises(TrainingError) as raised:
        train(model, make_batches(), plan, run=make_run(), machine=machine)
    assert raised.value.__traceback__ is not None  # which holds all that the loop held
    assert multiprocessing.active_children() == []


# Numbers that are none


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_step_that_is_not_finite_changes_neither_weights_nor_momentum(
    poison: float,
    where: str,
    parts: int,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    same_bits: SameBits,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = make_run()
    model = Poisoned(make_model(), {3: poison}, where=where, parts=parts)
    kept: dict[int, tuple[Weights, Weights]] = {}

    def keep(step: int) -> Evaluation:
        newest = whole_checkpoints(run.folder)[-1:]
        for path in newest:  # the checkpoint of the step before
            tensors = (
                read_tensors(path / f"{name}.safetensors") for name in ("model", "optimizer")
            )
            kept[int(path.name[5:])] = tuple(tensors)
        return Evaluation(0.0, {})

    plan = replace(PLAN, checkpoint_every=1, evaluate_every=1)
    batches = make_batches(accumulate=parts)
    train(model, batches, plan, run=run, machine=machine, evaluate=keep)
    for before, after, is_same in ((1, 2, False), (2, 3, True), (3, 4, False)):
        assert same_bits(kept[before][0], kept[after][0]) is is_same
        assert same_bits(kept[before][1], kept[after][1]) is is_same
    steps = [entry for entry in strict_log(run) if "lr" in entry]
    assert [entry["step"] for entry in steps if "skipped" in entry] == [3]
    assert steps[2]["skipped"] == [i for part in batches.at(2) for i in part.ids]
    field = "next_sentence" if where == "loss" else "gradient_norm"
    assert steps[2][field] in (str(poison), str(abs(poison)))
    assert capsys.readouterr().err.count("warning: step 3 is skipped") == 1


class Leaping(nn.Module):
    """A model whose loss is many times itself at chosen steps, though finite."""

    def __init__(self, model: nn.Module, steps: Collection[int]) -> None:
        super().__init__()
        self.model, self.steps, self.num_calls = model, steps, 0

    def forward(self, batch: Batch) -> Weights:
        self.num_calls += 1
        losses = self.model(batch)
        factor = 50.0 if self.num_calls in self.steps else 1.0
        return {name: loss * factor for name, loss in losses.items()}


@pytest.fixture
def moving_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU do as a GPU does: move before anybody knows what a step measured."""

    def descend(model: nn.Module, plan: TrainingPlan, *, moves_first: bool, **how: Any) -> Descent:
        assert not moves_first
        return Descent(model, plan, moves_first=True, **how)

    monkeypatch.setattr(loop, "Descent", descend)


def bits_of(run: Run) -> dict[str, bytes]:
    """Return the log, and the newest checkpoint but for the times in it."""
    newest = whole_checkpoints(run.folder)[-1]
    return {path.name: path.read_bytes() for path in (run.log, *newest.glob("*.safetensors"))}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(
    "bad",
    [
        lambda model: model,
        lambda model: Poisoned(model, {3: math.nan, 26: math.inf}, where="gradient"),
        lambda model: Poisoned(model, {2: math.inf, 5: -math.inf}, where="loss"),
        lambda model: Leaping(model, {23, 27}),
        lambda model: Leaping(model, range(73, 79)),
    ],
    ids=["never", "gradient", "loss", "spikes", "rollback"],
)
def test_who_moves_before_the_losses_are_known_ends_in_the_same_bits(
    bad: Callable[[nn.Module], nn.Module],
    optimizer: Any,
    request: pytest.FixtureRequest,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
) -> None:
    plan = replace(PLAN, steps=90, optimizer=optimizer, spike=5.0, checkpoint_every=10)
    runs = [make_run("asking"), make_run("moving")]
    train(bad(make_model(dropout=0.1)), make_batches(), plan, run=runs[0], machine=machine)
    request.getfixturevalue("moving_first")
    train(bad(make_model(dropout=0.1)), make_batches(), plan, run=runs[1], machine=machine)
    asked, moved = map(bits_of, runs)
    assert asked == moved
    is_bad = any("skipped" in entry for entry in read_log(runs[1].folder))
    assert is_bad is ("never" not in request.node.callspec.id)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_with_every_optimizer_a_bad_step_leaves_all_that_is_remembered(
    kind: dict[str, Any],
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    same_bits: SameBits,
) -> None:
    run, plan = make_run(), replace(PLAN, steps=4, checkpoint_every=1, **kind)
    model = Poisoned(make_model(), {3: math.nan}, where="gradient")
    kept: dict[int, Weights] = {}

    def keep(step: int) -> Evaluation:
        for path in whole_checkpoints(run.folder)[-1:]:  # the checkpoint of the step before
            files = (read_tensors(file) for file in path.glob("*.safetensors"))
            tensors = {name: t for file in files for name, t in file.items() if name != "count"}
            kept[step - 1] = tensors
        return Evaluation(0.0, {})

    train(
        model,
        make_batches(),
        replace(plan, evaluate_every=1),
        run=run,
        machine=machine,
        evaluate=keep,
    )
    assert same_bits(kept[2], kept[3])
    assert not same_bits(kept[1], kept[2])


def test_without_poison_the_same_step_moves_the_weights(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    seen: list[Weights] = []
    model = Poisoned(make_model(), {}, where="loss")
    plan = replace(PLAN, evaluate_every=1)

    def look(step: int) -> Evaluation:
        seen.append(weights_of(model))
        return Evaluation(float(len(seen)), {})

    train(model, make_batches(), plan, run=make_run(), machine=machine, evaluate=look)
    assert not any(same_bits(a, b) for a, b in pairwise(seen))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_bad_weight_stops_the_run_and_spreads_no_further(
    poison: float,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    model = Poisoned(make_model(), {2: poison}, where="weight")
    seen: list[Weights] = []

    def look(step: int) -> Evaluation:
        seen.append(weights_of(model))
        return Evaluation(0.0, {})

    plan = replace(PLAN, steps=50, evaluate_every=1)
    with pytest.raises(TrainingError, match="4 steps in a row up to 5"):
        train(model, make_batches(), plan, run=make_run(), machine=machine, evaluate=look)
    end = weights_of(model)
    assert all(same_bits(end, weights) for weights in seen[1:])
    num_bad = {name: int((~weight.isfinite()).sum()) for name, weight in end.items()}
    assert sum(num_bad.values()) == 1


def test_a_few_bad_steps_in_a_row_stop_the_run_and_name_the_examples(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
) -> None:
    bad = dict.fromkeys(range(3, 40), math.nan)
    run = make_run()
    plan = replace(PLAN, steps=50)
    model = Poisoned(make_model(), bad, where="loss")
    with pytest.raises(TrainingError) as raised:
        train(model, make_batches(), plan, run=run, machine=machine)
    last = 2 + MOST_BAD_IN_A_ROW + 1
    assert raised.value.exit_code == 1
    ids = make_batches().at(last - 1)[0].ids
    assert f"up to {last}" in str(raised.value)
    assert ", ".join(map(str, ids[:5])) in str(raised.value)
    assert [entry["step"] for entry in strict_log(run) if "skipped" in entry] == [3, 4, 5, 6]


def test_a_good_step_forgives_the_bad_ones_before_it(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    bad = dict.fromkeys((1, 2, 3, 5, 6, 7, 9), math.nan)
    model = Poisoned(make_model(), bad, where="gradient")
    plan = replace(PLAN, steps=9)
    at = train(model, make_batches(), plan, run=make_run(), machine=machine)
    assert (at.step, at.health.bad_in_a_row, at.health.num_skipped) == (9, 1, 7)


def test_bad_steps_are_counted_across_a_stop(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    plan = replace(PLAN, steps=9, checkpoint_every=1)
    bad = dict.fromkeys(range(1, 10), math.nan)
    with pytest.raises(CrashError):
        train(
            Poisoned(make_model(), bad, where="loss"),
            CrashingBatches(make_batches(), before=2),
            plan,
            run=make_run(),
            machine=machine,
        )
    model = Poisoned(make_model(), bad, where="loss")
    with pytest.raises(TrainingError, match="up to 4 "):
        train(model, make_batches(), plan, run=make_run(resume=True), machine=machine)


# Evaluation and the best weights


def scores(*values: float) -> Callable[[int], Evaluation]:
    left = iter(values)

    def evaluate(step: int) -> Evaluation:
        score = next(left)
        return Evaluation(score, {"accuracy": score})

    return evaluate


def test_the_best_weights_are_kept_and_come_back_at_the_end(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    seen: list[Weights] = []
    model, given = make_model(), scores(0.2, 0.7, 0.7, 0.5, 0.6)

    def evaluate(step: int) -> Evaluation:
        seen.append(weights_of(model))
        return given(step)

    plan = replace(PLAN, evaluate_every=1)
    at = train(model, make_batches(), plan, run=make_run(), machine=machine, evaluate=evaluate)
    assert (at.best_step, at.best_score) == (2, 0.7)
    assert same_bits(weights_of(model), seen[1])
    assert not same_bits(weights_of(model), seen[4])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_without_a_gain_ends_early_with_its_best_weights_and_a_checkpoint(
    workers: int, make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun,
    machine: Machine, weights_of: WeightsOf, same_bits: SameBits,
) -> None:  # fmt: skip
    plan = replace(PLAN, evaluate_every=1, patience=2, checkpoint_every=99, workers=workers)
    model, run = make_model(), make_run()
    given = scores(0.2, 0.7, 0.7, 0.5)
    at = train(model, make_batches(), plan, run=run, machine=machine, evaluate=given)
    assert (at.step, at.best_step) == (4, 2)
    assert [path.name for path in whole_checkpoints(run.folder)] == ["step-00000004"]
    again = make_model(seed=9)
    resumed = make_run(resume=True)
    assert train(again, make_batches(), plan, run=resumed, machine=machine, evaluate=scores()) == at
    assert same_bits(weights_of(again), weights_of(model))


def test_a_score_that_is_no_number_is_never_the_best(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run = make_run()
    at = train(
        make_model(),
        make_batches(),
        replace(PLAN, evaluate_every=1),
        run=run,
        machine=machine,
        evaluate=scores(math.nan, 0.4, math.nan, 0.3, math.nan),
    )
    assert (at.best_step, at.best_score) == (2, 0.4)
    shown = [entry["evaluation"] for entry in strict_log(run) if "evaluation" in entry]
    assert [metrics["accuracy"] for metrics in shown] == ["nan", 0.4, "nan", 0.3, "nan"]


def test_on_a_cpu_memory_is_kept_while_steps_go_on_and_no_longer(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    seen = []

    def look(step: int) -> Evaluation:
        seen.append(bool(_keepers))
        return Evaluation(0.0, {})

    plan = replace(PLAN, evaluate_every=2)
    train(make_model(), make_batches(), plan, run=make_run(), machine=machine, evaluate=look)
    assert seen == [True] * 3
    assert not _keepers


def test_evaluations_come_when_due_and_after_the_last_step(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run = make_run()
    plan = replace(PLAN, evaluate_every=2)
    given = scores(0.1, 0.2, 0.3)
    train(make_model(), make_batches(), plan, run=run, machine=machine, evaluate=given)
    log = strict_log(run)
    assert [entry["step"] for entry in log if "evaluation" in entry] == [2, 4, 5]
    assert [entry["step"] for entry in log] == [1, 2, 2, 3, 4, 4, 5, 5]


def test_without_evaluation_the_last_weights_stay(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run = make_run()
    at = train(make_model(), make_batches(), PLAN, run=run, machine=machine)
    assert at.best_step == 0
    assert not (run.folder / "best").exists()


# Stopping and going on


def final_state(run: Run) -> tuple[bytes, ...]:
    last = whole_checkpoints(run.folder)[-1]
    files = (last / "model.safetensors", last / "optimizer.safetensors", last / "counters.json")
    averages = sorted(last.glob("average.safetensors"))
    return (*(file.read_bytes() for file in (*files, run.log, *averages)),)


@settings(max_examples=10)
@given(data=st.data())
def test_a_run_that_was_stopped_anywhere_ends_in_the_same_bits(
    data: st.DataObject,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    plan = replace(
        PLAN,
        steps=7,
        checkpoint_every=data.draw(st.integers(1, 4), "checkpoint_every"),
        evaluate_every=data.draw(st.sampled_from((0, 2, 3)), "evaluate_every"),
    )
    accumulate = data.draw(st.sampled_from((1, 3)), "accumulate")
    dropout = data.draw(st.sampled_from((0.0, 0.3)), "dropout")
    kind = data.draw(st.sampled_from(KINDS), "kind")
    plan = replace(plan, **kind)
    stops = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3), "stops")
    place = tmp_path_factory.mktemp("runs")

    def go(name: str, crash: int | None) -> Run:
        model = make_model(dropout=dropout)
        batches = make_batches(accumulate=accumulate)
        run = make_run(str(place / name), resume=True)

        def evaluate(step: int) -> Evaluation:
            score = float(model.encoder.pooler.dense.weight.sum().detach())
            return Evaluation(score, {"sum": score})

        chosen = batches if crash is None else CrashingBatches(batches, before=crash)
        train(model, chosen, plan, run=run, machine=machine, evaluate=evaluate)
        return run

    whole = final_state(go("whole", None))
    for stop in stops:
        try:
            go("stopped", stop)
        except CrashError:
            continue
        break  # the checkpoint already lies behind the stop, and the run came to its end
    assert final_state(go("stopped", None)) == whole


def test_a_resume_that_forgets_the_seed_of_dropout_would_be_noticed(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    plan = replace(PLAN, steps=7, checkpoint_every=2)

    def stop_and_go_on(name: str, seed: int) -> tuple[bytes, ...]:
        batches = CrashingBatches(make_batches(), before=5)
        with pytest.raises(CrashError):
            train(make_model(dropout=0.3), batches, plan, run=make_run(name), machine=machine)
        run = make_run(name, resume=True)
        other = replace(plan, seed=seed)
        train(make_model(dropout=0.3), make_batches(), other, run=run, machine=machine)
        return final_state(run)

    same, forgetful = stop_and_go_on("same", PLAN.seed), stop_and_go_on("other", PLAN.seed + 1)
    assert same[3].count(b"\n") == forgetful[3].count(b"\n")  # as many steps
    assert all(a != b for a, b in zip(same[:2], forgetful[:2], strict=True))


@pytest.mark.usefixtures("hears_signals")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
@pytest.mark.parametrize("during", [0, 3])
def test_a_signal_ends_the_run_after_the_step_at_hand_and_nothing_is_lost(
    number: int,
    code: int,
    during: int,
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
) -> None:
    plan = replace(PLAN, steps=7, checkpoint_every=100)
    whole = make_run("whole")
    train(make_model(dropout=0.3), make_batches(), plan, run=whole, machine=machine)
    run = make_run("signalled")
    before = signal.getsignal(number)
    batches = make_batches()
    model = signalling(make_model(dropout=0.3), batches.at(during)[0], number)
    with pytest.raises(InterruptedRunError, match=f"after step {during + 1};") as raised:
        train(model, batches, plan, run=run, machine=machine)
    assert raised.value.exit_code == code
    assert signal.getsignal(number) is before
    assert [path.name for path in whole_checkpoints(run.folder)] == [f"step-{during + 1:08d}"]
    again = make_run("signalled", resume=True)
    train(make_model(dropout=0.3), make_batches(), plan, run=again, machine=machine)
    assert final_state(again) == final_state(whole)


def test_a_signal_during_the_last_step_lets_the_run_end_well(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    run = make_run()
    batches = make_batches()
    model = signalling(make_model(), batches.at(PLAN.steps - 1)[0], signal.SIGTERM)
    at = train(model, batches, PLAN, run=run, machine=machine)
    assert at.step == PLAN.steps
    assert len(whole_checkpoints(run.folder)) == 1


def test_a_signal_while_the_last_checkpoint_is_written_lets_the_run_end_well(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait, heard = Saver.wait, []

    def interrupted(saver: Saver) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait(saver)

    monkeypatch.setattr(Saver, "wait", interrupted)
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        plan = replace(PLAN, checkpoint_every=2)
        at = train(make_model(), make_batches(), plan, run=make_run(), machine=machine)
        assert (at.step, heard) == (PLAN.steps, [])
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]  # afterwards a signal is heard again
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_finished_training_is_not_trained_again(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    plan = replace(PLAN, checkpoint_every=2)
    run = make_run()
    train(make_model(), make_batches(), plan, run=run, machine=machine)
    before = final_state(run)
    again = make_run(resume=True)
    never = CrashingBatches(make_batches(), before=PLAN.steps)
    at = train(make_model(seed=9), never, plan, run=again, machine=machine)
    assert at.step == PLAN.steps
    assert final_state(again) == before


def test_the_best_weights_survive_a_stop(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, checkpoint_every=2, evaluate_every=1)
    whole, stopped = make_model(), make_model()
    train(
        whole,
        make_batches(),
        plan,
        run=make_run("whole"),
        machine=machine,
        evaluate=scores(0.1, 0.9, 0.2, 0.3, 0.4),
    )
    with pytest.raises(CrashError):
        train(
            make_model(),
            CrashingBatches(make_batches(), before=3),
            plan,
            run=make_run("stopped"),
            machine=machine,
            evaluate=scores(0.1, 0.9, 0.2),
        )
    at = train(
        stopped,
        make_batches(),
        plan,
        run=make_run("stopped", resume=True),
        machine=machine,
        evaluate=scores(0.2, 0.3, 0.4),
    )
    assert at.best_step == 2
    assert same_bits(weights_of(whole), weights_of(stopped))
    place = Path("best", "step-00000002", "model.safetensors")
    files = [tmp_path / name / place for name in ("whole", "stopped")]
    assert files[0].read_bytes() == files[1].read_bytes()


# Averages


def test_the_average_is_evaluated_and_kept_while_the_weights_go_their_way(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    seen: list[Weights] = []
    model, plain = make_model(), make_model()

    def evaluate(step: int) -> Evaluation:
        seen.append(weights_of(model))
        return Evaluation(float(step), {})

    plan = replace(PLAN, checkpoint_every=1, evaluate_every=5, average=0.5)
    run, other = make_run("averaged"), make_run("plain")
    train(model, make_batches(), plan, run=run, machine=machine, evaluate=evaluate)
    train(plain, make_batches(), replace(plan, average=0.0), run=other, machine=machine)
    raw = whole_checkpoints(run.folder)[-1] / "model.safetensors"
    assert same_bits(read_tensors(raw), weights_of(plain))
    assert same_bits(weights_of(model), seen[-1])
    assert not same_bits(weights_of(model), weights_of(plain))
    mean = read_tensors(raw.with_name("average.safetensors"))
    assert same_bits(seen[-1], {name: mean[name] for name in seen[-1]})


def test_without_evaluations_a_run_ends_with_its_average(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    weights_of: WeightsOf,
    same_bits: SameBits,
) -> None:
    model, run = make_model(), make_run()
    plan = replace(PLAN, checkpoint_every=5, average=0.5)
    train(model, make_batches(), plan, run=run, machine=machine)
    mean = read_tensors(whole_checkpoints(run.folder)[-1] / "average.safetensors")
    assert same_bits(weights_of(model), {name: mean[name] for name in weights_of(model)})


# Time


class SlowBatches:
    """Batches that take time by a clock that goes only with them."""

    def __init__(self, batches: Batches, *, seconds: float) -> None:
        self.batches, self.seconds, self.now = batches, seconds, 0.0

    def clock(self) -> float:
        return self.now

    def at(self, step: int) -> list[Batch]:
        self.now += self.seconds
        return self.batches.at(step)


def test_a_run_with_a_budget_ends_in_time_with_its_rate_come_down(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    batches, run, times = SlowBatches(make_batches(), seconds=1.0), make_run(), []

    def evaluate(step: int) -> Evaluation:
        batches.now += 2.0
        times.append((step, batches.now))
        return Evaluation(0.0, {})

    budget = Budget(seconds=40.0, clock=batches.clock)
    plan = replace(
        PLAN,
        steps=None,
        budget=budget,
        schedule=Schedule(name="cosine", warmup=4.0),
        evaluate_every=5,
        checkpoint_every=10,
    )
    at = train(make_model(), batches, plan, run=run, machine=machine, evaluate=evaluate)
    log = [entry for entry in strict_log(run) if "lr" in entry]
    assert at.step == len(log) == times[-1][0]
    assert 33 < batches.now <= 40 - 2.0  # the stage evaluates once more
    rates = [entry["lr"] for entry in log]
    assert max(rates) > 0.95 * PLAN.lr
    assert rates[-1] < 0.05 * PLAN.lr
    last = whole_checkpoints(run.folder)[-1]
    assert last.name == f"step-{at.step:08d}"
    assert json.loads((last / "time.json").read_text())["seconds"] == times[-1][1]


def test_a_run_with_a_budget_goes_on_with_what_is_left(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    def go(name: str, crash: int | None) -> int:
        inner = make_batches() if crash is None else CrashingBatches(make_batches(), before=crash)
        batches = SlowBatches(inner, seconds=1.0)
        budget = Budget(seconds=30.0, clock=batches.clock)
        plan = replace(PLAN, steps=None, budget=budget, schedule=Schedule(), checkpoint_every=4)
        run = make_run(name, resume=True)
        return train(make_model(), batches, plan, run=run, machine=machine).step

    whole = go("whole", None)
    with pytest.raises(CrashError):
        go("stopped", 14)
    # The steps since the last checkpoint are done again: their time is not on its record.
    assert go("stopped", None) == pytest.approx(whole, abs=1)
    assert go("stopped", None) == go("stopped", None)  # nothing is left


def test_a_run_by_steps_knows_what_it_took_in_all_its_processes(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    plan = replace(PLAN, checkpoint_every=1)
    crashing = CrashingBatches(make_batches(), before=2)
    with pytest.raises(CrashError):
        train(make_model(), crashing, plan, run=make_run(), machine=machine)
    run, model = make_run(resume=True), make_model()
    descent = Descent(model, plan)
    at = descent.restore(run)
    assert 0 < at.spent.seconds < 60
    run.write(descent.state(), replace(at, step=2, spent=Spent(1000.0)))
    at = train(make_model(), make_batches(), plan, run=make_run(resume=True), machine=machine)
    assert 1000 < at.spent.seconds < 1060


def test_workers_make_batches_for_as_long_as_the_budget_lasts(
    make_model: MakeModel, make_batches: MakeBatches, make_run: MakeRun, machine: Machine
) -> None:
    ticks = iter(range(10_000))
    budget = Budget(seconds=60.0, clock=lambda: float(next(ticks)))
    plan = replace(PLAN, steps=None, budget=budget, schedule=Schedule(), workers=2)
    at = train(make_model(), make_batches(), plan, run=make_run(), machine=machine)
    assert 3 < at.step < 60
    assert multiprocessing.active_children() == []


def test_nested_training_shows_nothing_and_leaves_signals_alone(
    make_model: MakeModel,
    make_batches: MakeBatches,
    make_run: MakeRun,
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        batches = make_batches()
        model = signalling(make_model(), batches.at(2)[0], signal.SIGTERM)
        plan = replace(PLAN, is_nested=True)
        at = train(model, batches, plan, run=make_run(), machine=machine)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (at.step, received) == (PLAN.steps, [signal.SIGTERM])
    assert capsys.readouterr().err == ""
