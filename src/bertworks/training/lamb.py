"""LAMB: Adam whose step is as long as the tensor that it moves, for very large batches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bertworks.training.adam import adam_moves, memory_of


class Lamb(torch.optim.Optimizer):
    """LAMB as You et al. write it; vectors get neither the ratio nor the decay.

    A group with `trusts` scales each tensor's step by the norm of the tensor over that of the step.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"trusts": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every tensor that has a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            moves = adam_moves(weights, [memory_of(self, weight) for weight in weights], group)
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
