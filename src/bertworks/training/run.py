"""A training run on disk: its log, its checkpoints, its best weights.

RUN/log.jsonl                  one line per step; the same bytes however often the run was killed
RUN/checkpoints/step-…/        model and optimizer tensors, the counters, the time it took
RUN/checkpoints/lock           held by the process that trains
RUN/best/step-…/               the weights that scored best so far
"""

import json
import math
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.core.artifact import (
    MANIFEST,
    Origin,
    first_change,
    is_whole,
    open_artifact,
    refuse_existing,
    saving,
    sweep_leftovers,
)
from bertworks.core.crew import Crew
from bertworks.core.errors import ArtifactError, TrainingError, UsageError
from bertworks.core.lock import hold
from bertworks.core.progress import say
from bertworks.model.weights import load_weights, write_tensors
from bertworks.training import log
from bertworks.training.average import Average
from bertworks.training.health import LONGEST_ROLLBACK, Health
from bertworks.training.optimizer import optimizer_tensors, restore_optimizer
from bertworks.training.pace import Spent
from bertworks.training.sharding import fitted, own_rows, part_name, read_parts
from bertworks.training.together import refuse_strangers, saving_together

KEPT_CHECKPOINTS = 2
Tensors = dict[str, Tensor]
ALONE = Crew()
FREE_SETTINGS = {
    "resume",
    "out",
    "device",
    "checkpoint_every",
    "workers",
    "threads",
    "sharding",
    "lost_after",
}


@dataclass(frozen=True)
class Counters:
    """Where a run stands; all else follows from the settings and the step."""

    step: int = 0
    best_step: int = 0
    best_score: float = -math.inf
    health: Health = field(default_factory=Health)
    spent: Spent = field(default_factory=Spent, compare=False)  # two runs are equal at any speed


