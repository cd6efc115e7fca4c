"""Scores for a model's card: read from what `evaluate` wrote, of one file or of a whole suite."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from bertworks.core.artifact import read_manifest, read_object
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.evaluation.report_blocks import Block, Code, Estimate, Heading, Table, Text

# Of scores.json what is no score of the model.
AS_IT_IS = ("task", "examples", "bad_rows", "intervals", "copying")


@dataclass(frozen=True)
class CardScore:
    """One score with its range, and what it is of."""

    data: str
    metric: str
    examples: int | None  # None: it is of queries, which are not counted
    seeds: int | None  # None: one model was scored, and the range is over examples
    estimate: Estimate
    remark: str = ""  # what differs from the usual, in the words of the suite


@dataclass(frozen=True)
class CardScores:
    """All scores of a card, and the commands that found them."""

    key: ClassVar[str] = "scores"
    rows: tuple[CardScore, ...]
    commands: tuple[str, ...]
    failed: tuple[str, ...] = ()  # tasks of suites that have no scores

    def blocks(self) -> Iterator[Block]:
        """Show the scores, what their ranges mean, and how they were found."""
        yield Heading("Scores")
        if self.failed:
            yield Text(f"Tasks that ended without a score: {', '.join(self.failed)}.")
        if not self.rows:
            yield Text("None were taken.")
            return
        has_remarks = any(row.remark for row in self.rows)
        header = ("data", "score", "examples", "seeds", "value", "remark")
        shown = len(header) if has_remarks else len(header) - 1
        yield Table(header[:shown], [_cells(row)[:shown] for row in self.rows])
        yield Text(
            "Of several seeds the value is their mean, and the range goes from the lowest "
            "to the highest of them. Elsewhere the range holds the score with 95 % confidence, by "
            "a bootstrap over texts."
        )
        for command in self.commands:
            yield Code(command)


def _cells(row: CardScore) -> tuple[str | Estimate, ...]:
    examples = "–" if row.examples is None else f"{row.examples:,}"
    return row.data, row.metric, examples, str(row.seeds or "–"), row.estimate, row.remark


def read_scores(folders: Sequence[Path], model: Collection[str] = ()) -> CardScores:
    """Read the folders that `evaluate` wrote, each of one file or of a suite.

    Given by which sha256 its manifests name a model, scores of another one are refused.
    """
    rows: list[CardScore] = []
    commands, failed = [], list[str]()
    for folder in folders:
        if (folder / "results.json").is_file():
            told = read_object(folder / "results.json")
            _refuse_other(folder, told, model)
            found, without = _of_suite(told, folder)
            rows += found
            failed += without
            commands.append(str(told.get("command", "")))
        elif (folder / "scores.json").is_file():
            manifest = read_manifest(folder)
            _refuse_other(folder, manifest, model)
            rows += _of_file(read_object(folder / "scores.json"), manifest, folder)
            commands.append(manifest["command"])
        else:
            raise ArtifactError(
                f"{folder} has neither results.json nor scores.json; give a folder that "
                "bertworks evaluate wrote"
            )
    return CardScores(tuple(rows), tuple(commands), tuple(failed))


def _refuse_other(folder: Path, told: dict[str, Any], model: Collection[str]) -> None:
    of = told.get("inputs", {}).get("model", {})
    if model and of.get("sha256") and of["sha256"] not in model:
        raise UsageError(
            f"the scores in {folder} are of {of.get('path')}, which is another model; give scores "
            "of this one, or of the one that it was exported from"
        )


def _of_suite(told: dict[str, Any], folder: Path) -> tuple[list[CardScore], list[str]]:
    """Return the scores by which a suite is told, and the tasks that have none."""
    rows = []
    try:
        failed = [name for name, task in told["tasks"].items() if task["failure"]]
        for name, metric in ((row["task"], row["metric"]) for row in told["rows"]):
            task = told["tasks"][name]
            for part, by_seed in task["scores"].items():
                values = [float(scores[metric]) for scores in by_seed if metric in scores]
                if values:  # not every set has a test part
                    ends = (min(values), max(values)) if len(values) > 1 else (None, None)
                    found = Estimate(metric, fmean(values), *ends)
                    examples = task["examples"].get(part)
                    remark = "; ".join(task.get("remarks", ()))
                    of = f"{name}, {part}"
                    rows.append(CardScore(of, metric, examples, len(values), found, remark))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{folder / 'results.json'} is no table of a suite ({error!r}); run it again"
        ) from error
    return rows, failed


def _of_file(told: dict[str, Any], manifest: dict[str, Any], folder: Path) -> Iterator[CardScore]:
    """Yield the scores of one file, with their ranges where there are such."""
    try:
        ranges = {row["score"]: row for row in told.get("intervals", [])}
        data = Path(manifest["inputs"]["data"]["path"]).name
        for metric, value in told.items():
            if metric not in AS_IT_IS:
                low, high = (ranges.get(metric, {}).get(end) for end in ("low", "high"))
                found = Estimate(metric, float(value), low, high)
                yield CardScore(data, metric, told["examples"], None, found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{folder / 'scores.json'} holds no scores ({error!r}); run evaluate again"
        ) from error
