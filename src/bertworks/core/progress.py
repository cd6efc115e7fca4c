"""What a person sees while a stage works: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 10.0
_is_muted = False


class Meter(Protocol):
    """Something that is told how far the work has come."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Say that this much more is done."""


class SilentMeter:
    """The meter of work that nobody watches."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Take note of nothing."""


def say(message: str, *, is_error: bool = False) -> None:
    """Write one line for the person at the screen; results go to standard output instead.

    A screen that is gone (a pipe nobody reads, a lost connection) is no reason to end the work.
    """
    if is_error or not _is_muted:
        try:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
        except OSError:
            mute()


def mute() -> None:
    """Say nothing from now on but errors: another process tells how the work goes."""
    global _is_muted
    _is_muted = True


@contextmanager
def progress(label: str, *, total: float | None, unit: str, already: float = 0) -> Iterator[Meter]:
    """Show how far a piece of work has come, its rate and the time left."""
    if _is_muted:
        yield SilentMeter()
        return
    if sys.stderr.isatty():
        with _bar(label, total, unit, already) as meter:
            yield meter
        return
    lines = _Lines(label, total, unit, already)
    yield lines
    lines.write()


@contextmanager
def _bar(label: str, total: float | None, unit: str, already: float) -> Iterator[Meter]:
    # Only a terminal needs the library.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}" + ("/{task.total:,.0f} " if total else " ") + unit),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, completed=int(already), rate="", note="")
        yield _Bar(bar, task, unit)


class _Bar:
    def __init__(self, bar: "Progress", task: "TaskID", unit: str) -> None:
        self.bar, self.task, self.unit = bar, task, unit

    def advance(self, amount: float = 1, note: str = "") -> None:
        speed = self.bar.tasks[self.task].speed
        rate = f"{speed:,.1f} {self.unit}/s" if speed else ""
        self.bar.update(self.task, advance=amount, rate=rate, note=note)


class _Lines:
    def __init__(self, label: str, total: float | None, unit: str, already: float) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self.begun = already
        self.note = ""
        self.started = self.last = time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.write()

    def write(self) -> None:
        self.last = time.monotonic()
        rate = (self.done - self.begun) / max(self.last - self.started, 1e-9)
        parts = [f"{self.label}: {self.done:,.0f}", f" {self.unit}, {rate:,.1f} {self.unit}/s"]
        if self.total:
            parts.insert(1, f"/{self.total:,.0f}")
            if rate and self.total > self.done:
                parts.append(f", {(self.total - self.done) / rate:,.0f} s left")
        say("".join(parts) + (f", {self.note}" if self.note else ""))
