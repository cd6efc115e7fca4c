"""Numbers that are none and losses that leap: nothing is learned from them, and all of it shows."""

import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import TrainingError
from bertworks.core.seeds import random_at
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training import loop
from bertworks.training.health import GOOD, NUM_SUSPECTS
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.run import Run, whole_checkpoints
from bertworks.training.schedule import Schedule

MACHINE = Machine(torch.device("cpu"), "fp32")
VOCAB_SIZE = 29
PLAN = TrainingPlan(
    steps=9,
    lr=0.01,
    schedule=Schedule(name="constant"),
    weight_decay=0.0,
    checkpoint_every=1,
    seed=3,
)
Weights = dict[str, Tensor]
Counted = Callable[..., None]


class Puzzles:
    """Texts whose every second piece asks for its partner, which is soon learned."""

    def at(self, step: int) -> list[Batch]:
        draw = random_at(5, "text", step)
        return [flatten([self._text(draw, 10 * step + number) for number in range(7)])]

    def _text(self, draw: np.random.Generator, example: int) -> Features:
        tokens = draw.integers(5, VOCAB_SIZE, size=int(draw.integers(4, 10)))
        places = np.arange(0, len(tokens), 2)
        partners = 5 + (7 * tokens[places]) % (VOCAB_SIZE - 5)
        return Features(tokens, tokens * 0, {"fill_mask": Goal(partners, places)}, example)


class Changed:
    """Batches of which some are changed, and all are counted; a crash may end the counting."""

    def __init__(
        self, change: Callable[[list[Batch], int], list[Batch]], *, crash_at: int = 0
    ) -> None:
        self.puzzles, self.change, self.crash_at = Puzzles(), change, crash_at
        self.num_drawn = 0

    def at(self, step: int) -> list[Batch]:
        self.num_drawn += 1
        if self.num_drawn == self.crash_at:
            raise CrashError
        return self.change(self.puzzles.at(step), step + 1)


class Chosen:
    """The batches of some steps only, one after the other."""

    def __init__(self, batches: Any, steps: list[int]) -> None:
        self.batches, self.steps = batches, steps

    def at(self, step: int) -> list[Batch]:
        return self.batches.at(self.steps[step] - 1)


class CrashError(Exception):
    """Stands for whatever ends a run without warning: all but the disk is lost."""


class Poisoned(nn.Module):
    """A model that goes bad at chosen steps: in its loss, in one gradient, or in one weight."""

    def __init__(self, model: nn.Module, steps: dict[int, float], where: str) -> None:
        super().__init__()
        self.model, self.steps, self.where = model, steps, where
        self.num_calls = 0
        self.victim = next(model.parameters())
        self.victim.register_hook(self._touch_gradient)

    def forward(self, batch: Batch) -> Weights:
        self.num_calls += 1
        poison = self.steps.get(self.num_calls)
        if poison is not None and self.where == "weight":
            with torch.no_grad():
                self.victim.view(-1)[int(batch.tokens[0])] = poison
        losses = self.model(batch)
        if poison is not None and self.where == "loss":
            losses = {name: loss + poison for name, loss in losses.items()}
        return losses

    def _touch_gradient(self, gradient: Tensor) -> Tensor:
        poison = self.steps.get(self.num_calls)
        if poison is None or self.where != "gradient":
            return gradient
        touched = gradient.clone()
        touched.view(-1)[-1] = poison
        return touched


def make_model() -> TaskModel:
    config = EncoderConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=24,
        num_layers=1,
        num_heads=3,
        feed_forward_size=31,
        max_positions=11,
    ).with_dropout(0.0)
    return TaskModel(config, [make_task("fill_mask")], seed=4, deviation=0.1)


def open_run(folder: Path) -> Run:
    return Run(folder, origin=Origin(), resume=True)


def bits_of(model: nn.Module) -> dict[str, bytes]:
    return {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}


