"""evaluate: a fine-tuned model and labelled examples -> a report; or a suite -> a table."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.core.shipped import shown
from bertworks.data.examples import Example, SourceExample
from bertworks.data.layouts import require_source
from bertworks.data.line_groups import is_intents
from bertworks.data.rows import find_form, parse_columns, stream_examples
from bertworks.evaluation.answer_parts import CopyScores
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.baselines import Copying
from bertworks.evaluation.data_check import found_by, make_checks, watched
from bertworks.evaluation.full_report import (
    Report,
    again,
    answer_parts,
    findings_of,
    fingerprint,
    temperature_of,
)
from bertworks.evaluation.run_parts import Speed
from bertworks.evaluation.scoring import Judge
from bertworks.evaluation.statistics import NO_WIDTH, has_no_width, interval_rows
from bertworks.evaluation.verdicts import TASK, VERDICTS, task_note, verdict_row
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.idle_flags import refuse_any
from bertworks.stages.ranking import run_ranking
from bertworks.stages.settings import EvaluateSettings
from bertworks.stages.suite import run_suite
from bertworks.stages.zero_shot import chosen_task
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.task import Answer, Task, Verdict
from bertworks.tasks.zero_shot import ByVectors


def run(settings: EvaluateSettings) -> dict[str, Any]:
    """Score a model and write the answers, the scores and a report that shows them."""
    if settings.suites.suite is not None:
        return run_suite(settings)
    refuse_any(settings.suites, "is for suites; name one with --suite")
    if settings.data.is_dir() and not is_intents(settings.data):
        return run_ranking(settings)
    refuse_any(settings.ranking, "is for ranking; give the folder of a retrieval set")
    refuse_existing(settings.out)
    require_source(settings.data)
    predictor = load(settings.model, **vars(settings.machine), **vars(settings.runtime))
    task = _task(settings, predictor)
    origin = Origin(
        command=as_command("evaluate", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, "data": settings.data},
    )
    started = time.monotonic()
    with saving(settings.out, kind="report", origin=origin) as folder:
        scored = _Scored(settings, task, folder)
        scored.answer(predictor)
        result = {"task": task.name, "examples": scored.judge.count}
        result |= {"bad_rows": scored.quarantine.num_bad, **_tell_scores(scored.judge, folder)}
        result |= scored.copied()
        _write_json(folder / "scores.json", result)
        _write_json(folder / TASK, task_note(task))
        speed = Speed.of(
            predictor.machine, time.monotonic() - started, {"examples": scored.judge.count}
        )
        scored.report(origin, speed).write(folder)
        scored.quarantine.write(folder)
    if scored.not_scored:
        say(f"warning: {scored.not_scored}")
    return {"report": str(settings.out), **result}


def _task(settings: EvaluateSettings, predictor: Predictor) -> Task | ByVectors:
    task = chosen_task(predictor, settings)
    if KINDS[task.kind].learn is None:
        raise UsageError(
            f"{shown(settings.model)} answers {task.name}, which gives no labels to score; "
            "fine-tune it on labelled examples first"
        )
    return task


class _Scored:
    """The answers to a file, judged one after the other; of each a few numbers stay in memory."""

    def __init__(self, settings: EvaluateSettings, task: Task | ByVectors, folder: Path) -> None:
        self.settings = settings
        self.task = task
        self.folder = folder
        self.quarantine = Quarantine()
        self.judge = Judge(task)
        self.gallery = Gallery(task.labels)
        self.copying = Copying() if task.kind == "generate" else None
        self.checks = make_checks(all_labels=False, copies=False)

    def answer(self, predictor: Predictor) -> None:
        """Answer and judge every example, and write both down."""
        with ExitStack() as open_files:
            answers, verdicts = (
                open_files.enter_context((self.folder / name).open("w", encoding="utf-8"))
                for name in ("answers.jsonl", VERDICTS)
            )
            for example, answer, verdict in self._judged(predictor):
                row = {**example.where, "gold": verdict.gold, **answer}
                if verdict.score is not None:
                    row["score_of_answer"] = verdict.score
                answers.write(json.dumps(row, ensure_ascii=False) + "\n")
                told = verdict_row(example, verdict, unit=self.judge.unit)
                verdicts.write(json.dumps(told, ensure_ascii=False) + "\n")
                self.gallery.add(example, answer, verdict)
        self.quarantine.check(remedy="mend the file, or name its columns with --columns")
        if not self.judge.count:
            data = self.settings.data
            raise DataError(f"{data} holds no rows; give a file with examples in it")

    def _judged(self, predictor: Predictor) -> Iterator[tuple[Example, Answer, Verdict]]:
        """Yield what can be scored; what cannot is set aside."""
        examples = watched(self.settings.data.name, self._examples(), self.checks)
        with progress("answering", total=None, unit="texts") as meter:
            for example, answer in predictor.answer_stream(
                examples, self.task, refuse=self._set_aside
            ):
                meter.advance()
                try:
                    verdict = self.judge.add(example, answer)
                except DataError as error:  # of a label that cannot be chosen
                    self._set_aside(example, error)
                else:
                    if self.copying is not None and isinstance(example, SourceExample):
                        self.copying.add(example)
                    yield example, answer, verdict

    def _examples(self) -> Iterator[Example]:
        data, columns = self.settings.data, parse_columns(self.settings.columns)
        form = find_form(data, columns, among=KINDS[self.task.kind].forms(scored=True))
        return stream_examples(data, self.quarantine, form=form, columns=columns)

    def _set_aside(self, example: Example, error: DataError) -> None:
        self.quarantine.recall(self.settings.data, example.line, str(error))

    @property
    def not_scored(self) -> str:
        """One sentence about the rows that the scores do not speak of; empty without any."""
        summary, count = self.quarantine.summary(), self.judge.count
        if summary is None:
            return ""
        return f"the scores are of {count} of {count + self.quarantine.num_bad} rows; {summary}"

    def copied(self) -> dict[str, Any]:
        """Return what copying scores, where texts are written."""
        if self.copying is None:
            return {}
        found = self.copying.metrics()
        return {"copying": [{"copied": what, **metrics} for what, metrics in found.items()]}

    def report(self, origin: Origin, speed: Speed) -> Report:
        """Return the report; findings that would stop a training are no matter here."""
        findings = [found for found in found_by(self.checks) if found.severity != "error"]
        told = answer_parts(self.judge, self.gallery, temperature=temperature_of(self.task))
        copied = [CopyScores(self.copying.metrics())] if self.copying else []
        data = fingerprint(origin, {"data": self.judge.count})
        lost = f"; {self.not_scored}" if self.not_scored else ""
        return Report(
            title=f"Evaluation of {self.settings.model.name} on {self.settings.data.name}",
            summary=f"The task {self.task.name}{lost}.",
            parts=[*told, *copied, findings_of(findings), data, speed, again(origin)],
        )


def _tell_scores(judge: Judge, folder: Path) -> dict[str, Any]:
    """Write what the answers come to into files, and return it in short."""
    found = judge.intervals()
    for sentence in [*judge.lacking(), *judge.absent()]:
        say(f"warning: {sentence}")
    for sentence in judge.notes():
        say(sentence)
    if has_no_width(found.values()):
        say(f"warning: {NO_WIDTH}")
    result: dict[str, Any] = {
        **judge.metrics(),
        "intervals": interval_rows(found),
    }
    if labels := judge.label_rows():
        _write_json(folder / "labels.json", labels)
    if calibration := judge.calibration():
        result |= {"ece": calibration.ece, "brier": calibration.brier}
        if (interval := judge.brier_interval()) is not None:
            result["intervals"] += interval_rows({"brier": interval})
        _write_json(folder / "calibration.json", asdict(calibration))
    return result


def _write_json(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
