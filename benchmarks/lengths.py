"""Text lengths as running text has them; every speed benchmark here draws from the same."""

import math

import torch


def natural_lengths(tokens: int, longest: int) -> list[int]:
    """Draw log-normal lengths around 0.45 of the longest, cut at 8 and at the longest."""
    random = torch.Generator().manual_seed(1)
    found: list[int] = []
    while sum(found) < tokens:
        drawn = torch.randn(1, generator=random).item() * 0.8 + math.log(longest * 0.45)
        found.append(int(min(longest, max(8, math.exp(drawn)))))
    return found
