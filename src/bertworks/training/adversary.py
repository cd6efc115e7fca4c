"""Adversarial training: texts whose word vectors are moved to where the loss rises.

The move of a text has a length of its own, whatever other texts stand in its batch:

    FGM     move = radius * g / |g|, and the text as it is counts too   (arXiv 1605.07725)
    PGD     several shorter moves, each drawn back into the radius      (arXiv 1706.06083)
    FreeLB  as PGD from a random start; every move's gradient counts    (arXiv 1909.11764)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch, Layout
from bertworks.core.seeds import derive
from bertworks.model.encoder import Embeddings

AdversaryName = Literal["fgm", "pgd", "freelb"]
Losses = dict[str, Tensor]
Look = Callable[[], tuple[Tensor, Losses]]  # at a part: what is learned from, and the losses
REACH = 1.5  # what all moves of PGD or FreeLB together are long, in radii
SMALLEST_NORM = 1e-12


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """Which way is taken against the model, how far and in how many moves."""

    name: AdversaryName
    radius: float = 0.1
    moves: int = 3  # of PGD and FreeLB

    @property
    def length(self) -> float:
        """How long one of several moves is."""
        return REACH * self.radius / self.moves

    def learn(self, look: Look, pieces: nn.Module, batch: Batch, *, seed: int) -> Losses:
        """Add up the gradients of all passes; return the losses."""
        if self.name == "freelb":
            return self._learn_freely(look, pieces, batch, seed)
        nudge = _still(pieces, batch)
        losses = _look_and_learn(look, pieces, nudge, batch)
        assert nudge.grad is not None
        if self.name == "fgm":
            away = self.radius * unit(nudge.grad, batch.layout)
            _look_and_learn(look, pieces, away, batch)
            return losses
        slope = nudge.grad
        for move in range(self.moves):
            nudge = self._moved(nudge, slope, batch.layout)
            if move + 1 < self.moves:
                with nudged(pieces, nudge, of=batch.tokens):
                    total, _ = look()
                (slope,) = torch.autograd.grad(total, nudge)
        _look_and_learn(look, pieces, nudge, batch)
        return losses

    def _learn_freely(self, look: Look, pieces: nn.Module, batch: Batch, seed: int) -> Losses:
        nudge = self._start(_still(pieces, batch), batch.layout, seed)
        found: list[Losses] = []
        for _ in range(self.moves):
            found.append(_look_and_learn(look, pieces, nudge, batch, share=1 / self.moves))
            assert nudge.grad is not None
            nudge = self._moved(nudge, nudge.grad, batch.layout)
        return {name: sum(one[name] for one in found) / self.moves for name in found[0]}  # type: ignore[misc]

    def _start(self, like: Tensor, layout: Layout, seed: int) -> Tensor:
        """Draw moves evenly, of at most the radius."""
        random = torch.Generator().manual_seed(derive(seed, "adversary"))
        drawn = (2 * torch.rand(like.shape, generator=random) - 1).to(like)
        sizes = _to_tokens(torch.tensor(layout.lengths).to(like) * like.shape[1], layout)
        return (self.radius * drawn / sizes.sqrt()).requires_grad_()

    def _moved(self, nudge: Tensor, slope: Tensor, layout: Layout) -> Tensor:
        further = nudge.detach() + self.length * unit(slope, layout)
        return within(further, layout, radius=self.radius).requires_grad_()


def unit(vectors: Tensor, layout: Layout) -> Tensor:
    """Return the vectors of each text with the length one, all of them together, [T, E]."""
    return vectors / _to_tokens(text_norms(vectors, layout).clamp(min=SMALLEST_NORM), layout)


def within(vectors: Tensor, layout: Layout, *, radius: float) -> Tensor:
    """Draw back the vectors of those texts that are longer than a radius, [T, E]."""
    norms = text_norms(vectors, layout).clamp(min=SMALLEST_NORM)
    return vectors * _to_tokens((radius / norms).clamp(max=1.0), layout)


def text_norms(vectors: Tensor, layout: Layout) -> Tensor:
    """Return how long the vectors of each text are together, [T, E] -> [N]."""
    lengths = torch.tensor(layout.lengths, device=vectors.device)
    squares = vectors.float().square().sum(1)
    return torch.segment_reduce(squares, "sum", lengths=lengths, axis=0).sqrt()


def word_table(model: nn.Module) -> nn.Module:
    """Return where a model looks up the vectors of its pieces."""
    return next(m.pieces for m in model.modules() if isinstance(m, Embeddings))


@contextmanager
def nudged(pieces: nn.Module, nudge: Tensor, *, of: Tensor) -> Iterator[None]:
    """Move the vectors that are looked up of some tokens, for a while; of other ones they stay."""

    def move(module: nn.Module, given: tuple[Tensor], vectors: Tensor) -> Tensor:
        return vectors + nudge if given[0] is of else vectors

    hook = pieces.register_forward_hook(move)
    try:
        yield
    finally:
        hook.remove()


def _look_and_learn(
    look: Look, pieces: nn.Module, nudge: Tensor, batch: Batch, *, share: float = 1.0
) -> Losses:
    with nudged(pieces, nudge, of=batch.tokens):
        total, losses = look()
    (share * total).backward()
    return {name: loss.detach() for name, loss in losses.items()}


def _still(pieces: nn.Module, batch: Batch) -> Tensor:
    """Return a move of nothing, [T, E], whose gradient can be asked for."""
    assert isinstance(pieces, nn.Embedding)
    size = (len(batch.tokens), pieces.embedding_dim)
    return torch.zeros(size, device=batch.tokens.device, requires_grad=True)


def _to_tokens(of_texts: Tensor, layout: Layout) -> Tensor:
    """Repeat a number of each text for its tokens, [N] -> [T, 1]."""
    lengths = torch.tensor(layout.lengths, device=of_texts.device)
    total = sum(layout.lengths)
    return of_texts.repeat_interleave(lengths, output_size=total).unsqueeze(1)
