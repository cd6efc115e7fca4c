"""A whole report: one set of parts, written as a page, as Markdown and as JSON."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bertworks.core import __version__
from bertworks.core.artifact import Origin, name_input
from bertworks.core.shipped import shown
from bertworks.evaluation.answer_parts import ClassTable, Confidence, Scores
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.calibration import Calibration
from bertworks.evaluation.dev_scores import DevScores
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.markdown_page import markdown_page
from bertworks.evaluation.report import Page
from bertworks.evaluation.report_blocks import Block, Heading, Text
from bertworks.evaluation.run_parts import Again, DataFile, Findings, Fingerprint, Found
from bertworks.evaluation.scoring import Judge
from bertworks.tasks.task import Scored, Tempered

FILES = ("report.html", "report.md", "report.json")


class Part(Protocol):
    """One part of a report; its fields are its JSON."""

    @property
    def key(self) -> str:
        """Its name in JSON."""

    def blocks(self) -> Iterator[Block]:
        """Yield what is shown of it."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command found out, in the order in which it is read."""

    title: str
    summary: str = ""
    parts: Sequence[Part]
    tasks: Mapping[str, Sequence[Part]] = field(default_factory=dict)  # of a model of several
    last: Sequence[Part] = ()  # what comes behind the tasks

    def blocks(self) -> Iterator[Block]:
        """Yield all that is shown; the parts of a task stand below its name."""
        if self.summary:
            yield Text(self.summary)
        for part in self.parts:
            yield from part.blocks()
        for name, parts in self.tasks.items():
            yield Heading(f"Task {name}")
            for block in (block for part in parts for block in part.blocks()):
                yield replace(block, level=3) if isinstance(block, Heading) else block
        for part in self.last:
            yield from part.blocks()

    def html(self) -> str:
        """Return it as a page."""
        page = Page(self.title)
        for block in self.blocks():
            page.add(block)
        return page.html()

    def markdown(self) -> str:
        """Return it as Markdown."""
        return markdown_page(self.title, list(self.blocks()))

    def as_json(self) -> dict[str, Any]:
        """Return all numbers as JSON data; what is no number is null."""
        told: dict[str, Any] = {"title": self.title, "summary": self.summary, **_keyed(self.parts)}
        if self.tasks:
            told["tasks"] = {name: _keyed(parts) for name, parts in self.tasks.items()}
        return told | _keyed(self.last)

    def write(self, folder: Path) -> None:
        """Write all three into a folder."""
        told = json.dumps(self.as_json(), indent=1, ensure_ascii=False, allow_nan=False)
        for name, text in zip(FILES, (self.html(), self.markdown(), told), strict=True):
            (folder / name).write_text(text, encoding="utf-8", errors="replace")


def answer_parts(
    judge: Judge,
    gallery: Gallery,
    *,
    of: str = "",
    temperature: float | None = None,
    first: str | None = None,
) -> list[Part]:
    """Return the parts that tell of the answers of one task, perhaps with one score first."""
    metrics = judge.metrics()
    if first in metrics:
        metrics = {first: metrics[first]} | metrics
    parts: list[Part | None] = [
        Scores.of_metrics(
            metrics,
            judge.intervals(),
            examples=judge.count,
            of=of,
            lacking=judge.lacking(),
            notes=judge.notes(),
        ),
        ClassTable.of_labels(judge.label_rows()),
        gallery.confusion(),
        _confidence(judge.calibration(), temperature),
        gallery.errors(),
    ]
    return [part for part in parts if part is not None]


def dev_parts(scores: DevScores, galleries: Mapping[str, Gallery]) -> dict[str, list[Part]]:
    """Return the parts that tell of the last answers on dev, by task."""
    return {
        name: answer_parts(
            judge,
            galleries[name],
            of="on dev",
            temperature=temperature_of(scores.model.tasks[name]),
            first=scores.choose_by,
        )
        for name, judge in scores.judges.items()
    }


def temperature_of(task: Scored) -> float | None:
    """Return what the scores of a task are divided by, where its chances have been fitted."""
    return task.options.get("temperature") if isinstance(task, Tempered) else None


def training_report(
    title: str, by_task: Mapping[str, Sequence[Part]], course: Part, *, last: Sequence[Part]
) -> Report:
    """Return the report of a training: scores first, then its course, then all else of one task.

    Several tasks come one after the other.
    """
    summary = f"{_plural('task', by_task)} {', '.join(by_task)}."
    if len(by_task) > 1:
        return Report(title=title, summary=summary, parts=[course], tasks=by_task, last=last)
    scores, *rest = next(iter(by_task.values()))
    return Report(title=title, summary=summary, parts=[scores, course, *rest], last=last)


def fingerprint(origin: Origin, rows: Mapping[str, int] | None = None) -> Fingerprint:
    """Return what a run is made of; `rows` tells how many some inputs hold."""
    files = []
    for name, path in origin.inputs.items():
        sha256 = name_input(path)["sha256"]
        files.append(DataFile(name, shown(path), sha256, (rows or {}).get(name)))
    return Fingerprint(tuple(files))


def findings_of(findings: Sequence[Finding]) -> Findings:
    """Return what a look at the data has found."""
    return Findings(
        tuple(Found(f.severity, f.check, f.places.count, f.said, f.remedy) for f in findings)
    )


def again(origin: Origin) -> Again:
    """Return how to do the same once more."""
    return Again(origin.command, __version__)


def _confidence(found: Calibration | None, temperature: float | None) -> Confidence | None:
    if found is None:
        return None
    points = tuple((one.chance, one.right, one.count) for one in found.bins)
    return Confidence(points, found.ece, found.brier, temperature)


def _plural(word: str, things: Collection[Any]) -> str:
    return f"The {word}{'s' * (len(things) > 1)}"


def _keyed(parts: Sequence[Part]) -> dict[str, Any]:
    return {part.key: _clean(asdict(part)) for part in parts}  # type: ignore[call-overload]


def _clean(value: Any) -> Any:
    """Return JSON data without what is no number."""
    if isinstance(value, Mapping):
        return {key: _clean(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
