"""LAMB: Adam whose step is as long as the tensor that it moves, for very large batches."""

from typing import Any

import torch
from torch import Tensor

from bertworks.training.adam import ByAdam


class Lamb(ByAdam):
    """LAMB as You et al. write it; vectors get neither the ratio nor the decay.

    A group with `trusts` scales each tensor's step by the norm of the tensor over that of the step.
    """

    def __init__(self, params: Any, **settings: Any) -> None:
        super().__init__(params, trusts=True, **settings)

    def move(self, weights: list[Tensor], moves: list[Tensor], group: dict[str, Any]) -> None:
        """Move each tensor as far as its own length asks for."""
        if group["weight_decay"]:
            torch._foreach_add_(moves, weights, alpha=group["weight_decay"])
        if group["trusts"]:
            torch._foreach_mul_(moves, _trust_ratios(weights, moves))
        torch._foreach_add_(weights, moves, alpha=-group["lr"])


def _trust_ratios(weights: list[Tensor], moves: list[Tensor]) -> list[Tensor]:
    """Return the norm of each tensor over that of its move, or one where either is nothing."""
    sizes = torch.stack(torch._foreach_norm(weights))
    lengths = torch.stack(torch._foreach_norm(moves))
    ratios = torch.where((sizes > 0) & (lengths > 0), sizes / lengths, 1.0)
    return list(ratios.unbind())
