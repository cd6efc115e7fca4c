"""LAMB: Adam whose step is as long as the tensor that it moves, for very large batches."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]


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
            moves = _adam_moves(weights, [self._memory(weight) for weight in weights], group)
            if group["weight_decay"]:
                torch._foreach_add_(moves, weights, alpha=group["weight_decay"])
            if group["trusts"]:
                torch._foreach_mul_(moves, _trust_ratios(weights, moves))
            torch._foreach_add_(weights, moves, alpha=-group["lr"])

    def _memory(self, weight: Tensor) -> State:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), device=weight.device)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state


def _adam_moves(weights: list[Tensor], memory: list[State], group: dict[str, Any]) -> list[Tensor]:
    """Return where Adam would go, after the gradients have entered its memory."""
    steps, first, second = (
        [state[name] for state in memory] for name in ("step", "exp_avg", "exp_avg_sq")
    )
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    (early, late), epsilon = group["betas"], group["eps"]
    torch._foreach_add_(steps, 1)
    torch._foreach_lerp_(first, gradients, 1 - early)
    torch._foreach_mul_(second, late)
    torch._foreach_addcmul_(second, gradients, gradients, 1 - late)
    roots = torch._foreach_sqrt(torch._foreach_div(second, _corrections(late, steps)))
    torch._foreach_add_(roots, epsilon)
    means = torch._foreach_div(first, _corrections(early, steps))
    return list(torch._foreach_div(means, roots))


def _corrections(beta: float, steps: list[Tensor]) -> list[Tensor]:
    """Return for each tensor the weight that all its gradients have in a mean so far."""
    return [1 - beta ** step.double() for step in steps]


def _trust_ratios(weights: list[Tensor], moves: list[Tensor]) -> list[Tensor]:
    """Return the norm of each tensor over that of its move, or one where either is nothing."""
    sizes = torch.stack(torch._foreach_norm(weights))
    lengths = torch.stack(torch._foreach_norm(moves))
    ratios = torch.where((sizes > 0) & (lengths > 0), sizes / lengths, 1.0)
    return list(ratios.unbind())
