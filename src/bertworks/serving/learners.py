"""What pre-training trains: drawn fresh or opened from a model folder, and saved as one."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.core.progress import say
from bertworks.core.seeds import derive
from bertworks.core.shipped import shown
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.config import AS_IT_IS, Dropout, EncoderConfig
from bertworks.serving.model_folder import (
    GENERATOR,
    has_generator,
    open_generator,
    open_model,
    write_generator,
    write_model,
)
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import Electra, generator_config
from bertworks.tasks.next_piece import WithNextPiece
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

AnyLearner = TaskModel | WithNextPiece | Electra


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which objectives are learned, and by what."""

    objectives: Collection[str]
    generator_size: float = 0.25  # its width, as a share of the discriminator's
    has_difference: bool = False  # the discriminator's table is the generator's and a difference
    z_loss: float = 0.0
    seed: int = 0

    def task(self, name: str, **options: Any) -> Task:
        """Make the task of an objective."""
        if name == "fill_mask":
            options["z_loss"] = self.z_loss
        return make_task(name, **options)


def draw_learner(
    config: EncoderConfig, wanted: Wanted, *, knowing: Callable[[Tensor], Tensor] | None = None
) -> AnyLearner:
    """Draw fresh networks for these objectives; `knowing` makes more of the drawn table of pieces.

    A generator begins with the same table.
    """
    tasks = [wanted.task(name) for name in _own_objectives(wanted)]
    model = TaskModel(config, tasks, seed=wanted.seed)
    if knowing is not None:
        table = model.encoder.embeddings.pieces.weight
        with torch.no_grad():
            table.copy_(knowing(table.detach()))
    return _assemble(model, wanted, _draw_generator)


def open_learner(
    path: Path, tokenizer: Tokenizer, wanted: Wanted, *, dropout: Dropout = AS_IT_IS
) -> AnyLearner:
    """Open a model folder to train it further; heads that it lacks are drawn fresh."""
    told = open_folder(encoder_folder(path)).tasks
    tasks = [
        wanted.task(name, **(told[name].options if name in told else {}))
        for name in _own_objectives(wanted)
    ]
    opened = open_model(path, tasks=tasks, dropout=dropout, seed=wanted.seed)
    _refuse_stranger(tokenizer, opened.tokenizer, path)
    say(f"weights: {opened.account}")

    def find_generator(model: TaskModel, wanted: Wanted) -> TaskModel:
        if not has_generator(path):
            say(f"{path} has no folder {GENERATOR}, so the generator starts fresh")
            return _draw_generator(model, wanted)
        return open_generator(path, model, task=wanted.task("fill_mask"), dropout=dropout)

    return _assemble(opened.model, wanted, find_generator)


def write_learner(
    folder: Path, learner: AnyLearner, tokenizer: Tokenizer, *, extra: dict[str, Any]
) -> None:
    """Write the model that remains, and ELECTRA's generator beside it."""
    write_model(folder, main_model(learner), tokenizer, extra=extra)
    if isinstance(learner, Electra):
        write_generator(folder, learner.generator, tokenizer)


def main_model(learner: AnyLearner) -> TaskModel:
    """Return the model that remains of what was trained."""
    if isinstance(learner, Electra):
        return learner.alone()
    return learner.model if isinstance(learner, WithNextPiece) else learner


def _own_objectives(wanted: Wanted) -> list[str]:
    """Return the objectives with a head of their own on the model that remains."""
    elsewhere = {"next_piece"}
    if "replaced_token" in wanted.objectives:
        elsewhere.add("fill_mask")  # the generator's
    return [name for name in wanted.objectives if name not in elsewhere]


def _assemble(
    model: TaskModel, wanted: Wanted, find_generator: Callable[[TaskModel, Wanted], TaskModel]
) -> AnyLearner:
    if "replaced_token" in wanted.objectives:
        generator = find_generator(model, wanted)
        return Electra(generator, model, has_difference=wanted.has_difference)
    return WithNextPiece(model) if "next_piece" in wanted.objectives else model


def _draw_generator(model: TaskModel, wanted: Wanted) -> TaskModel:
    """Draw a generator that begins with the table of pieces of the model."""
    config = generator_config(model.config, wanted.generator_size)
    drawn = TaskModel(config, [wanted.task("fill_mask")], seed=derive(wanted.seed, GENERATOR))
    drawn.encoder.embeddings.pieces.load_state_dict(model.encoder.embeddings.pieces.state_dict())
    return drawn


def _refuse_stranger(tokenizer: Tokenizer, own: Tokenizer, path: Path) -> None:
    """Fail where ids of the shards would mean other pieces to the model."""
    given, known = tokenizer.engine.get_vocab(), own.engine.get_vocab()
    different = sorted({piece for piece, _ in given.items() ^ known.items()})
    if different or tokenizer.specials.as_tuple() != own.specials.as_tuple():
        pieces = ", ".join(map(repr, different[:3])) or "the special ones"
        name = shown(path)
        raise ArtifactError(
            f"the shards have another vocabulary than {name} (they differ in {pieces}); tokenize "
            f"the text again with --tokenizer {name}"
        )
