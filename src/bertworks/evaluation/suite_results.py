"""What the tasks of a suite scored, in one table beside published figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any, ClassVar

from bertworks.evaluation.report_blocks import Block, Table, Text
from bertworks.evaluation.suite_task import SIZES, Figures, SuiteTask

Scores = Mapping[str, float]
PARTS = ("dev", "test")


@dataclass(frozen=True)
class TaskResult:
    """How one task of a suite went."""

    examples: Mapping[str, int] = field(default_factory=dict)  # by part
    scores: Mapping[str, Sequence[Scores]] = field(default_factory=dict)  # by part, by seed
    remarks: tuple[str, ...] = ()
    failure: str | None = None  # why there are no scores
    models: tuple[str, ...] = ()  # the folders of the seeds that were scored, also of those apart

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class SuiteTable:
    """The table of a suite as a part of a report."""

    key: ClassVar[str] = "suite"
    rows: tuple[Mapping[str, str], ...]
    notes: str = ""

    def blocks(self) -> Iterator[Block]:
        """Show all rows, and what a reader must know of them."""
        if self.rows:
            yield Table(_heads(self.rows[0]), [list(row.values()) for row in self.rows])
        yield Text(self.notes, is_note=True)


def table_rows(
    tasks: Mapping[str, SuiteTask], results: Mapping[str, TaskResult]
) -> list[dict[str, str]]:
    """Return a row for each metric of each task: our scores, then the published ones."""
    rows = []
    for name, result in results.items():
        for number, metric in enumerate(tasks[name].metrics):
            ours = {part: _shown(result.scores.get(part, ()), metric.name) for part in PARTS}
            theirs = {size: _published(metric.dev, metric.test, size) for size in SIZES}
            remarks = "; ".join(_remarks(tasks[name], result)) if number == 0 else ""
            rows.append({"task": name, "metric": metric.name, **ours, **theirs, "remark": remarks})
    return rows


def markdown(rows: Sequence[Mapping[str, str]], *, title: str, notes: Sequence[str]) -> str:
    """Return a page with the table."""
    heads = _heads(rows[0]) if rows else ()
    lines = [_line(heads), _line(["---"] * len(heads)), *(_line(row.values()) for row in rows)]
    return "\n".join([f"# {title}", "", *lines, "", *notes]) + "\n"


def _heads(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"BERT-{name}" if name in SIZES else name for name in names)


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"


def _remarks(task: SuiteTask, result: TaskResult) -> list[str]:
    if result.failure is not None:
        return [f"failed: {result.failure}"]
    split = [f"{part} is split off train" for part in task.held_out]
    return [*filter(None, [task.remark]), *split, *result.remarks]


def _shown(scores: Sequence[Scores], metric: str) -> str:
    """Return the mean over the seeds in percent, with its deviation where there are several."""
    values = [100 * found[metric] for found in scores if metric in found]
    if not values:
        return ""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}"


def _published(dev: Figures, test: Figures, size: str) -> str:
    told = {"dev": dev.get(size), "test": test.get(size)}
    return ", ".join(f"{value} {part}" for part, value in told.items() if value is not None)
