"""How attention learns of places: turned queries and keys, or a score for each distance."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn

from bertworks.model.config import EncoderConfig, Rotary

FARTHEST = 128  # distances beyond share the last bucket


@dataclass(frozen=True)
class Turn:
    """How far queries and keys are turned at each place."""

    table: Tensor  # [2, longest, K / 2] cosine and sine
    positions: Tensor  # [T] the place of each token

    @classmethod
    def of(cls, positions: Tensor, longest: int, *, head_size: int, base: float) -> Self:
        """Make the angles of all places up to the longest text's last."""
        exponents = torch.arange(0, head_size, 2, device=positions.device, dtype=torch.float32)
        places = torch.arange(longest, device=positions.device).float()
        angles = places.unsqueeze(-1) * base ** (-exponents / head_size)
        return cls(torch.stack([angles.cos(), angles.sin()]), positions)

    @cached_property
    def by_token(self) -> Tensor:
        """Cosine and sine for each token, [2, T, 1, K / 2]."""
        return self.table.index_select(1, self.positions).unsqueeze(-2)


def turn_at(
    config: EncoderConfig, positions: Tensor, longest: int, *, is_local: bool = False
) -> Turn | None:
    """Return the angles of a network's rotary positions, if it has such."""
    kind = config.positions
    if not isinstance(kind, Rotary):
        return None
    base = kind.local_base if is_local else kind.base
    return Turn.of(positions, longest, head_size=config.head_size, base=base)


def rotate(vectors: Tensor, turn: Tensor) -> Tensor:
    """Turn each half of a vector against the other, [T, H, K] -> [T, H, K]."""
    cosine, sine = turn
    first, second = vectors.float().chunk(2, dim=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return torch.cat(turned, dim=-1).to(vectors.dtype)


def waves_at(positions: Tensor, size: int) -> Tensor:
    """Return sines, then cosines of places at lengths from 2 pi to 20,000 pi, [T] -> [T, size]."""
    steps = torch.arange((size + 1) // 2, device=positions.device, dtype=torch.float32)
    angles = positions.float().unsqueeze(-1) * 10_000.0 ** (-2 * steps / size)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :size]


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
