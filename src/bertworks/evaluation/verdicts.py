"""Verdicts on disk: what each example added to the scores of a report, to compare it by."""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
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
MOST_VALUES = 30  # of a column by which examples are told apart
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
        "source": example.origin,
        "parts": verdict.parts,
    }


@dataclass(frozen=True)
class RowFile:
    """The rows of a file, read anew whenever they are wanted, so that they need no memory."""

    path: Path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self.path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a report, and the task whose answers they judge."""

    folder: Path
    task: dict[str, Any]
    rows: Iterable[dict[str, Any]]

    def scorer(self, chosen: np.ndarray | None = None) -> Scorer:
        """Return what has judged all answers, or those with some numbers."""
        chosen = np.arange(len(self.units)) if chosen is None else chosen
        return self.scorers([[chosen]], count=len(self.units))[0][0]

    def scorers(self, cuts: Sequence[Sequence[np.ndarray]], *, count: int) -> list[list[Scorer]]:
        """Return what has judged the answers of each part of some cuts, in one reading.

        There are so many answers, and none is in two parts of a cut.
        """
        note = self.task
        made = make_task(note["kind"], note["labels"], name=note["name"], **note["options"])
        scorers = [[made.scorer() for _ in parts] for parts in cuts]
        part_of = np.full((count, len(cuts)), -1, np.int16)
        for cut, parts in enumerate(cuts):
            for number, chosen in enumerate(parts):
                part_of[chosen, cut] = number
        for numbers, row in zip(part_of, self.rows, strict=True):
            for own, number in zip(scorers, numbers.tolist(), strict=True):
                if number >= 0:
                    self._take(own[number], row)
        return scorers

    def _take(self, scorer: Scorer, row: dict[str, Any]) -> None:
        try:
            scorer.take(row["parts"])
        except KeyError as error:
            raise ArtifactError(
                f"{self.folder} was written by another version, which kept no {error} of each "
                "answer; evaluate the model again"
            ) from None

    @property
    def units(self) -> np.ndarray:
        """The number of the text that each example is about."""
        return self.columns.units

    @cached_property
    def columns(self) -> "Columns":
        """What all examples are about, how long they are, and of what kind."""
        units, lengths = array("q"), array("q")
        values = {name: Values() for name in ("source", "label")}
        for row in self.rows:
            units.append(row["unit"])
            lengths.append(row["length"])
            for name, own in values.items():
                own.add(row[name])
        return Columns(np.array(units), np.array(lengths), values["source"], values["label"])


@dataclass(frozen=True, eq=False)
class Columns:
    """What examples are sliced by, a few numbers each."""

    units: np.ndarray
    lengths: np.ndarray
    sources: "Values"
    labels: "Values"


@dataclass(eq=False)
class Values:
    """The few values of a column; of one with many nothing is kept."""

    known: dict[str, int] = field(default_factory=dict)
    _numbers: "array[int]" = field(default_factory=lambda: array("b"))

    def add(self, value: str | None) -> None:
        """Take the value of the next example."""
        if len(self.known) <= MOST_VALUES:
            known = self.known
            number = -1 if value is None else known.setdefault(value, len(known))
            self._numbers.append(number)

    def parts(self) -> dict[str, np.ndarray]:
        """Return the numbers of the examples with each value; nothing of one value or many."""
        if not 1 < len(self.known) <= MOST_VALUES:
            return {}
        numbers = np.array(self._numbers)
        return {value: np.flatnonzero(numbers == own) for value, own in self.known.items()}


def open_verdicts(folder: Path) -> Verdicts:
    """Open the verdicts of a report."""
    open_artifact(folder, "report")
    if not (folder / VERDICTS).is_file():
        raise ArtifactError(
            f"{folder} has no {VERDICTS}, so it is no report of answers that can be compared; "
            "make it again with bertworks evaluate"
        )
    return Verdicts(folder, read_object(folder / TASK), RowFile(folder / VERDICTS))


def refuse_other_data(first: Verdicts, second: Verdicts) -> None:
    """Fail with the first difference where two reports are not of the same examples and gold."""
    counts = [0, 0]
    for one, other in zip_longest(first.rows, second.rows):
        counts[0] += one is not None
        counts[1] += other is not None
        if one is None or other is None:
            continue
        where = f"line {one['line']} of the data of {first.folder}"
        if one["id"] != other["id"]:
            raise _different(f"{where} is another example than line {other['line']}", second)
        if one["gold"] != other["gold"]:
            raise _different(
                f"the gold of {where} is {one['gold']!r:.60}, but {other['gold']!r:.60}", second
            )
    if counts[0] != counts[1]:
        raise _different(f"{first.folder} has {counts[0]} examples, but {counts[1]} are", second)
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
