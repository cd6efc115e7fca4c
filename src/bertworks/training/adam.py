"""Adam's move, and Adam as the original BERT has it: without bias correction."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

State = dict[str, Tensor]


class ByAdam(torch.optim.Optimizer):
    """An optimizer that asks Adam where to go, and moves tensors there in its own way."""

    corrects: ClassVar[bool] = True

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float = 0.0,
        **more: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | more)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every tensor that has a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            memory = [memory_of(self, weight) for weight in weights]
            moves = adam_moves(weights, memory, group, corrects=self.corrects)
            self.move(weights, moves, group)

    def move(self, weights: list[Tensor], moves: list[Tensor], group: dict[str, Any]) -> None:
        """Move the tensors of a group."""
        raise NotImplementedError


class BertAdam(ByAdam):
    """Adam with decoupled decay whose means are taken as they are, though they begin at zero.

    Its first steps are several times too long (arXiv 2006.05987): the baseline to compare with.
    """

    corrects = False

    def move(self, weights: list[Tensor], moves: list[Tensor], group: dict[str, Any]) -> None:
        """Let tensors decay, then move them."""
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, moves, alpha=-group["lr"])


def memory_of(optimizer: torch.optim.Optimizer, weight: Tensor) -> State:
    """Return what an optimizer remembers of a tensor, at first nothing."""
    state = optimizer.state[weight]
    if not state:
        state["step"] = torch.zeros((), device=weight.device)
        state["exp_avg"] = torch.zeros_like(weight)
        state["exp_avg_sq"] = torch.zeros_like(weight)
    return state


def adam_moves(
    weights: list[Tensor], memory: list[State], group: dict[str, Any], *, corrects: bool = True
) -> list[Tensor]:
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
    means: Any = first
    squares: Any = second
    if corrects:
        means = torch._foreach_div(first, _corrections(early, steps))
        squares = torch._foreach_div(second, _corrections(late, steps))
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, epsilon)
    return list(torch._foreach_div(means, roots))


def _corrections(beta: float, steps: list[Tensor]) -> list[Tensor]:
    """Return for each tensor the weight that all its gradients have in a mean so far."""
    return [1 - beta ** step.double() for step in steps]
