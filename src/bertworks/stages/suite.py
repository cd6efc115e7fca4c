"""The suites of evaluate: each task is fine-tuned and scored by the commands for it, then told.

OUT/suite.json             what the whole was begun with
OUT/TASK/train.jsonl, …    the examples, in our own columns
OUT/TASK/seed-…/           the fine-tuned models
OUT/TASK/result.json       how it went: a task that has it is not run again
OUT/results.md, .json      the table of all tasks so far
OUT/report.html, .md, .json  the same as a report
"""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bertworks.core.artifact import (
    MANIFEST,
    Origin,
    first_change,
    name_input,
    read_object,
    refuse_existing,
)
from bertworks.core.errors import BertworksError, DataError, TrainingError, UsageError
from bertworks.core.lock import hold
from bertworks.core.progress import say
from bertworks.core.settings import as_command, as_json, read_values, settings_of, suggestion
from bertworks.core.shipped import shown
from bertworks.evaluation.findings import rows_of
from bertworks.evaluation.floors import is_told_collapsed
from bertworks.evaluation.full_report import Part, Report, again
from bertworks.evaluation.suite_data import PartFiles, find_file, write_at_once, write_parts
from bertworks.evaluation.suite_results import SuiteTable, TaskResult, markdown, table_rows
from bertworks.evaluation.suite_task import SuiteTask
from bertworks.evaluation.suites import SUITES
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.stages.idle_flags import refuse_all_but
from bertworks.stages.setting_groups import MachineSettings, SuiteSettings
from bertworks.stages.settings import EvaluateSettings, FinetuneSettings
from bertworks.stages.task_settings import TaskSettings
from bertworks.tasks.catalog import KINDS, takes

MAY_CHANGE = {"only", "resume", "device", "threads", "backend"}  # from one run to the next
CHECKPOINT_EVERY = 500
RESULT = "result.json"
ITS_OWN = {  # what a suite tells finetune by itself, or takes by a flag of its own
    *("model", "size", "task", "tasks", "train", "dev", "columns", "out", "longest", "choose_by"),
    *("epochs", "lr"),
    *("seed", "seeds", "checkpoint_every", "resume", "device", "precision", "threads"),
}
COMMAND = "bertworks.cli.child"  # in a process that does not outlive this one
NOTES = (
    "Scores are percent, over several seeds the mean and its deviation. The best epoch is chosen "
    "on dev. Published figures of BERT-tiny to BERT-medium are those of Turc et al. (2019), of "
    "BERT-base those of the papers named in docs/commands/evaluate.md; each says whether it is of "
    "dev or of test."
)


def run_suite(settings: EvaluateSettings) -> dict[str, Any]:
    """Fine-tune and score each task of a suite; the failure of one does not lose the others."""
    refuse_all_but(settings, SuiteSettings, MachineSettings, of="suites")
    tasks = _chosen(settings.suites)
    _refuse_no_data(settings, tasks)
    besides = told_finetune(settings.suites.finetune, tasks)
    reads = open_folder(encoder_folder(settings.model)).config.max_positions
    _claim(settings)
    failures: dict[str, TaskResult] = {}
    for name, task in tasks.items():
        try:
            _Runner(settings, name, task, reads, besides).run()
        except (BertworksError, OSError) as error:
            say(f"{name} failed: {error}")
            failures[name] = TaskResult(failure=str(error))
        rows = _tell(settings, failures)
    if failures:
        say((settings.out / "results.md").read_text(encoding="utf-8"))
        raise BertworksError(
            f"{len(failures)} of {len(tasks)} tasks failed ({', '.join(failures)}); "
            f"{settings.out / 'results.md'} tells why; mend it and go on with --resume auto"
        )
    return {"report": str(settings.out / "results.md"), "scores": rows}


