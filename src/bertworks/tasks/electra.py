"""ELECTRA: a generator fills in what is hidden, a discriminator finds what it filled in wrongly."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bertworks.core.batch import Batch, Target
from bertworks.core.pieces import IGNORE
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Encoder
from bertworks.model.fused import draw
from bertworks.tasks.task import Judged, Network, Task, TaskModel, losses_of

TABLES = ("positions", "segments", "pieces")  # that a generator has in common with its other


class Electra(nn.Module):
    """Two networks that learn side by side and share their tables of vectors.

    Both move the table of pieces; or the generator alone (`has_difference`), and the discriminator
    adds a difference to it that is its own, as DeBERTa-v3 does: what helps to tell pieces apart
    does not harm guessing them.
    """

    def __init__(
        self, generator: TaskModel, discriminator: TaskModel, *, has_difference: bool = False
    ) -> None:
        super().__init__()
        share_tables(generator, discriminator, TABLES[:-1] if has_difference else TABLES)
        if has_difference:
            theirs, ours = (one.encoder.embeddings.pieces for one in (generator, discriminator))
            parametrize.register_parametrization(ours, "weight", _Sum(theirs))
        self.discriminator = discriminator
        self.generator = generator
        self.tasks: dict[str, Task] = {**generator.tasks, **discriminator.tasks}

    def alone(self) -> TaskModel:
        """Return the discriminator with a whole table of its own, to be used without the other."""
        table = self.discriminator.encoder.embeddings.pieces
        if not parametrize.is_parametrized(table):
            return self.discriminator
        copied = deepcopy(self.discriminator)
        whole = nn.Embedding.from_pretrained(table.weight.detach().clone(), freeze=False)
        copied.encoder.embeddings.pieces = whole
        return copied

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return each task's loss, summed over its targets."""
        return losses_of(self, batch)

    def judged(self, batch: Batch) -> Judged:
        """Return the logits of each task that the batch asks for, and their target.

        No gradient reaches the generator through what it filled in.
        """
        guessed = self.generator.judged(batch)
        logits, hidden = guessed["fill_mask"]
        filled = fill_in(batch, hidden, draw(logits))
        return guessed | self.discriminator.judged(filled)


class Guesser(Network):
    """What fills masks for a discriminator: the generator that it learned beside."""

    def __init__(self, generator: TaskModel) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, hidden: Tensor | None, batch: Batch, encoder: Encoder) -> Tensor:
        """Return logits over the vocabulary at the target's places only, [M, V]."""
        return self.generator.logits(batch, "fill_mask")


def add_generator(model: TaskModel, generator: TaskModel) -> None:
    """Let a discriminator fill masks too; tables that are the same in both are kept once."""
    ours, theirs = tables_of(model), tables_of(generator)
    share_tables(generator, model, [t for t in theirs if torch.equal(ours[t], theirs[t])])
    model.add(generator.tasks["fill_mask"], Guesser(generator))


def tables_of(model: TaskModel) -> dict[str, Tensor]:
    """Return the tables that a generator may have in common with its other network."""
    found = {table: getattr(model.encoder.embeddings, table) for table in TABLES}
    return {table: one.weight for table, one in found.items() if one is not None}


def parted(model: TaskModel) -> tuple[TaskModel, TaskModel | None]:
    """Return a model without the generator that fills masks for it, and that one if there is."""
    head = model.heads["fill_mask"] if "fill_mask" in model.tasks else None
    if not isinstance(head, Guesser):
        return model, None
    return model.without("fill_mask"), head.generator


def share_tables(generator: TaskModel, model: TaskModel, only: Sequence[str] = TABLES) -> None:
    """Let a generator read and move the tables of another network instead of its own."""
    for table in only:
        ours = getattr(model.encoder.embeddings, table)
        setattr(generator.encoder.embeddings, table, ours)


class _Sum(nn.Module):
    """Another's table, which is not moved from here, plus a difference."""

    def __init__(self, other: nn.Embedding) -> None:
        super().__init__()
        self._other = [other]  # not a part of this network

    def forward(self, difference: Tensor) -> Tensor:
        """Return the table."""
        return self._other[0].weight.detach() + difference

    def right_inverse(self, table: Tensor) -> Tensor:
        """Return the difference that makes this table."""
        return table - self._other[0].weight.detach()


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


def _near(size: float) -> int:
    """Return the nearest size that a GPU multiplies fast, one of eights; small ones are even."""
    step = 8 if size >= 32 else 2
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