def state_at(folder: Path, step: int) -> tuple[bytes, ...]:
    """Return the weights and the memory of the optimizer after a step."""
    path = folder / "checkpoints" / f"step-{step:08d}"
    return tuple((path / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer"))


# Numbers that are none


def updates_of(folder: Path, model: nn.Module, plan: TrainingPlan = PLAN) -> dict[int, bool]:
    """Train with a checkpoint after each step; tell which steps changed a weight or a memory."""
    states: dict[int, tuple[bytes, ...]] = {}

    def keep(step: int) -> Evaluation:
        for path in whole_checkpoints(folder):
            states.setdefault(int(path.name[5:]), state_at(folder, int(path.name[5:])))
        return Evaluation(None, {})

    with suppress(TrainingError):
        train(
            model,
            Puzzles(),
            replace(plan, evaluate_every=1),
            run=open_run(folder),
            machine=MACHINE,
            evaluate=keep,
        )
    keep(0)
    steps = sorted(states)[1:]
    return {step: states[step] != states[step - 1] for step in steps}


@pytest.mark.shows("N1")
@pytest.mark.parametrize("where", ["loss", "gradient", "weight"])
@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_nothing_is_learned_from_a_step_that_is_not_finite(
    where: str, poison: float, counted: Counted, tmp_path: Path
) -> None:
    chance = random.Random(f"{where} {poison}")
    bad = sorted(chance.sample(range(3, 10), 2))
    steps = dict.fromkeys(bad[:1] if where == "weight" else bad, poison)
    model = Poisoned(make_model(), steps, where)
    updates = updates_of(tmp_path / "run", model)
    log = {entry["step"]: entry for entry in read_log(tmp_path / "run") if "lr" in entry}
    if where == "weight":  # it stays bad, and nothing more is learned
        bad = [step for step in log if step >= bad[0]]
        assert bits_differ_in_one_weight(model, poison)
        updates = {step: updates[step] for step in updates if step != bad[0]}
    assert [step for step in updates if not updates[step]] == [s for s in bad if s in updates]
    for step in bad:
        assert log[step]["skipped"] == list(Puzzles().at(step - 1)[0].ids)
    assert all("skipped" not in log[step] for step in log if step not in bad)
    counted(poisoned_steps=len(bad), updates_from_them=sum(updates.get(step, 0) for step in bad))


def bits_differ_in_one_weight(model: nn.Module, poison: float) -> bool:
    """Tell whether the poison is where it was put, and nowhere else."""
    num_bad = sum(int((~p.detach().isfinite()).sum()) for p in model.parameters())
    return num_bad == 1


@pytest.mark.shows("N1")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (range(3, 40), "4 steps in a row up to 6 had a loss or gradient that is not finite"),
        (range(2, 60, 2), "11 of 22 steps were skipped"),
    ],
    ids=["in a row", "in all"],
)
def test_too_many_of_them_stop_the_run_and_name_the_examples(
    bad: range, reason: str, tmp_path: Path
) -> None:
    model = Poisoned(make_model(), dict.fromkeys(bad, math.nan), "loss")
    plan = replace(PLAN, steps=60, checkpoint_every=0)
    with pytest.raises(TrainingError) as raised:
        train(model, Puzzles(), plan, run=open_run(tmp_path / "run"), machine=MACHINE)
    assert raised.value.exit_code == 1
    assert str(raised.value).startswith(reason)
    last = read_log(tmp_path / "run")[-1]
    assert ", ".join(map(str, last["skipped"][:5])) in str(raised.value)


@pytest.mark.control("N1")
def test_a_loop_that_updates_all_the_same_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", lambda health, *args, **rest: (GOOD, health))
    model = Poisoned(make_model(), {4: math.nan}, "gradient")
    updates = updates_of(tmp_path / "run", model)
    assert updates[4]
    assert not all(p.detach().isfinite().all() for p in model.parameters())


# Spikes

LONG = replace(PLAN, steps=150, checkpoint_every=10, spike=3.0)
SHUFFLED = range(101, 106)


def shuffle_labels(parts: list[Batch], step: int) -> list[Batch]:
    """Give the texts of some steps each other's answers."""
    if step not in SHUFFLED:
        return parts
    (batch,) = parts
    target = batch.targets["fill_mask"]
    other = replace(target, values=target.values.roll(3))
    return [replace(batch, targets={"fill_mask": other})]


def loss_of(model: nn.Module) -> float:
    """Return the mean loss on texts that no step has."""
    batches = [Puzzles().at(step)[0] for step in range(10_000, 10_020)]
    with torch.no_grad():
        sums = [float(model(batch)["fill_mask"]) for batch in batches]
    return sum(sums) / sum(batch.targets["fill_mask"].count for batch in batches)


