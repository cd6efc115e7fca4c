"""Model folders: opened for work or for further training, and written, in one way each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertworks.core.artifact import MANIFEST, Origin, open_artifact, saving
from bertworks.core.errors import ArtifactError
from bertworks.interop.hugging_face import Folder, open_folder, write_folder
from bertworks.model.weights import Account, load_weights
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class OpenModel:
    """A model in memory with its tokenizer, and how its weights fitted."""

    model: TaskModel
    tokenizer: Tokenizer
    account: Account | None  # None: no weights were loaded


def open_model(
    path: Path,
    *,
    tasks: Sequence[Task] | None = None,
    dropout: float | None = None,
    fresh: bool = False,
    seed: int = 0,
) -> OpenModel:
    """Open a model folder, for its own tasks or with fresh heads for others.

    `fresh` leaves all weights as they are drawn from the seed: the same network, untrained.
    """
    if (path / MANIFEST).exists():
        open_artifact(path, "model")
    folder = open_folder(path)
    own = [make_task(name, labels) for name, labels in folder.tasks.items()]
    config = folder.config.with_dropout(dropout)
    model = TaskModel(config, own if tasks is None else tasks, seed=seed)
    tokenizer = Tokenizer.open(path)
    if tokenizer.vocab_size > config.vocab_size:
        raise ArtifactError(
            f"the tokenizer of {path} has {tokenizer.vocab_size} pieces but the network knows "
            f"{config.vocab_size}; they belong to different models"
        )
    if fresh:
        return OpenModel(model, tokenizer, None)
    return OpenModel(model, tokenizer, _load(model, folder, own))


def save_model(
    path: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    origin: Origin,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write a model as a folder that Hugging Face's library opens too."""
    with saving(path, kind="model", origin=origin) as folder:
        tasks = {name: task.labels for name, task in model.tasks.items()}
        tensors: dict[str, Tensor] = dict(model.named_parameters())
        write_folder(folder, model.config, tensors, tasks=tasks, extra=extra)
        tokenizer.save(folder, max_length=model.config.max_positions)


def _load(model: TaskModel, folder: Folder, own: Sequence[Task]) -> Account:
    """Load the folder's weights; a head for other labels than the folder's starts fresh."""
    known = {task.name: task.labels for task in own}
    new = [name for name, task in model.tasks.items() if known.get(name) != task.labels]
    kept = {name: labels for name, labels in folder.tasks.items() if name not in new}
    may_miss = [f"heads.{name}." for name in new]
    if not known.keys() - {"fill_mask"}:
        may_miss.append("encoder.pooler.")  # a masked-language model is saved without one
    return load_weights(model, replace(folder, tasks=kept).tensors(), may_miss=may_miss)