class Run:
    """The folder of one training run."""

    def __init__(
        self,
        folder: Path,
        *,
        origin: Origin,
        resume: bool,
        is_shared: bool = True,
        crew: Crew = ALONE,
    ) -> None:
        self.folder = folder
        self.origin = origin
        self.crew = crew
        self.writers = ALONE  # those who write a checkpoint together
        self.checkpoints = folder / "checkpoints"
        self.log = folder / log.LOG
        self._torn: set[int] = set()  # steps whose checkpoint was passed over
        refuse_strangers(crew, origin)
        crew.lead(lambda: self._begin(resume=resume, is_shared=is_shared))
        if not self.checkpoints.is_dir():
            raise UsageError(
                f"process {crew.rank} cannot see {self.checkpoints}, which the first has made; put "
                "--out on a disk that all machines share"
            )

    @property
    def is_writer(self) -> bool:
        """Whether this process has a part in writing checkpoints."""
        return self.crew.is_first or self.writers.size > 1

    def write_together(self) -> None:
        """Let every process write its own part of the checkpoints."""
        self.writers = self.crew.aside()

    def restore(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: Average | None = None,
    ) -> Counters:
        """Continue from the newest whole checkpoint, or from the beginning."""
        newest = self.crew.lead(self._find_newest)
        counters = Counters() if newest is None else self._load(newest, model, optimizer, average)
        if newest is not None:
            say(f"resuming after step {counters.step}")
        self._cut_log(counters.step)
        return counters

    def go_back(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: Average | None = None,
        *,
        before: int,
    ) -> Counters:
        """Return to the newest whole checkpoint from before a step; what came after it is gone."""
        target = self.crew.lead(lambda: self._forget_since(before))
        counters = self._load(target, model, optimizer, average)
        self._cut_log(counters.step)
        return counters

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        counters: Counters,
        average: Average | None = None,
    ) -> None:
        """Write a checkpoint of what a model has learned."""
        self.write(state_of(model, optimizer, average), counters)

    def write(self, state: dict[str, Tensors], counters: Counters) -> None:
        """Write a checkpoint, then forget the torn ones and the oldest beyond those kept."""
        path = self._path(counters.step)
        if self.writers.is_first:
            if path.exists():  # torn, or it would have been resumed from
                shutil.rmtree(path)
            self._torn.discard(counters.step)
            log.sync(self.log)
        with saving_together(path, self.writers, kind="checkpoint", origin=self.origin) as folder:
            for name, tensors in state.items():
                write_tensors(folder / f"{part_name(name, self.writers)}.safetensors", tensors)
            if self.writers.is_first:
                _write_counters(folder, counters)
        if self.writers.is_first:
            self._forget_old()

    def write_best(self, weights: Tensors, step: int) -> None:
        """Keep these weights as the best so far, beside those that a checkpoint still knows."""
        path = self._best(step)
        shutil.rmtree(path, ignore_errors=True)  # of a step that is done again
        with saving(path, kind="checkpoint", origin=self.origin) as folder:
            write_tensors(folder / "model.safetensors", weights)
        self._forget_best(self._steps(), but=step)

    def load_best(self, model: nn.Module, step: int) -> None:
        """Put the best weights, those of a step, into the model; the first may still write them."""
        self.crew.lead(lambda: open_artifact(self._best(step), "checkpoint"))
        self._load_weights(model, self._best(step))

    def record(self, entry: dict[str, Any]) -> None:
        """Add one line to the log."""
        if self.crew.is_first:
            log.add_line(self.log, entry)

    def _cut_log(self, step: int) -> None:
        if self.crew.is_first:
            log.cut_behind(self.log, step)

    def _begin(self, *, resume: bool, is_shared: bool) -> None:
        refuse_taken(self.folder, resume=resume)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        if is_shared and not hold(self.checkpoints / "lock"):
            raise UsageError(
                f"another process is training in {self.folder}; wait for its end or choose another "
                "--out"
            )

    def _check_settings(self, manifest: dict[str, Any]) -> None:
        if change := first_change(self.folder, manifest, self.origin, free=FREE_SETTINGS):
            raise UsageError(f"{change} or choose another --out")

    def _steps(self) -> list[int]:
        return _steps_in(self.checkpoints)

    def _path(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def _best(self, step: int) -> Path:
        return self.folder / "best" / f"step-{step:08d}"

    def _find_newest(self) -> int | None:
        """Clear away what was never finished; return the newest step that can be resumed from."""
        sweep_leftovers(self.checkpoints)
        return self._newest_whole(self._steps())

    def _forget_since(self, before: int) -> int:
        """Return the newest whole step from before another; remove all that came after it."""
        steps = self._steps()
        target = self._newest_whole([step for step in steps if step < before])
        if target is None:
            raise TrainingError(
                f"the loss has risen for good and no checkpoint is left from before step {before}; "
                "begin again elsewhere with a lower --lr, or save more often (--checkpoint-every)"
            )
        for step in reversed([step for step in steps if step > target]):
            shutil.rmtree(self._path(step))
        return target

    def _newest_whole(self, steps: list[int]) -> int | None:
        """Return the newest of these checkpoints that is whole; say which ones are not."""
        for step in reversed(steps):
            path = self._path(step)
            try:
                self._check_settings(open_artifact(path, "checkpoint"))
            except ArtifactError as error:
                say(f"warning: checkpoint {path} is passed over: {error}")
                self._torn.add(step)
            else:
                return step
        return None

    def _load(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: Average | None,
    ) -> Counters:
        path = self._path(step)
        self._load_weights(model, path)
        restore_optimizer(model, optimizer, read_parts(path, "optimizer"))
        if average is not None:
            average.restore(read_parts(path, "average"))
        return _read_counters(path)

    def _load_weights(self, model: nn.Module, path: Path) -> None:
        tensors, own = read_parts(path, "model"), dict(model.named_parameters())
        load_weights(model, {name: fitted(tensors[name], own.get(name)) for name in tensors})

    def _forget_old(self) -> None:
        """Remove the checkpoints beyond those kept, then best weights that none of them names."""
        good = [step for step in self._steps() if step not in self._torn]
        is_old = [step < good[-1] - LONGEST_ROLLBACK for step in good]
        # One that a rollback could reach, and one that will grow as old; a dense run needs both.
        anchors = good[max(sum(is_old) - 1, 0) : sum(is_old) + 1]
        kept = {*good[-KEPT_CHECKPOINTS:], *anchors}
        for step in set(self._steps()) - kept:
            shutil.rmtree(self._path(step))
        self._forget_best(kept)

    def _forget_best(self, checkpoints: Iterable[int], *, but: int | None = None) -> None:
        """Remove the best weights that no checkpoint of these steps names, but those of one."""
        named = {self._best(_best_step(self._path(step))) for step in checkpoints}
        if but is not None:
            named.add(self._best(but))
        for path in set((self.folder / "best").glob("step-*")) - named:
            shutil.rmtree(path)


def state_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None = None
) -> dict[str, Tensors]:
    """Return the tensors of a checkpoint by the name of their file."""
    weights: Tensors = dict(model.named_parameters())
    state = {"model": weights, "optimizer": optimizer_tensors(model, optimizer)}
    if average is not None:
        state["average"] = average.tensors()
    return {
        file: {name: own_rows(tensor) for name, tensor in tensors.items()}
        for file, tensors in state.items()
    }


