"""A training run on disk: its log, its checkpoints, its best weights.

RUN/log.jsonl                  one line per step; the same bytes however often the run was killed
RUN/checkpoints/step-…/        model and optimizer tensors, and the counters
RUN/best/                      the weights that scored best so far
"""

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertworks.core.artifact import (
    MANIFEST,
    Origin,
    is_whole,
    name_input,
    open_artifact,
    refuse_existing,
    saving,
    sweep_leftovers,
    write_synced,
)
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.progress import say
from bertworks.model.weights import load_weights, read_tensors, write_tensors
from bertworks.training.optimizer import optimizer_tensors, restore_optimizer

KEPT_CHECKPOINTS = 2
FREE_SETTINGS = {"resume", "out", "device", "checkpoint_every", "workers", "threads"}


@dataclass(frozen=True)
class Counters:
    """Where a run stands; all else follows from the settings and the step."""

    step: int = 0
    skipped_in_a_row: int = 0
    best_step: int = 0
    best_score: float = -math.inf


class Run:
    """The folder of one training run."""

    def __init__(self, folder: Path, *, origin: Origin, resume: bool) -> None:
        self.folder = folder
        self.origin = origin
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "log.jsonl"
        self._torn: set[int] = set()  # steps whose checkpoint was passed over
        if (folder / MANIFEST).exists():
            raise UsageError(
                f"{folder} holds a finished run; choose another --out or remove it first"
            )
        if self._steps() and not resume:
            raise UsageError(
                f"{folder} holds an unfinished run; continue it with --resume auto, "
                "choose another --out, or remove it"
            )
        if not self.checkpoints.is_dir():  # not a run's folder, so its files are someone's
            refuse_existing(folder)
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Counters:
        """Continue from the newest whole checkpoint, or from the beginning."""
        counters = Counters()
        sweep_leftovers(self.checkpoints)
        for step in reversed(self._steps()):
            path = self._path(step)
            try:
                self._check_settings(open_artifact(path, "checkpoint"))
            except ArtifactError as error:
                say(f"warning: checkpoint {path} is passed over: {error}")
                self._torn.add(step)
                continue
            load_weights(model, read_tensors(path / "model.safetensors"))
            restore_optimizer(model, optimizer, read_tensors(path / "optimizer.safetensors"))
            counters = Counters(**_read_counters(path))
            say(f"resuming after step {counters.step}")
            break
        self._cut_log(counters.step)
        return counters

    def save(self, model: nn.Module, optimizer: torch.optim.Optimizer, counters: Counters) -> None:
        """Write a checkpoint, then forget the torn ones and the oldest beyond those kept."""
        path = self._path(counters.step)
        if path.exists():  # torn, or it would have been resumed from
            shutil.rmtree(path)
        self._torn.discard(counters.step)
        self._sync_log()
        with saving(path, kind="checkpoint", origin=self.origin) as folder:
            write_tensors(folder / "model.safetensors", dict(model.named_parameters()))
            write_tensors(folder / "optimizer.safetensors", optimizer_tensors(model, optimizer))
            _write_counters(folder, counters)
        good = [step for step in self._steps() if step not in self._torn]
        for step in set(self._steps()).difference(good[-KEPT_CHECKPOINTS:]):
            shutil.rmtree(self._path(step))

    def save_best(self, model: nn.Module) -> None:
        """Keep these weights as the best so far."""
        origin = self.origin
        with saving(
            self.folder / "best", kind="checkpoint", origin=origin, replacing=True
        ) as folder:
            write_tensors(folder / "model.safetensors", dict(model.named_parameters()))

    def load_best(self, model: nn.Module) -> None:
        """Put the best weights into the model."""
        open_artifact(self.folder / "best", "checkpoint")
        load_weights(model, read_tensors(self.folder / "best" / "model.safetensors"))

    def record(self, entry: dict[str, Any]) -> None:
        """Add one line to the log; numbers that are none are written as words."""
        clean = {key: _jsonable(value) for key, value in entry.items()}
        with _writing(self.log), self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(clean) + "\n")

    def _check_settings(self, manifest: dict[str, Any]) -> None:
        if change := _first_change(self.folder, manifest, self.origin):
            raise UsageError(f"{change} or choose another --out")

    def _steps(self) -> list[int]:
        """Return the steps that have a checkpoint folder, whole or not."""
        names = (path.name for path in self.checkpoints.glob("step-*"))
        return sorted(int(name[5:]) for name in names if name[5:].isdigit())

    def _path(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def _cut_log(self, step: int) -> None:
        """Drop the lines of steps that will be done again."""
        if not self.log.exists():
            return
        kept = []
        for line in self.log.read_bytes().splitlines(keepends=True):
            if _step_of(line) > step:
                break
            kept.append(line)
        temporary = self.log.with_suffix(".tmp")
        with _writing(self.log):
            write_synced(temporary, b"".join(kept))
            temporary.replace(self.log)

    def _sync_log(self) -> None:
        with _writing(self.log), self.log.open("a") as file:
            os.fsync(file.fileno())


def is_finished(folder: Path, origin: Origin) -> bool:
    """Tell whether a folder holds the finished run of these very settings and inputs."""
    if not (folder / MANIFEST).exists():
        return False
    return _first_change(folder, open_artifact(folder, "model"), origin) is None


def whole_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run that could be resumed from, oldest first."""
    return [p for p in sorted((folder / "checkpoints").glob("step-*")) if is_whole(p, "checkpoint")]


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's log."""
    path = folder / "log.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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


def _step_of(line: bytes) -> float:
    """Return the step of a log line; one that is torn belongs to no step that is over."""
    try:
        entry = json.loads(line)
        return float(entry["step"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


def _first_change(folder: Path, manifest: dict[str, Any], origin: Origin) -> str | None:
    """Return what differs from the run that a manifest tells of, and what to do, or None."""
    before, now = manifest["settings"], origin.settings
    for key in now:
        if key not in FREE_SETTINGS and before.get(key) != now[key]:
            begun = f"{folder} was begun with {key} = {before.get(key)!r}, now {now[key]!r}"
            return f"{begun}; resume with the same settings"
    for name, path in origin.inputs.items():
        if manifest["inputs"].get(name, {}).get("sha256") != name_input(path)["sha256"]:
            return f"{path} has changed since {folder} was begun; put it back as it was"
    return None


def _write_counters(folder: Path, counters: Counters) -> None:
    entries = {key: _jsonable(value) for key, value in asdict(counters).items()}
    (folder / "counters.json").write_text(json.dumps(entries))


def _read_counters(folder: Path) -> dict[str, Any]:
    entries = json.loads((folder / "counters.json").read_text())
    return {
        key: float(value) if isinstance(value, str) else value for key, value in entries.items()
    }


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