def is_recovered(loss: float, clean: float) -> bool:
    return abs(loss - clean) <= 0.01 * clean


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    """Train on the good steps alone."""
    good = [step for step in range(1, 151) if step not in SHUFFLED]
    model, run = make_model(), open_run(tmp_path_factory.mktemp("clean") / "run")
    plan = replace(LONG, steps=len(good))
    train(model, Chosen(Puzzles(), good), plan, run=run, machine=MACHINE)
    return model


@pytest.mark.shows("N2")
def test_shuffled_labels_are_left_out_and_the_loss_is_that_of_a_clean_run(
    clean: TaskModel, counted: Counted, tmp_path: Path
) -> None:
    model, run = make_model(), open_run(tmp_path / "run")
    at = train(model, Changed(shuffle_labels), LONG, run=run, machine=MACHINE)
    skipped = [entry for entry in read_log(run.folder) if "skipped" in entry]
    assert [entry["step"] for entry in skipped] == list(SHUFFLED)
    assert all("fill_mask loss is" in entry["reason"] for entry in skipped)
    assert at.health.num_skipped == len(SHUFFLED)
    assert is_recovered(loss_of(model), loss_of(clean))
    assert bits_of(model) == bits_of(clean)
    counted(shuffled_batches=len(SHUFFLED))


@pytest.mark.control("N2")
def test_a_run_that_learns_from_every_loss_would_be_noticed(
    clean: TaskModel, tmp_path: Path
) -> None:
    model, run = make_model(), open_run(tmp_path / "run")
    plan = replace(LONG, spike=0.0)
    train(model, Changed(shuffle_labels), plan, run=run, machine=MACHINE)
    assert not is_recovered(loss_of(model), loss_of(clean))


class Derailing(nn.Module):
    """A model that some batches teach the contrary, which their own loss does not tell."""

    def __init__(self, steps: range) -> None:
        super().__init__()
        self.model, self.steps = make_model(), steps

    def forward(self, batch: Batch) -> Weights:
        losses = self.model(batch)
        if batch.ids[0] // 10 + 1 in self.steps:
            loss = losses["fill_mask"]
            losses = {"fill_mask": loss.detach() + 1e4 * (loss.detach() - loss)}
        return losses


DERAILED = range(96, 116)


def derail(folder: Path, *, crash_at: int = 0) -> tuple[Derailing, Run]:
    """Train through batches that ruin the weights, perhaps to a crash."""
    model, run = Derailing(DERAILED), open_run(folder)
    batches = Changed(lambda parts, step: parts, crash_at=crash_at)
    train(model, batches, replace(LONG, steps=180), run=run, machine=MACHINE)
    return model, run


@pytest.fixture(scope="module")
def derailed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], bytes, int]:
    """Return weights and log of a run that was derailed and went back, and its rollbacks."""
    model, run = derail(tmp_path_factory.mktemp("derailed") / "run")
    health = json.loads((whole_checkpoints(run.folder)[-1] / "counters.json").read_text())["health"]
    return bits_of(model), run.log.read_bytes(), len(health["rollbacks"])


@pytest.mark.shows("N2")
def test_when_the_weights_are_at_fault_the_run_goes_back_and_leaves_out_what_ruined_them(
    derailed: tuple[dict[str, bytes], bytes, int], counted: Counted, tmp_path: Path
) -> None:
    bits, log, num_rollbacks = derailed
    entries = [json.loads(line) for line in log.splitlines()]
    assert [entry["step"] for entry in entries] == list(range(1, 181))
    left_out = [entry["step"] for entry in entries if "skipped" in entry]
    assert num_rollbacks >= 1
    reasons = {entry["reason"] for entry in entries if "skipped" in entry}
    assert all(reason.startswith("rolled back, for at step ") for reason in reasons)
    assert len(left_out) > NUM_SUSPECTS
    assert set(DERAILED) & set(left_out)
    good = [step for step in range(1, 181) if step not in left_out]
    model, run = Derailing(DERAILED), open_run(tmp_path / "run")
    plan = replace(LONG, steps=len(good), spike=0.0)
    train(model, Chosen(Puzzles(), good), plan, run=run, machine=MACHINE)
    assert bits_of(model) == bits
    counted(rollbacks=num_rollbacks)


