"""The log of a run: one line of JSON for each step, the same bytes however often it was killed."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertworks.core.artifact import replace_synced
from bertworks.core.errors import ArtifactError

LOG = "log.jsonl"
# What a line has beside the losses of the tasks.
LOG_KEYS = {"step", "lr", "gradient_norm", "skipped", "reason", "evaluation"}


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's log."""
    path = folder / LOG
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def add_line(log: Path, entry: Mapping[str, Any]) -> None:
    """Add one line; numbers that are none are written as words."""
    with _writing(log), log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(as_plain(entry)) + "\n")


def cut_behind(log: Path, step: int) -> None:
    """Drop the lines of steps that will be done again."""
    if not log.exists():
        return
    kept = []
    for line in log.read_bytes().splitlines(keepends=True):
        if _step_of(line) > step:
            break
        kept.append(line)
    with _writing(log):
        replace_synced(log, b"".join(kept))


def sync(log: Path) -> None:
    """Wait until what was added lies on the disk."""
    with _writing(log), log.open("a") as file:
        os.fsync(file.fileno())


def as_plain(value: Any) -> Any:
    """Return a value as JSON can say it: numbers that are none as words."""
    if isinstance(value, Mapping):
        return {key: as_plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _step_of(line: bytes) -> float:
    """Return the step of a line; one that is torn belongs to no step that is over."""
    try:
        entry = json.loads(line)
        return float(entry["step"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say in one sentence what the disk refused."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(
            f"cannot write {path}: {error.strerror or error}; free some space and continue with "
            "--resume auto"
        ) from error
