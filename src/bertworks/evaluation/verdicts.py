"""Verdicts on disk: what each example added to the scores of a report, to compare it by."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import open_artifact, read_object
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.data.example_rows import row_of
from bertworks.data.forms import FORMS
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Scorer, Verdict

TASK, VERDICTS = "task.json", "verdicts.jsonl"
OF_TAGS = ("tag", "intent_slots")  # whose labels are told apart by their names
MOST_SHOWN = 10
GOLD = {name for form in FORMS.values() for name in form.gold}


def task_note(task: Any) -> dict[str, Any]:
    """Return what tells how the answers of a task are scored."""
    options = getattr(task, "options", {})
    return {"kind": task.kind, "name": task.name, "labels": list(task.labels), "options": options}


def verdict_row(example: Any, verdict: Verdict, *, unit: int) -> dict[str, Any]:
    """Return a verdict as JSON data; `unit` is the number of the text that it is about."""
    inputs = {name: value for name, value in row_of(example).items() if name not in GOLD}
    told = json.dumps(inputs, ensure_ascii=False)
    return {
        "line": example.line,
        "id": hashlib.blake2b(told.encode(), digest_size=8).hexdigest(),
        "unit": unit,
        "gold": verdict.gold,
        "answer": verdict.given,
        "score": verdict.score,
        "length": sum(map(_num_chars, inputs.values())),
        "label": verdict.label,
        "source": example.source,
        "parts": verdict.parts,
    }


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a report, and the task whose answers they judge."""

    folder: Path
    task: dict[str, Any]
    rows: Sequence[dict[str, Any]]

    def scorer(self, chosen: Iterable[int] | None = None) -> Scorer:
        """Return what has judged all answers, or those with some numbers."""
        note = self.task
        made = make_task(note["kind"], note["labels"], name=note["name"], **note["options"])
        scorer = made.scorer()
        for number in range(len(self.rows)) if chosen is None else chosen:
            scorer.take(self.rows[number]["parts"])
        return scorer

    @cached_property
    def units(self) -> np.ndarray:
        """The number of the text that each example is about."""
        return np.array([row["unit"] for row in self.rows])


def open_verdicts(folder: Path) -> Verdicts:
    """Open the verdicts of a report."""
    open_artifact(folder, "report")
    if not (folder / VERDICTS).is_file():
        raise ArtifactError(
            f"{folder} has no {VERDICTS}, so it is no report of answers that can be compared; "
            "make it again with bertworks evaluate"
        )
    with (folder / VERDICTS).open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return Verdicts(folder, read_object(folder / TASK), rows)


def refuse_other_data(first: Verdicts, second: Verdicts) -> None:
    """Fail with the first difference where two reports are not of the same examples and gold."""
    for one, other in zip(first.rows, second.rows, strict=False):
        where = f"line {one['line']} of the data of {first.folder}"
        if one["id"] != other["id"]:
            raise _different(f"{where} is another example than line {other['line']}", second)
        if one["gold"] != other["gold"]:
            raise _different(
                f"the gold of {where} is {one['gold']!r:.60}, but {other['gold']!r:.60}", second
            )
    if len(first.rows) != len(second.rows):
        counts = f"{first.folder} has {len(first.rows)} examples, but {len(second.rows)} are"
        raise _different(counts, second)
    if first.task["kind"] != second.task["kind"]:
        raise UsageError(
            f"{first.folder} is of the task {first.task['kind']}, but {second.folder} of "
            f"{second.task['kind']}; compare reports of one task"
        )
    labels = [one.task["labels"] for one in (first, second)]
    if labels[0] != labels[1] and first.task["kind"] not in OF_TAGS:
        raise UsageError(
            f"the model of {first.folder} knows the labels {', '.join(labels[0][:MOST_SHOWN])}, "
            f"that of {second.folder} {', '.join(labels[1][:MOST_SHOWN])}; compare models of the "
            "same labels"
        )


def _different(found: str, second: Verdicts) -> UsageError:
    return UsageError(
        f"{found} of the data of {second.folder}; evaluate both models on the same file"
    )


def _num_chars(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_num_chars, value)) if isinstance(value, list | tuple) else 0
