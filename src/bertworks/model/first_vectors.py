"""What the vectors of pieces begin with: numbers drawn by chance, or counts of their neighbors.

Pieces that stand near the same others mean something alike, and that much is found by counting.
A network whose table of pieces begins so need not learn it step by step.
"""

import torch
from torch import Tensor

from bertworks.core.seeds import derive

FLATTER = 0.75  # power of how often a neighbor comes, so that rare ones tell less
SPARE = 16  # directions that are found beside those asked for, for exactness
ROUNDS = 3  # of the search for directions


@torch.no_grad()
def begin_counted(drawn: Tensor, counts: Tensor, *, seed: int) -> Tensor:
    """Return a table of pieces by their counts of neighbors, [V, E] and [V, F] -> [V, E].

    Every row has the length that drawn ones have. Pieces that never came, special ones among them,
    begin together, opposite to the middle of all others. Where the counts have fewer directions
    than the table has columns, the rest stays as it was drawn.
    """
    if not counts.any():
        return drawn
    size = min(drawn.shape[1], *counts.shape)
    directions = _directions(_surprise(counts), size, seed=seed)
    centered = directions - directions.mean(0)
    length = drawn[:, :size].norm(dim=1).mean()
    scaled = centered * (length / centered.norm(dim=1, keepdim=True).clamp(min=1e-12))
    return torch.cat([scaled.to(drawn.device), drawn[:, size:]], dim=1)


def _surprise(counts: Tensor) -> Tensor:
    """Return how much more often pieces are near each other than by chance, in logarithms."""
    often = counts.sum(0) ** FLATTER
    surprise = counts.float()  # the table may be large: what follows needs no other
    surprise /= counts.sum(1, keepdim=True).clamp(min=1)
    surprise /= (often / often.sum()).clamp(min=1e-12)
    return surprise.log_().clamp_(min=0)


def _directions(surprise: Tensor, size: int, *, seed: int) -> Tensor:
    """Return where each piece lies along the directions that tell most of it, [V, F] -> [V, size].

    They are weighed by the root of their strength, as neighbors take the other half.
    """
    with torch.random.fork_rng(devices=[surprise.device] if surprise.is_cuda else []):
        torch.manual_seed(derive(seed, "first vectors"))
        wanted = min(size + SPARE, *surprise.shape)
        left, strengths, _ = torch.svd_lowrank(surprise, q=wanted, niter=ROUNDS)
    return left[:, :size] * strengths[:size].sqrt()