def told_finetune(words: Sequence[str], tasks: Mapping[str, SuiteTask]) -> dict[str, str]:
    """Return the settings that every fine-tuning gets besides, by flag.

    What finetune does not know, a suite decides, or one of the tasks does not have, is an error.
    """
    settings = {setting.name: setting for setting in settings_of(FinetuneSettings)}
    of_tasks = {setting.name for setting in settings_of(TaskSettings)}
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        key, name = name.replace("_", "-"), name.replace("-", "_")
        if name in ITS_OWN or key in found:
            reason = "it stands there twice" if key in found else "a suite has its own way for it"
            raise UsageError(f"--finetune cannot have {word!r}: {reason}; leave it out")
        if not sign or (name in settings and settings[name].is_switch):
            raise UsageError(
                f"--finetune takes numbers and words, as layer-decay=0.8, and no switches; "
                f"got {word!r}"
            )
        read_values(FinetuneSettings, {name: value}, where="finetune")
        without = [task for task, row in tasks.items() if row.kind and not takes(row.kind, name)]
        if name in of_tasks and without:
            raise UsageError(
                f"--finetune {word}: {', '.join(without)} cannot be told that; choose others by "
                "--only"
            )
        found[key] = value
    return found


class _Runner:
    """Runs one task of a suite."""

    def __init__(
        self,
        settings: EvaluateSettings,
        name: str,
        task: SuiteTask,
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
        self.num_not_scored = 0  # rows of test
        self.num_collapsed = 0  # seeds with a model that has learned nothing
        self.num_apart = 0  # seeds without a model

    def run(self) -> None:
        """Fine-tune and score with every seed, and write down the result."""
        note = self.folder / RESULT
        if note.is_file():
            say(f"{self.name} is finished already")
            return
        parts = self._parts()
        scores: dict[str, list[dict[str, float]]] = {"dev": [], "test": []}
        for seed in range(self.chosen.seeds):
            try:
                found = self._scores(parts, seed)
            except TrainingError as error:
                say(f"warning: seed {seed} of {self.name} has collapsed: {error}")
                self.num_apart += 1
                continue
            for part, own in found.items():
                scores[part].append(own)
        if self.num_apart == self.chosen.seeds:
            raise BertworksError("its training came apart with every seed; give a lower --lr")
        result = TaskResult(parts.counts, scores, self._remarks(parts))
        write_at_once(note, json.dumps(result.as_json(), indent=1))

    def _scores(self, parts: PartFiles, seed: int) -> dict[str, dict[str, float]]:
        """Fine-tune and score with one seed."""
        model, found, has_fallen = self._model(parts, seed), {}, False
        if "dev" in parts.files:
            told = read_object(model / "bertworks.json")
            found["dev"] = told["dev"]
            score = told["dev"][self.task.metrics[0].name]
            has_fallen = is_told_collapsed(told, score)
        if "test" in parts.files:
            found["test"] = self._evaluate(model, parts.files["test"], seed)
        self.num_collapsed += has_fallen
        return found

    def _parts(self) -> PartFiles:
        """Return the examples as files of our own; a retrieval set is taken as it is."""
        task, data = self.task, self.settings.data
        if task.kind is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = {part: find_file(data / where.file) for part, (where,) in task.parts.items()}
            return PartFiles(found, {})
        form = KINDS[task.kind].form
        return write_parts(task, form, data=data, out=self.folder, limit=self.chosen.limit)

    def _model(self, parts: PartFiles, seed: int) -> Path:
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
            "train": parts.files["train"],
            "dev": parts.files["dev"],
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
        self._command("finetune", flags, made=out)
        for name in ("checkpoints", "best"):  # several times as large as the model
            shutil.rmtree(out / name, ignore_errors=True)
        return out

    def _evaluate(self, model: Path, data: Path, seed: int) -> dict[str, float]:
        report = self.folder / f"seed-{seed}-test"
        self._command("evaluate", {"model": model, "data": data, "out": report}, made=report)
        scores = read_object(report / "scores.json")
        self.num_not_scored = scores.get("bad_rows", 0)
        return {name: score for name, score in scores.items() if isinstance(score, float)}

    def _command(self, name: str, flags: Mapping[str, Any], *, made: Path) -> None:
        """Run a command in a process of its own unless what it makes is there already."""
        if (made / MANIFEST).exists():
            return
        machine = {name: value for name, value in vars(self.settings.machine).items() if value}
        pairs = [(f"--{flag}", str(value)) for flag, value in {**flags, **machine}.items()]
        words = [name, *(word for pair in pairs for word in pair)]
        say(f"\n$ bertworks {shlex.join(words)}")
        said = ""
        with subprocess.Popen(
            [sys.executable, "-m", COMMAND, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        ) as process:
            for line in process.stdout or ():
                said = line.rstrip("\n")
                say(said)
            process.wait()  # before its input is closed, which would end it
        if process.returncode:
            reason = said.removeprefix("bertworks: ")
            if process.returncode == TrainingError.told_code:
                raise TrainingError(reason)
            raise BertworksError(f"{name} ended with code {process.returncode}: {reason}")

    def _remarks(self, parts: PartFiles) -> tuple[str, ...]:
        collapsed = self.num_collapsed + self.num_apart
        taken, left_out = parts.counts.get("train", 0), parts.num_left_out
        whole = f"{taken + left_out:,} examples, chosen by a hash"
        remarks = [
            f"trained on {taken:,} of {whole}" if left_out else "",
            f"{parts.num_bad} rows were set aside" if parts.num_bad else "",
            f"{rows_of(self.num_not_scored)} of test not scored" if self.num_not_scored else "",
            f"{collapsed} of {self.chosen.seeds} seeds collapsed" if collapsed else "",
            f"{self.num_apart} of them came apart and are in no mean" if self.num_apart else "",
        ]
        return tuple(filter(None, remarks))


def _refuse_no_data(settings: EvaluateSettings, tasks: Mapping[str, SuiteTask]) -> None:
    """Stop before anything is written where nothing is there of tasks that are to be run."""
    open_tasks = (t for name, t in tasks.items() if not (settings.out / name / RESULT).is_file())
    files = [settings.data / part[0].file for task in open_tasks for part in task.parts.values()]
    for file in files:
        with suppress(DataError):
            find_file(file)
            return
    if files:
        raise UsageError(f"{settings.data} holds none of the data sets: there is no {files[0]}")


def _chosen(chosen: SuiteSettings) -> dict[str, SuiteTask]:
    assert chosen.suite is not None
    tasks = SUITES[chosen.suite]
    for name in chosen.only:
        if name not in tasks:
            raise UsageError(
                f"the suite {chosen.suite} has no task {name!r}{suggestion(name, dict(tasks))}; "
                f"it has {', '.join(tasks)}"
            )
    wanted = {*(chosen.only or tasks)}
    wanted |= {base for name in wanted if (base := tasks[name].model_of) is not None}
    return {name: task for name, task in tasks.items() if name in wanted}


def _claim(settings: EvaluateSettings) -> None:
    """Take a free folder, or go on in one that was begun with the same settings."""
    out, mark = settings.out, settings.out / "suite.json"
    origin = Origin(settings=as_json(settings), inputs={"model": settings.model})
    if not mark.is_file():
        refuse_existing(out)
        out.mkdir(parents=True, exist_ok=True)
        told = {"settings": origin.settings, "inputs": {"model": name_input(settings.model)}}
        write_at_once(mark, json.dumps(told, indent=1))
    elif settings.suites.resume == "never":
        raise UsageError(
            f"{out} holds a suite; go on with --resume auto, choose another --out, or remove it"
        )
    begun = read_object(mark)
    if "model" not in begun["inputs"]:  # by a version that did not note it
        origin = Origin(settings=origin.settings)
    if change := first_change(out, begun, origin, free=MAY_CHANGE):
        raise UsageError(change)
    if not hold(out / "lock"):
        raise UsageError(f"another process runs a suite in {out}; wait for its end")


def _tell(settings: EvaluateSettings, failures: Mapping[str, TaskResult]) -> list[dict[str, str]]:
    """Write the table of all tasks so far, whichever run they were done in, and return its rows."""
    assert settings.suites.suite is not None
    tasks, results = SUITES[settings.suites.suite], {}
    for name in tasks:
        note = settings.out / name / RESULT
        if name in failures:
            results[name] = failures[name]
        elif note.is_file():
            results[name] = TaskResult(**read_object(note))
    rows = table_rows(tasks, results)
    command = as_command("evaluate", settings)
    title = f"The suite {settings.suites.suite}: {settings.model.name}"
    page = markdown(rows, title=title, notes=[NOTES, "", f"Made with `{command}`."])
    parts: list[Part] = [SuiteTable(tuple(rows), NOTES), again(Origin(command=command))]
    Report(title=title, parts=parts).write(settings.out)
    write_at_once(settings.out / "results.md", page)
    told = {name: result.as_json() for name, result in results.items()}
    whole = {
        "command": command,
        "settings": as_json(settings),
        "inputs": {"model": name_input(settings.model)},
        "rows": rows,
        "tasks": told,
    }
    write_at_once(settings.out / "results.json", json.dumps(whole, indent=1, ensure_ascii=False))
    return rows
