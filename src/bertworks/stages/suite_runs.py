"""The fine-tunings of one task of a suite: each rate and seed, scored, gathered into one result."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bertworks.core.artifact import MANIFEST, read_object
from bertworks.core.errors import BertworksError, FullMemoryError, TrainingError
from bertworks.core.processes import num_cores
from bertworks.core.progress import say
from bertworks.core.shipped import shown
from bertworks.evaluation.findings import rows_of
from bertworks.evaluation.floors import is_told_collapsed
from bertworks.evaluation.suite_data import PartFiles, find_file, write_at_once, write_parts
from bertworks.evaluation.suite_results import TaskResult
from bertworks.evaluation.suite_task import SuiteTask
from bertworks.stages.children import Children
from bertworks.stages.settings import EvaluateSettings
from bertworks.tasks.catalog import KINDS

CHECKPOINT_EVERY = 500
RESULT = "result.json"


@dataclass(frozen=True)
class Trial:
    """One fine-tuning of a task."""

    seed: int
    lr: float
    name: str  # of its folder


@dataclass(frozen=True)
class SeedScores:
    """What a model scored that was fine-tuned with one seed."""

    of_parts: Mapping[str, Mapping[str, float]]  # dev, test
    has_collapsed: bool = False  # it has learned nothing
    num_not_scored: int = 0  # rows of test


class TaskRuns:
    """One task of a suite, and how it is run with any seed; seeds may run beside each other."""

    def __init__(
        self,
        settings: EvaluateSettings,
        name: str,
        task: SuiteTask,
        *,
        reads: int,
        besides: Mapping[str, str],
    ) -> None:
        self.settings = settings
        self.besides = besides  # what finetune is told besides, by flag
        self.chosen = settings.suites
        self.name = name
        self.task = task
        self.longest = min(task.longest or reads, reads)
        self.folder = settings.out / name
        self.parts = self._parts()
        self.failure: Exception | None = None  # the first

    @property
    def num_examples(self) -> int:
        """How many are learned from, however often."""
        return self.parts.counts.get("train", 0)

    @property
    def trials(self) -> list[Trial]:
        """What is run: every seed, with every rate where there are several."""
        rates, seeds = dict.fromkeys(self.chosen.lr or [self.task.lr]), range(self.chosen.seeds)
        if len(rates) == 1 or self.task.model_of is not None:
            return [Trial(seed, next(iter(rates)), f"seed-{seed}") for seed in seeds]
        return [Trial(seed, lr, f"lr-{lr}-seed-{seed}") for lr in rates for seed in seeds]

    def score(self, trial: Trial, children: Children) -> SeedScores | None:
        """Fine-tune and score; None: the training came apart. None begins behind a failed one."""
        if self.failure is not None:
            raise BertworksError(f"{_told(trial)} of {self.name} is not begun any more")
        try:
            return self._score(trial, children)
        except TrainingError as error:
            say(f"warning: {_told(trial)} of {self.name} has collapsed: {error}")
            return None
        except Exception as error:  # noted here: who takes from the queue is quicker than who waits
            self.failure = self.failure or error
            raise

    def finish(self, found: Sequence[SeedScores | None]) -> None:
        """Write down what the trials scored, in their order; of several rates the best on dev."""
        metric, trials = self.task.metrics[0].name, list(zip(self.trials, found, strict=True))
        rates = dict.fromkeys(trial.lr for trial, _ in trials)
        tried = [_Rate(lr, [pair for pair in trials if pair[0].lr == lr], metric) for lr in rates]
        best = max(tried, key=lambda rate: rate.worth)
        if not best.whole:
            raise BertworksError(
                "its training came apart with every seed; begin in another --out with a lower --lr"
            )
        parts = ("dev", "test")
        scores = {
            part: [s.of_parts[part] for s in best.whole if part in s.of_parts] for part in parts
        }
        told = ", ".join(f"{rate.lr:g}: {rate.told}" for rate in tried)
        how = [f"lr {best.lr:g} is the best on dev ({told})"] if len(tried) > 1 else []
        remarks = (*how, *_remarks(self.parts, best.whole, apart=best.num_apart))
        models = tuple(trial.name for trial, _ in best.trials)
        result = TaskResult(self.parts.counts, scores, remarks, models=models)
        write_at_once(self.folder / RESULT, json.dumps(result.as_json(), indent=1))
        for trial in (one for one in self.trials if one.name not in models):
            for name in (trial.name, f"{trial.name}-test"):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def _score(self, trial: Trial, children: Children) -> SeedScores:
        files, has_collapsed, num_not_scored = self.parts.files, False, 0
        model, found = self._model(trial, children), {}
        if "dev" in files:
            told = read_object(model / "bertworks.json")
            found["dev"] = told["dev"]
            has_collapsed = is_told_collapsed(told, told["dev"][self.task.metrics[0].name])
        if "test" in files:
            report = self.folder / f"{trial.name}-test"
            flags = {"model": model, "data": files["test"], "out": report}
            self._command(children, "evaluate", flags, trial)
            scores = read_object(report / "scores.json")
            num_not_scored = scores.get("bad_rows", 0)
            found["test"] = {name: one for name, one in scores.items() if isinstance(one, float)}
        return SeedScores(found, has_collapsed, num_not_scored)

    def _parts(self) -> PartFiles:
        """Return the examples as files of our own; a retrieval set is taken as it is."""
        task, data = self.task, self.settings.data
        if task.kind is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = {part: find_file(data / where.file) for part, (where,) in task.parts.items()}
            return PartFiles(found, {})
        form = KINDS[task.kind].form
        return write_parts(task, form, data=data, out=self.folder, limit=self.chosen.limit)

    def _model(self, trial: Trial, children: Children) -> Path:
        """Fine-tune a model, or return the one of another task that answers here too."""
        task, out = self.task, self.folder / trial.name
        if task.model_of is not None:
            return self._model_of(self.folder.with_name(task.model_of), trial.seed)
        flags = {
            "model": shown(self.settings.model),
            "task": task.kind,
            "train": self.parts.files["train"],
            "dev": self.parts.files["dev"],
            "out": out,
            "epochs": self.chosen.epochs or task.epochs,
            "batch-size": task.batch_size,
            "lr": trial.lr,
            "reinit": 0,  # published figures are of whole networks
            "longest": self.longest,
            "choose-by": task.metrics[0].name,
            "seed": trial.seed,
            "checkpoint-every": CHECKPOINT_EVERY,
            "resume": "auto",
            **self.besides,
        }
        self._command(children, "finetune", flags, trial)
        for name in ("checkpoints", "best"):  # several times as large as the model
            shutil.rmtree(out / name, ignore_errors=True)
        return out

    def _model_of(self, other: Path, seed: int) -> Path:
        """Return the model that another task has with a seed and the rate it has chosen."""
        note, name = other / RESULT, f"seed-{seed}"
        if note.is_file():
            name = dict(enumerate(read_object(note).get("models", ()))).get(seed, name)
        if not (other / name / MANIFEST).exists():
            raise (TrainingError if note.is_file() else BertworksError)(
                f"it needs the model of {other.name}, which is not there"
            )
        return other / name

    def _command(
        self, children: Children, name: str, flags: Mapping[str, Any], trial: Trial
    ) -> None:
        """Run a command in a process of its own unless what it makes is there already."""
        if (flags["out"] / MANIFEST).exists():
            return
        pairs = [(f"--{flag}", str(value)) for flag, value in {**flags, **self._machine()}.items()]
        whose = f"{self.name} {trial.name}" if self.chosen.at_once > 1 else ""
        try:
            children.run([name, *(word for pair in pairs for word in pair)], whose=whose)
        except FullMemoryError as error:
            raise BertworksError(f"{error}; {self._less_memory(name)}") from error

    def _less_memory(self, command: str) -> str:
        """Return what may help, in flags of a suite; but for the first they begin another one."""
        ways = ["lower --at-once"] if self.chosen.at_once > 1 else []
        if command == "finetune":
            parts = 2 * int(self.besides.get("accumulate", 1))
            ways.append(f"begin in another --out with --finetune accumulate={parts}")
        return ", or ".join([*ways, "take a smaller model"])

    def _machine(self) -> dict[str, Any]:
        """Return how a command computes: those beside each other share the cores."""
        asked = {name: value for name, value in vars(self.settings.machine).items() if value}
        share = num_cores() // self.chosen.at_once
        return asked if self.chosen.at_once == 1 else {"threads": max(1, share), **asked}


def _told(trial: Trial) -> str:
    return f"seed {trial.seed}" + (f" with lr {trial.lr:g}" if trial.name.startswith("lr") else "")


class _Rate:
    """What one learning rate scored with every seed."""

    def __init__(
        self, lr: float, trials: Sequence[tuple[Trial, SeedScores | None]], metric: str
    ) -> None:
        self.lr = lr
        self.trials = trials
        self.whole = [scores for _, scores in trials if scores is not None]
        self.num_apart = len(trials) - len(self.whole)
        known = [one.of_parts["dev"][metric] for one in self.whole if "dev" in one.of_parts]
        self.mean = fmean(known) if known else 0.0

    @property
    def worth(self) -> tuple[int, float]:
        """What the best has most of: seeds that did not come apart, then the mean of these."""
        return -self.num_apart, self.mean

    @property
    def told(self) -> str:
        """The mean in percent, and which seeds are in none."""
        if not self.whole:
            return "came apart"
        apart = f" ({self.num_apart} of {len(self.trials)} came apart)" if self.num_apart else ""
        return f"{100 * self.mean:.1f}{apart}"


def _remarks(parts: PartFiles, seeds: Sequence[SeedScores], *, apart: int) -> tuple[str, ...]:
    """Say what a reader of the scores must know; `apart` seeds have none."""
    collapsed = apart + sum(seed.has_collapsed for seed in seeds)
    taken, left_out = parts.counts.get("train", 0), parts.num_left_out
    not_scored = max(seed.num_not_scored for seed in seeds)
    whole = f"{taken + left_out:,} examples, chosen by a hash"
    remarks = [
        f"trained on {taken:,} of {whole}" if left_out else "",
        f"set aside: {rows_of(parts.num_bad)}" if parts.num_bad else "",
        f"{rows_of(not_scored)} of test not scored" if not_scored else "",
        f"{collapsed} of {len(seeds) + apart} seeds collapsed" if collapsed else "",
        f"{apart} of them came apart and are in no mean" if apart else "",
    ]
    return tuple(filter(None, remarks))
