"""Model folders: opened for work or for further training, and written, in one way each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertworks.core.artifact import MANIFEST, Origin, open_artifact, saving
from bertworks.core.errors import ArtifactError
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.hugging_face import open_folder, write_folder
from bertworks.interop.sentence_transformers import (
    encoder_folder,
    lowercased,
    read_recipe,
    write_recipe,
)
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.encoder import initialize
from bertworks.model.weights import Account, load_weights
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

# Models of these tasks alone are saved without the pooler, which they never trained.
WITHOUT_POOLER = {"fill_mask", "replaced_token"}


@dataclass(frozen=True)
class OpenModel:
    """A model in memory with its tokenizer, and how its weights fitted."""

    model: TaskModel
    tokenizer: Tokenizer
    account: Account | None  # None: no weights were loaded
    recipe: EmbeddingRecipe | None = None  # None: the folder does not say how to embed


def open_model(
    path: Path,
    *,
    tasks: Sequence[Task] | None = None,
    dropout: float | None = None,
    fresh: bool = False,
    pickled: bool = False,
    seed: int = 0,
) -> OpenModel:
    """Open a model folder, for its own tasks or with fresh heads for others.

    `fresh` leaves all weights as they are drawn from the seed: the same network, untrained.
    `pickled` reads pytorch_model.bin, as only an explicit import does.
    """
    if (path / MANIFEST).exists():
        open_artifact(path, "model")
    folder = open_folder(encoder_folder(path))
    own = [
        make_task(note.kind or name, note.labels, name=name, **note.options)
        for name, note in folder.tasks.items()
    ]
    config = folder.config.with_dropout(dropout)
    recipe = read_recipe(path, hidden_size=config.hidden_size, longest=config.max_positions)
    tokenizer = Tokenizer.open(folder.path)
    if recipe and recipe.lowercase:
        tokenizer = lowercased(tokenizer)
    _refuse_stranger(tokenizer, config, path)
    wanted = own if tasks is None else tasks
    if fresh:
        return OpenModel(TaskModel(config, wanted, seed=seed), tokenizer, None, recipe)
    model = TaskModel.without_weights(config, wanted)
    account = _load(model, folder.tensors(pickled=pickled), own)
    initialize(model, seed=seed, only=account.missing)
    return OpenModel(model, tokenizer, account, recipe)


def save_model(
    path: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    origin: Origin,
    recipe: EmbeddingRecipe | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write a model as a folder that Hugging Face's library opens too."""
    with saving(path, kind="model", origin=origin) as folder:
        write_model(folder, model, tokenizer, recipe=recipe, extra=extra)


def write_model(
    folder: Path,
    model: TaskModel,
    tokenizer: Tokenizer,
    *,
    recipe: EmbeddingRecipe | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write the files of a model into a folder that is being saved.

    With a recipe, sentence-transformers opens the folder too.
    """
    tasks = {
        name: TaskNote(task.labels, task.options, task.kind) for name, task in model.tasks.items()
    }
    write_folder(
        folder,
        model.config,
        dict(model.named_parameters()),
        tasks=tasks,
        specials=tokenizer.specials,
        extra=extra,
    )
    tokenizer.save(
        folder,
        max_length=model.config.max_positions,
        has_segments=model.config.num_segments > 1,
    )
    if recipe is not None:
        write_recipe(folder, recipe, hidden_size=model.config.hidden_size)


def _load(model: TaskModel, tensors: Mapping[str, Tensor], own: Sequence[Task]) -> Account:
    """Load the folder's weights; a head for other labels than the folder's starts fresh."""
    known = {task.name: task.labels for task in own}
    new = [name for name, task in model.tasks.items() if known.get(name) != task.labels]
    may_miss = [f"heads.{name}." for name in new]
    if not known.keys() - WITHOUT_POOLER:
        may_miss.append("encoder.pooler.")
    return load_weights(model, tensors, may_miss=may_miss, fresh=may_miss[: len(new)])


def _refuse_stranger(tokenizer: Tokenizer, config: EncoderConfig, path: Path) -> None:
    if tokenizer.vocab_size > config.vocab_size:
        raise ArtifactError(
            f"the tokenizer of {path} has {tokenizer.vocab_size} pieces but the network knows "
            f"{config.vocab_size} (vocab_size in config.json); they belong to different models"
        )
