"""The parts of a report that tell of a run: its course, seeds, data, speed, and its command."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from bertworks.core.device import Machine
from bertworks.evaluation.floors import SeedScores
from bertworks.evaluation.report_blocks import (
    Block,
    Code,
    Curves,
    Estimate,
    Heading,
    Table,
    Text,
    number,
    sentence,
)


@dataclass(frozen=True)
class Course:
    """How a run went, step by step."""

    key: ClassVar[str] = "curves"
    charts: tuple[Curves, ...]

    def blocks(self) -> Iterator[Block]:
        """Show the curves."""
        if not self.charts:
            return
        yield Heading("Course of the training")
        yield from self.charts
        if all(len(own) < 2 for chart in self.charts for own in chart.curves.values()):
            yield Text("Too few steps were made to draw a curve.", is_note=True)


@dataclass(frozen=True)
class SeedRow:
    """What one seed came to."""

    seed: int
    score: float
    is_best: bool = False
    has_collapsed: bool = False


@dataclass(frozen=True)
class Seeds:
    """What several seeds came to."""

    key: ClassVar[str] = "seeds"
    score: str  # its name
    rows: tuple[SeedRow, ...]
    mean: float | None = None
    deviation: float | None = None
    floor: float | None = None  # what one and the same answer for all scores

    @classmethod
    def of(cls, score: str, found: SeedScores) -> Self:
        """Take the scores of all seeds."""
        rows = (
            SeedRow(seed, own, seed == found.best, seed in found.collapsed)
            for seed, own in found.scores.items()
        )
        return cls(score, tuple(rows), found.mean, found.deviation, found.floor)

    def blocks(self) -> Iterator[Block]:
        """Show each seed, and what they have in common."""
        yield Heading("Seeds")
        rows = [(number(row.seed), Estimate("", row.score), _remark(row)) for row in self.rows]
        yield Table(("seed", self.score.replace("_", " "), "remark"), rows)
        told = {"Mean": self.mean, "deviation": self.deviation, "floor": self.floor}
        known = [f"{name} {number(value)}" for name, value in told.items() if value is not None]
        collapsed = sum(row.has_collapsed for row in self.rows)
        if known:
            yield Text(f"{', '.join(known)}; {collapsed} of {len(self.rows)} seeds collapsed.")


@dataclass(frozen=True)
class DataFile:
    """One thing that a run was made of."""

    name: str
    path: str
    sha256: str | None
    rows: int | None = None


@dataclass(frozen=True)
class Fingerprint:
    """What a run was made of, so that it can be told whether it is still the same."""

    key: ClassVar[str] = "data"
    files: tuple[DataFile, ...]

    def blocks(self) -> Iterator[Block]:
        """Show each file with its hash."""
        yield Heading("Data")
        rows = [(own.name, own.path, number(own.rows), _hash(own)) for own in self.files]
        yield Table(("", "path", "rows", "sha256"), rows)


@dataclass(frozen=True)
class Found:
    """One thing that a look at the data has found."""

    severity: str
    check: str
    rows: int
    said: str
    remedy: str = ""


@dataclass(frozen=True)
class Findings:
    """What a look at the data has found."""

    key: ClassVar[str] = "findings"
    findings: tuple[Found, ...]

    def blocks(self) -> Iterator[Block]:
        """Show what was found, the worst first."""
        yield Heading("What a look at the data found")
        if not self.findings:
            yield Text("Nothing to worry about was found.")
            return
        rows = [(f.severity, f.check, number(f.rows or None), f.said) for f in self.findings]
        header = ("", "what", "rows", "found")
        if not any(f.remedy for f in self.findings):
            yield Table(header, rows)
            return
        remedies = [(f.remedy,) for f in self.findings]
        yield Table((*header, "remedy"), [a + b for a, b in zip(rows, remedies, strict=True)])


@dataclass(frozen=True)
class Warnings:
    """What went wrong in a run."""

    key: ClassVar[str] = "warnings"
    warnings: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Show one sentence each."""
        if self.warnings:
            yield Heading("Warnings")
            yield from map(Text, map(sentence, self.warnings))


@dataclass(frozen=True)
class Speed:
    """How long the work took, and what it needed."""

    key: ClassVar[str] = "speed"
    machine: str
    seconds: float
    counts: Mapping[str, float]  # what was done in this time, such as steps and examples
    peak_memory: int | None = None  # bytes

    @classmethod
    def of(cls, machine: Machine, seconds: float, counts: Mapping[str, float]) -> Self:
        """Tell of work that was done on a machine."""
        return cls(str(machine), seconds, counts, machine.peak_memory())

    def blocks(self) -> Iterator[Block]:
        """Show the time, the pace and the memory."""
        yield Heading("Speed and memory")
        rows = [("machine", self.machine), ("seconds", f"{self.seconds:,.1f}")]
        for name, count in self.counts.items():
            rows.append((name, f"{count:,.0f}"))
            if self.seconds > 0:
                rows.append((f"{name} a second", f"{count / self.seconds:,.1f}"))
        if self.peak_memory is not None:
            rows.append(("most memory in use", f"{self.peak_memory / 2**30:,.2f} GiB"))
        yield Table(("", "value"), rows)


@dataclass(frozen=True)
class Again:
    """How to do the same once more."""

    key: ClassVar[str] = "again"
    command: str
    version: str

    def blocks(self) -> Iterator[Block]:
        """Show the command."""
        yield Heading("Run it again")
        yield Code(self.command)
        yield Text(f"bertworks {self.version}", is_note=True)


def _remark(row: SeedRow) -> str:
    return ", ".join(["best"] * row.is_best + ["collapsed"] * row.has_collapsed)


def _hash(own: DataFile) -> str:
    return own.sha256 or "none: a folder without a manifest"
