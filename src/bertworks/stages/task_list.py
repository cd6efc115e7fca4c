"""What a fine-tuning learns: one task by its flags, or several by a file with a table for each."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from bertworks.core.errors import UsageError
from bertworks.core.settings import make_settings, read_values, settings_of
from bertworks.data.rows import parse_columns
from bertworks.stages.setting_groups import Positive
from bertworks.stages.settings import FinetuneSettings
from bertworks.stages.task_settings import TaskKind, TaskSettings
from bertworks.training.log import LOG_KEYS

OF_ONE_TASK = ("train", "dev", "task", "columns")


@dataclass(frozen=True, kw_only=True)
class TaskSource:
    """Where the examples of a task lie, and how it is learned: a table of the file."""

    train: Path
    """Labelled examples."""
    dev: Path
    """Labelled examples that choose the best epoch."""
    task: TaskKind | None = None
    """The kind of task; by default the columns tell."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence."""
    weight: Positive = 1.0
    """How much the task's loss counts."""
    of_task: TaskSettings = TaskSettings()
    name: str | None = None
    """Among the tasks of the model; by default as its kind."""

    @property
    def flags(self) -> dict[str, Any]:
        """The settings of some tasks that are given."""
        return {name: value for name, value in vars(self.of_task).items() if value is not None}

    @property
    def reading_flags(self) -> list[str]:
        """The flags by which any command reads the examples as they are read here."""
        task = ["--task", self.task] if self.task else []
        return [*task, *(["--columns", *self.columns] if self.columns else [])]


def task_sources(settings: FinetuneSettings) -> list[TaskSource]:
    """Return the tasks that are to be learned."""
    if settings.several.tasks is not None:
        _refuse_flags(settings)
        return read_task_list(settings.several.tasks)
    if settings.train is None or settings.dev is None:
        raise UsageError(
            "finetune needs --train and --dev, or --tasks; see bertworks finetune --help"
        )
    source = TaskSource(
        train=settings.train,
        dev=settings.dev,
        task=settings.task,
        columns=settings.columns,
        of_task=settings.of_task,
    )
    return [source]


def read_task_list(file: Path) -> list[TaskSource]:
    """Read a TOML file with a table for each task; its paths begin at the file's folder."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    if not tables:
        raise UsageError(f"{file} has no tables; give it one for each task, as [sentiment]")
    return [_read_table(file, name, table) for name, table in tables.items()]


def _renamed(ours: str, theirs: Any, where: str) -> str:
    """Return a column of a table as words: its name or number in the file, or several names."""
    several = theirs if isinstance(theirs, list) and theirs else [theirs]
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in several):
        raise UsageError(
            f"{where} columns: {ours} is {theirs!r}, but it must be a name, a number, or a list of "
            "names"
        )
    return f"{ours}={','.join(map(str, several))}"


def _read_table(file: Path, name: str, table: Any) -> TaskSource:
    where = f"{file} [{name}]"
    if not isinstance(table, dict):
        raise UsageError(f"{file} has {name!r} at its top, but it takes only tables of tasks")
    if not name.isidentifier() or hasattr(nn.ModuleDict(), name) or name in LOG_KEYS:
        other = re.sub(r"\W", "_", f"{name}_task")
        raise UsageError(f"{where} cannot be the name of a task; choose another, as {other}")
    given = {key.replace("-", "_"): value for key, value in table.items()}
    if isinstance(columns := given.get("columns"), dict):
        given["columns"] = [_renamed(ours, theirs, where) for ours, theirs in columns.items()]
    if "name" in given:
        raise UsageError(f"{where} has a name, but it is named by its table; leave it out")
    for key in ("train", "dev"):
        if key not in given:
            raise UsageError(f"{where} has no {key}; add the file of its examples")
    source = make_settings(TaskSource, read_values(TaskSource, given, where=where), command=where)
    parse_columns(source.columns, where=f"{where} columns")
    files = {key: file.parent / getattr(source, key) for key in ("train", "dev")}
    return replace(source, name=name, **files)


def _refuse_flags(settings: FinetuneSettings) -> None:
    """Stop when flags of one task are given beside a file of several."""
    known = {setting.name: setting for setting in settings_of(FinetuneSettings)}
    given = {name: getattr(settings, name) for name in OF_ONE_TASK} | vars(settings.of_task)
    for name, value in given.items():
        if value != known[name].default:
            raise UsageError(
                f"{known[name].flag} is for one task; put it into the tables of "
                f"{settings.several.tasks}"
            )
