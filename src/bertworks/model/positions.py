"""How attention learns of places: turned queries and keys, or a score for each distance."""

import math

import torch
from torch import Tensor, nn

FARTHEST = 128  # distances beyond share the last bucket


def turn_at(positions: Tensor, *, head_size: int, base: float) -> Tensor:
    """Return cosine and sine of the angles at each place, [T] -> [2, T, 1, K / 2]."""
    exponents = torch.arange(0, head_size, 2, device=positions.device, dtype=torch.float32)
    angles = positions.float().unsqueeze(-1) * base ** (-exponents / head_size)
    return torch.stack([angles.cos(), angles.sin()]).unsqueeze(-2)


def rotate(vectors: Tensor, turn: Tensor) -> Tensor:
    """Turn each half of a vector against the other, [T, H, K] -> [T, H, K]."""
    cosine, sine = turn
    first, second = vectors.float().chunk(2, dim=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return torch.cat(turned, dim=-1).to(vectors.dtype)


class DistanceScores(nn.Module):
    """A learned score for each range of distances, added to attention's own."""

    def __init__(self, num_buckets: int, num_heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def forward(self, longest: int) -> Tensor:
        """Return the scores of all pairs of places in the longest text, [H, longest, longest]."""
        places = torch.arange(longest, device=self.weight.device)
        buckets = bucket_of(places - places.unsqueeze(1), num_buckets=len(self.weight))
        return self.weight[buckets].permute(2, 0, 1)


def bucket_of(distances: Tensor, *, num_buckets: int) -> Tensor:
    """Sort distances into buckets: half for each direction, near ones alone, far ones by ranges."""
    half = num_buckets // 2
    exact = half // 2
    away = distances.abs()
    growth = torch.log(away.clamp(min=exact) / exact) / math.log(FARTHEST / exact)
    ranged = (exact + (growth * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(away < exact, away, ranged) + half * (distances > 0)