def is_finished(folder: Path, origin: Origin) -> bool:
    """Tell whether a folder holds the finished run of a command; stop if it has changed since."""
    if not (folder / MANIFEST).exists():
        return False
    manifest = open_artifact(folder, "model")
    if manifest["command"].split()[:2] != origin.command.split()[:2]:
        return False  # another command has made it
    if change := first_change(folder, manifest, origin, free=FREE_SETTINGS):
        raise UsageError(
            f"{change} or choose another --out; to train the finished model on: --model {folder} "
            "--out NEW"
        )
    return True


def refuse_taken(folder: Path, *, resume: bool) -> None:
    """Stop where a folder holds a finished run, a run that is not to go on, or other files."""
    if (folder / MANIFEST).exists():
        raise UsageError(f"{folder} holds a finished run; choose another --out or remove it first")
    if _steps_in(folder / "checkpoints") and not resume:
        raise UsageError(
            f"{folder} holds an unfinished run; continue it with --resume auto, "
            "choose another --out, or remove it"
        )
    if not (folder / "checkpoints").is_dir():  # not a run's folder, so its files are someone's
        refuse_existing(folder)


def whole_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run that could be resumed from, oldest first."""
    return [p for p in sorted((folder / "checkpoints").glob("step-*")) if is_whole(p, "checkpoint")]


def _steps_in(checkpoints: Path) -> list[int]:
    """Return the steps that have a checkpoint folder, whole or not."""
    names = (path.name for path in checkpoints.glob("step-*"))
    return sorted(int(name[5:]) for name in names if name[5:].isdigit())


def _write_counters(folder: Path, counters: Counters) -> None:
    """Write where a run stands; the time, the one thing that a kill may change, lies apart."""
    entries = asdict(counters)
    (folder / "time.json").write_text(json.dumps(entries.pop("spent")))
    (folder / "counters.json").write_text(json.dumps(log.as_plain(entries)))


def _read_counters(folder: Path) -> Counters:
    entries = json.loads((folder / "counters.json").read_text())
    health = Health.from_json(entries.pop("health"))
    seconds = entries.pop("seconds", 0.0)  # here runs of earlier versions had them
    told, place = folder / "time.json", {"seconds": seconds, "place": seconds}
    spent = Spent(**(json.loads(told.read_text()) if told.exists() else place))
    numbers: dict[str, Any] = {
        key: float(value) if isinstance(value, str) else value for key, value in entries.items()
    }
    return Counters(**numbers, health=health, spent=spent)


def _best_step(checkpoint: Path) -> int:
    """Return the best step that a checkpoint names; one that was torn meanwhile names none."""
    try:
        return _read_counters(checkpoint).best_step
    except (OSError, ValueError, KeyError, TypeError):
        return 0