@pytest.mark.shows("N2")
@pytest.mark.parametrize(
    "crash_at",
    [
        *(108, 170),
        *(pytest.param(n, marks=pytest.mark.slow) for n in (95, 104, 130, 200, 230, 270)),
    ],
)
def test_a_run_that_dies_before_in_or_after_a_rollback_ends_in_the_same_bits(
    crash_at: int,
    derailed: tuple[dict[str, bytes], bytes, int],
    counted: Counted,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(CrashError):
        derail(folder, crash_at=crash_at)
    model, run = derail(folder)
    assert (bits_of(model), run.log.read_bytes()) == derailed[:2]
    counted(kills=1)


@pytest.mark.shows("N2")
@pytest.mark.parametrize("num_removed", [1, 2])
def test_a_run_that_dies_while_it_goes_back_ends_in_the_same_bits(
    num_removed: int,
    derailed: tuple[dict[str, bytes], bytes, int],
    counted: Counted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed: Iterator[int] = iter(range(1, 1000))
    remove, go_back = shutil.rmtree, Run.go_back

    def remove_some(path: Path, **rest: Any) -> None:
        if next(removed) > num_removed:
            raise CrashError
        remove(path, **rest)

    def go_back_and_die(*args: Any, **rest: Any) -> Any:
        monkeypatch.setattr(shutil, "rmtree", remove_some)
        return go_back(*args, **rest)

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Run, "go_back", go_back_and_die)
        with pytest.raises(CrashError):
            derail(folder)
    monkeypatch.setattr(shutil, "rmtree", remove)
    model, run = derail(folder)
    assert (bits_of(model), run.log.read_bytes()) == derailed[:2]
    counted(kills=1)


@pytest.mark.control("N2")
def test_a_run_that_never_goes_back_would_be_noticed(
    derailed: tuple[dict[str, bytes], bytes, int], tmp_path: Path
) -> None:
    model, run = Derailing(DERAILED), open_run(tmp_path / "run")
    train(model, Puzzles(), replace(LONG, steps=180, spike=0.0), run=run, machine=MACHINE)
    assert bits_of(model) != derailed[0]
    assert not is_recovered(loss_of(model), loss_of(make_clean(tmp_path / "clean")))


def make_clean(folder: Path) -> nn.Module:
    model = make_model()
    train(model, Puzzles(), replace(LONG, steps=120), run=open_run(folder), machine=MACHINE)
    return model


# They show


def shows(log: list[dict[str, Any]], step: int, poison: float) -> bool:
    """Tell whether a step's loss stands in the log as it was, as a word that JSON can hold."""
    (entry,) = (entry for entry in log if entry["step"] == step and "lr" in entry)
    return entry["fill_mask"] == str(poison) and "skipped" in entry


@pytest.mark.shows("N3")
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_none_stands_in_the_log_and_on_the_screen(
    poison: float, counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, run = Poisoned(make_model(), {4: poison}, "loss"), open_run(tmp_path / "run")
    train(model, Puzzles(), PLAN, run=run, machine=MACHINE)
    assert shows(read_log(run.folder), 4, poison)
    assert len(read_log(run.folder)) == PLAN.steps
    assert "warning: step 4 is skipped" in capsys.readouterr().err
    counted(shown=1)


@pytest.mark.shows("N3")
def test_a_metric_that_is_none_stands_in_the_log_and_is_never_the_best(
    counted: Counted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = iter((0.5, math.nan, 0.4))

    def evaluate(step: int) -> Evaluation:
        score = next(scores)
        return Evaluation(score, {"loss": score})

    run, plan = open_run(tmp_path / "run"), replace(PLAN, evaluate_every=3)
    at = train(make_model(), Puzzles(), plan, run=run, machine=MACHINE, evaluate=evaluate)
    found = [entry["evaluation"] for entry in read_log(run.folder) if "evaluation" in entry]
    assert [metrics["loss"] for metrics in found] == [0.5, "nan", 0.4]
    assert "loss nan" in capsys.readouterr().err
    assert at.best_step == 3
    counted(shown=1)


@pytest.mark.control("N3")
def test_a_log_that_is_smoothed_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Run.record

    def smooth(run: Run, entry: dict[str, Any]) -> None:
        record(run, {k: 2.5 if isinstance(v, float) and v != v else v for k, v in entry.items()})

    monkeypatch.setattr(Run, "record", smooth)
    model, run = Poisoned(make_model(), {4: math.nan}, "loss"), open_run(tmp_path / "run")
    train(model, Puzzles(), PLAN, run=run, machine=MACHINE)
    assert not shows(read_log(run.folder), 4, math.nan)
