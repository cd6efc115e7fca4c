"""Answers drawn by chance: each piece by its probability, of all pieces or of the likeliest.

Legend: N texts that are answered, L tokens written so far, V pieces.
What is drawn for a text depends on its seed alone, never on the other texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertworks.core.errors import UsageError
from bertworks.core.seeds import random_at
from bertworks.model.search import Draft, Search, Written


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Which pieces may be drawn, and how boldly."""

    temperature: float = 1.0  # what logits are divided by: below 1 the likely gets likelier
    top_k: int = 0  # draw among so many of the likeliest; 0: among all
    top_p: float = 1.0  # draw among the likeliest that together have this probability
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}; it must be above 0")
        if self.top_k < 0:
            raise UsageError(f"top_k is {self.top_k}; the least is 0, which draws among all")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; it must lie above 0 and be at most 1")

    def probabilities(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return how likely each piece is drawn, the likeliest first, and which it is, [N, V]."""
        likeliest = logits.amax(-1, keepdim=True)
        scaled = (logits - likeliest) / self.temperature  # of which none grows without bound
        most = min(self.top_k, scaled.shape[-1]) or scaled.shape[-1]
        best, pieces = scaled.topk(most)
        chances = best.softmax(-1)
        before = chances.cumsum(-1) - chances
        chances = chances.masked_fill(before >= self.top_p, 0.0)  # the first always stays
        return chances / chances.sum(-1, keepdim=True), pieces


def write_sampled(
    draft: Draft, prompt: Tensor, search: Search, chance: Chance, *, names: Sequence[str]
) -> list[list[Written]]:
    """Return one answer to each text, drawn by chance; `names` are what the draws hang on.

    `prompt` is what every answer begins with, [N, P]. Where nothing has a chance there are none.
    """
    begun = prompt.shape[1]
    for tokens in prompt.T[:-1]:
        draft.step(tokens)
    written, texts = prompt, list(range(len(prompt)))
    draws = torch.tensor(
        np.stack([random_at(chance.seed, "draw", name).random(search.most) for name in names])
    ).to(prompt.device)
    scores = torch.zeros(len(prompt), device=prompt.device)
    found: list[list[Written]] = [[] for _ in texts]
    for place in range(search.most):
        logits = search.forbid(draft.step(written[:, -1]).float(), written, begun=begun)
        chances, pieces = chance.probabilities(logits)
        drawn = (chances.double().cumsum(-1) <= draws[:, place, None]).sum(-1, keepdim=True)
        last = (chances > 0).sum(-1, keepdim=True) - 1  # for chances are rounded
        piece = pieces.gather(1, drawn.minimum(last.clamp(min=0)))
        scores = scores + logits.log_softmax(-1).gather(1, piece).squeeze(1)
        written = torch.cat([written, piece], dim=1)
        is_done = piece.squeeze(1) == search.end
        if place + 1 == search.most:
            is_done = torch.ones_like(is_done)
        if not is_done.any():
            continue
        for row in is_done.nonzero().flatten().tolist():
            if scores[row].isfinite():
                found[texts[row]] = [_ended(written[row, begun:].tolist(), scores[row], search)]
        left = (~is_done).nonzero().flatten()
        if not len(left):
            break
        texts = [texts[row] for row in left.tolist()]
        written, scores, draws = written[left], scores[left], draws[left]
        draft.keep(left, left)
    return found


def _ended(tokens: list[int], score: Tensor, search: Search) -> Written:
    """Return a drawn answer with its score as those of beams are compared."""
    normed = search.normed(score, len(tokens))
    return Written(tokens[:-1] if tokens[-1] == search.end else tokens, float(normed))
