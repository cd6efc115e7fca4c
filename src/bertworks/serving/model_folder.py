"""Model folders: opened for work or for further training, and written, in one way each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertworks.core.artifact import MANIFEST, Origin, open_artifact, saving
from bertworks.core.errors import ArtifactError
from bertworks.interop.hugging_face import open_folder, write_folder
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
    folder = open_folder(path)
    if (path / MANIFEST).exists():
        open_artifact(path, "model")
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
    new = [name for name in model.tasks if name not in folder.tasks]
    # A folder saved without a pooler (a masked-language model) starts a fresh one too.
    may_miss = (*(f"heads.{name}." for name in new), "encoder.pooler.")
    return OpenModel(model, tokenizer, load_weights(model, folder.tensors(), may_miss=may_miss))


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
        tokenizer.save(folder)
