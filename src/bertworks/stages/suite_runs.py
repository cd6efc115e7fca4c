"""The fine-tunings of one task of a suite: a seed each, scored, and gathered into one result."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, read_object
from bertworks.core.errors import BertworksError, TrainingError
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

    @property
    def num_examples(self) -> int:
        """How many are learned from, however often."""
        return self.parts.counts.get("train", 0)

    def score(self, seed: int, children: Children) -> SeedScores | None:
        """Fine-tune and score with one seed; None: its training came apart."""
        try:
            return self._score(seed, children)
        except TrainingError as error:
            say(f"warning: seed {seed} of {self.name} has collapsed: {error}")
            return None

    def finish(self, seeds: Sequence[SeedScores | None]) -> None:
        """Write down what the seeds scored, in their order."""
        whole = [seed for seed in seeds if seed is not None]
        if not whole:
            raise BertworksError("its training came apart with every seed; give a lower --lr")
        scores: dict[str, list[Mapping[str, float]]] = {
            part: [seed.of_parts[part] for seed in whole if part in seed.of_parts]
            for part in ("dev", "test")
        }
        remarks = _remarks(self.parts, whole, apart=len(seeds) - len(whole))
        result = TaskResult(self.parts.counts, scores, remarks)
        write_at_once(self.folder / RESULT, json.dumps(result.as_json(), indent=1))

    def _score(self, seed: int, children: Children) -> SeedScores:
        files, has_collapsed, num_not_scored = self.parts.files, False, 0
        model, found = self._model(seed, children), {}
        if "dev" in files:
            told = read_object(model / "bertworks.json")
            found["dev"] = told["dev"]
            has_collapsed = is_told_collapsed(told, told["dev"][self.task.metrics[0].name])
        if "test" in files:
            report = self.folder / f"seed-{seed}-test"
            flags = {"model": model, "data": files["test"], "out": report}
            self._command(children, "evaluate", flags, seed=seed)
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

    def _model(self, seed: int, children: Children) -> Path:
        """Fine-tune a model, or return the one of another task that answers here too."""
        task, out = self.task, self.folder / f"seed-{seed}"
        if task.model_of is not None:
            other = self.folder.with_name(task.model_of) / out.name
            if not (other / MANIFEST).exists():
                is_done = (other.parent / RESULT).is_file()
                raise (TrainingError if is_done else BertworksError)(
                    f"it needs the model of {task.model_of}, which is not there"
                )
            return other
        flags = {
            "model": shown(self.settings.model),
            "task": task.kind,
            "train": self.parts.files["train"],
            "dev": self.parts.files["dev"],
            "out": out,
            "epochs": self.chosen.epochs or task.epochs,
            "batch-size": task.batch_size,
            "lr": self.chosen.lr or task.lr,
            "reinit": 0,  # published figures are of whole networks
            "longest": self.longest,
            "choose-by": task.metrics[0].name,
            "seed": seed,
            "checkpoint-every": CHECKPOINT_EVERY,
            "resume": "auto",
            **self.besides,
        }
        self._command(children, "finetune", flags, seed=seed)
        for name in ("checkpoints", "best"):  # several times as large as the model
            shutil.rmtree(out / name, ignore_errors=True)
        return out

    def _command(
        self, children: Children, name: str, flags: Mapping[str, Any], *, seed: int
    ) -> None:
        """Run a command in a process of its own unless what it makes is there already."""
        if (flags["out"] / MANIFEST).exists():
            return
        pairs = [(f"--{flag}", str(value)) for flag, value in {**flags, **self._machine()}.items()]
        whose = f"{self.name} {seed}" if self.chosen.at_once > 1 else ""
        children.run([name, *(word for pair in pairs for word in pair)], whose=whose)

    def _machine(self) -> dict[str, Any]:
        """Return how a command computes: those beside each other share the cores."""
        asked = {name: value for name, value in vars(self.settings.machine).items() if value}
        share = (os.cpu_count() or 1) // self.chosen.at_once
        return asked if self.chosen.at_once == 1 else {"threads": max(1, share), **asked}


def _remarks(parts: PartFiles, seeds: Sequence[SeedScores], *, apart: int) -> tuple[str, ...]:
    """Say what a reader of the scores must know; `apart` seeds have none."""
    collapsed = apart + sum(seed.has_collapsed for seed in seeds)
    taken, left_out = parts.counts.get("train", 0), parts.num_left_out
    not_scored = max(seed.num_not_scored for seed in seeds)
    whole = f"{taken + left_out:,} examples, chosen by a hash"
    remarks = [
        f"trained on {taken:,} of {whole}" if left_out else "",
        f"{parts.num_bad} rows were set aside" if parts.num_bad else "",
        f"{rows_of(not_scored)} of test not scored" if not_scored else "",
        f"{collapsed} of {len(seeds) + apart} seeds collapsed" if collapsed else "",
        f"{apart} of them came apart and are in no mean" if apart else "",
    ]
    return tuple(filter(None, remarks))
