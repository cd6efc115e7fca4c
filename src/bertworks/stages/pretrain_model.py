"""The model that a pre-training begins with: drawn by its size, or one that goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bertworks.core.crew import Crew
from bertworks.core.device import Machine
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.core.shipped import shown
from bertworks.data.neighbors import count_neighbors
from bertworks.data.shards import Shards
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.config import Dropout, EncoderConfig
from bertworks.model.first_vectors import begin_counted
from bertworks.serving.learners import AnyLearner, Wanted, draw_learner, open_learner
from bertworks.stages.settings import PretrainSettings
from bertworks.tasks.objectives import LEARNED_ALONE, WEIGHTS, read_objectives
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.run import whole_checkpoints

DEFAULT_SIZE = "mini"


def config_of(settings: PretrainSettings, shards: Shards) -> EncoderConfig:
    """Describe the network by its size, or take the description of a model."""
    if settings.model is not None:
        return _config_of_model(settings.model, settings)
    config = EncoderConfig.named(settings.size or DEFAULT_SIZE)
    # A position that no text reaches would stay untrained, and be read by longer texts later.
    sized = replace(config, vocab_size=shards.vocab_size, max_positions=settings.longest)
    return sized.with_dropout(**vars(settings.dropping))


def _config_of_model(path: Path, settings: PretrainSettings) -> EncoderConfig:
    config = open_folder(encoder_folder(path)).config
    if settings.size is not None:
        raise UsageError(
            f"--size {settings.size} and --model {shown(path)} contradict each other: a model has "
            "its size; leave one of them out"
        )
    if settings.longest > config.max_positions:
        raise UsageError(
            f"--longest is {settings.longest}, but {shown(path)} reads {config.max_positions} "
            "pieces; lower it, or use bertworks extend-positions first"
        )
    return config


def objectives_of(settings: PretrainSettings, config: EncoderConfig) -> dict[str, Ramp]:
    """Return the weights of the objectives that are told, or the model's own, or its family's."""
    words = settings.objective.objectives
    if not words and settings.model is not None:
        learned = [
            name for name in WEIGHTS if name in open_folder(encoder_folder(settings.model)).tasks
        ]
        words = tuple(learned) if LEARNED_ALONE.intersection(learned) else ()
    return read_objectives(words, config.family)


def learner_of(
    settings: PretrainSettings,
    config: EncoderConfig,
    tokenizer: Tokenizer,
    objectives: tuple[str, ...],
    *,
    knowing: Callable[[Tensor], Tensor] | None = None,
) -> AnyLearner:
    """Draw the networks that learn, or open those of a model; `knowing` as `knowing_of` has it."""
    has_difference = settings.objective.shared_table == "generator"
    if has_difference:
        _refuse_difference(settings, objectives)
    wanted = Wanted(
        objectives=objectives,
        generator_size=settings.objective.generator_size,
        has_difference=has_difference,
        z_loss=settings.objective.z_loss,
        seed=settings.seed,
    )
    if settings.model is None:
        return draw_learner(config, wanted, knowing=knowing)
    dropout = Dropout(**vars(settings.dropping))
    return open_learner(settings.model, tokenizer, wanted, dropout=dropout)


def knowing_of(
    settings: PretrainSettings, shards: Shards, machine: Machine, crew: Crew
) -> Callable[[Tensor], Tensor] | None:
    """Return what a drawn table of pieces is made into before the first step, if into anything."""
    if settings.piece_vectors != "counted" or settings.model is not None:
        return None
    if settings.resume == "auto" and crew.lead(lambda: bool(whole_checkpoints(settings.out))):
        return None  # the table is in the checkpoint

    def begin(drawn: Tensor) -> Tensor:
        """Count in every process, so that none waits long; all begin with the first one's bits."""
        counts = count_neighbors(shards, device=machine.device)
        table = begin_counted(drawn, counts, seed=settings.seed)
        table = table if crew.is_first else torch.zeros_like(table)
        crew.add_up([table])
        return table

    return begin


def _refuse_difference(settings: PretrainSettings, objectives: tuple[str, ...]) -> None:
    """Stop where no two networks share a table, or where it lies in several processes."""
    if "replaced_token" not in objectives:
        raise UsageError(
            "--shared-table generator speaks of the two networks of replaced_token, which is no "
            "objective of this run; leave it out or add --objectives replaced_token"
        )
    if settings.crew.sharding == "full":
        raise UsageError(
            "--shared-table generator reads the generator's whole table, but --sharding full "
            "leaves each process some rows; leave out one of them"
        )
