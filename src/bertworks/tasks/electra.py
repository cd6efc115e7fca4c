"""ELECTRA: a generator fills in what is hidden, a discriminator finds what it filled in wrongly."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch, Target
from bertworks.core.pieces import IGNORE
from bertworks.model.config import EncoderConfig
from bertworks.tasks.task import Judged, Task, TaskModel, losses_of


class Electra(nn.Module):
    """Two networks that learn side by side and share their tables of vectors."""

    def __init__(self, generator: TaskModel, discriminator: TaskModel) -> None:
        super().__init__()
        for table in ("pieces", "positions", "segments"):
            shared = getattr(discriminator.encoder.embeddings, table)
            setattr(generator.encoder.embeddings, table, shared)
        self.discriminator = discriminator
        self.generator = generator
        self.tasks: dict[str, Task] = {**generator.tasks, **discriminator.tasks}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return each task's loss, summed over its targets."""
        return losses_of(self, batch)

    def judged(self, batch: Batch) -> Judged:
        """Return the logits of each task that the batch asks for, and their target.

        No gradient reaches the generator through what it filled in.
        """
        guessed = self.generator.judged(batch)
        logits, hidden = guessed["fill_mask"]
        filled = fill_in(batch, hidden, draw(logits.detach()))
        return guessed | self.discriminator.judged(filled)


def generator_config(config: EncoderConfig, size: float) -> EncoderConfig:
    """Describe a generator whose width is a share of the discriminator's, its depth the same."""
    num_heads = max(round(size * config.num_heads), 1)
    width = num_heads * _near(size * config.hidden_size / num_heads)
    return replace(
        config,
        hidden_size=width,
        num_heads=num_heads,
        feed_forward_size=_near(size * config.feed_forward_size),
        embedding_size=None if width == config.piece_size else config.piece_size,
    )


def draw(logits: Tensor) -> Tensor:
    """Draw a piece from each row's softmax, [M, V] -> [M]."""
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_()
    return (logits.float() - noise.log()).argmax(-1)


def _near(size: float) -> int:
    """Return the nearest size that a GPU multiplies fast, one of eights; small ones are even."""
    step = 8 if size >= 8 else 2
    return max(round(size / step), 1) * step


def fill_in(batch: Batch, hidden: Target, pieces: Tensor) -> Batch:
    """Put pieces where others were hidden; a token that comes out as it was is an original one."""
    assert hidden.at is not None  # what is hidden lies at places
    asked = batch.targets["replaced_token"]
    differs = (pieces != hidden.values).long()
    is_replaced = torch.zeros_like(batch.tokens).index_copy(0, hidden.at, differs)
    found = is_replaced if asked.at is None else is_replaced.index_select(0, asked.at)
    answers = found.masked_fill(asked.values == IGNORE, IGNORE)  # what is not asked stays so
    return replace(
        batch,
        tokens=batch.tokens.index_copy(0, hidden.at, pieces),
        targets={**batch.targets, "replaced_token": replace(asked, values=answers)},
    )
