"""Muon: the step of a matrix, made orthogonal.

torch.optim.Muon does the same, but computes in bf16 on every device, which kills some CPUs, and
takes matrices that are stacked in one tensor for a single one; tests compare the two. On a CPU
ours computes in bf16 only where the forward pass does, which was tried before.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.model.decoder import Reading
from bertworks.model.encoder import FeedForward, SelfAttention

MOMENTUM = 0.95
NUM_ITERATIONS = 5
# Of the polynomial that draws singular values to one, as its author chose them.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
SMALLEST_NORM = 1e-7
# The root mean square of AdamW's steps, so that one learning rate serves both.
USUAL_STEP = 0.2


class Muon(torch.optim.Optimizer):
    """Muon for the matrices of the blocks, and another optimizer for all else.

    Told `found_inf`, as torch's fused ones are, a step changes nothing where it is 1.
    """

    found_inf: Tensor | None = None  # on the device of what is moved
    _step_supports_amp_scaling = True

    def __init__(
        self,
        matrices: Mapping[Tensor, int],
        others: torch.optim.Optimizer,
        *,
        lr: float,
        weight_decay: float,
        in_half: bool = False,
    ) -> None:
        """Take matrices with how many are stacked in each; `in_half` is for a CPU that has bf16."""
        self.in_half = in_half
        groups = [
            {"params": [m for m, own in matrices.items() if own == count], "num_stacked": count}
            for count in sorted(set(matrices.values()))
        ]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})
        self.others: Any = others
        # From outside they are one: a rate that is set is set for both, and so is the memory.
        self.param_groups += others.param_groups
        others.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every tensor that has a gradient."""
        for group in (group for group in self.param_groups if "num_stacked" in group):
            alike = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[weight.shape].append(weight)
            for weights in alike.values():
                self._move(weights, group)
        self.others.param_groups = [g for g in self.param_groups if "num_stacked" not in g]
        self.others.found_inf = self.found_inf
        self.others.step()

    def _move(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move matrices of one shape, all in one batch of products."""
        memory = [self._momentum(weight) for weight in weights]
        # A gradient that is what is remembered leaves the memory as it is.
        gradients = [self._unless_bad(w.grad, m) for w, m in zip(weights, memory, strict=True)]
        torch._foreach_lerp_(memory, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, memory, MOMENTUM)  # Nesterov's look ahead
        stacked = torch.stack(ahead).unflatten(1, (group["num_stacked"], -1)).flatten(0, 1)
        moves = orthogonalize(stacked, in_half=self.in_half or stacked.is_cuda)
        moves = moves.view(len(weights), *weights[0].shape).to(weights[0].dtype)
        length = USUAL_STEP * math.sqrt(max(stacked.shape[1:]))
        shrunk = moves.new_full((), 1 - group["lr"] * group["weight_decay"])
        torch._foreach_mul_(weights, self._unless_bad(shrunk, 1.0))
        moves = self._unless_bad(moves, 0.0)
        torch._foreach_add_(weights, list(moves.unbind()), alpha=-group["lr"] * length)

    def _unless_bad(self, usual: Any, instead: Any) -> Any:
        """Return what a step takes, or instead of it what changes nothing."""
        if self.found_inf is None:
            return usual
        return torch.where(self.found_inf > 0, instead, usual)

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        return state["momentum"]


def hidden_matrices(model: nn.Module) -> dict[Tensor, int]:
    """Return the matrices inside a model's blocks, and how many are stacked in each."""
    found: dict[Tensor, int] = {}
    for module in model.modules():
        if isinstance(module, SelfAttention):
            found |= {module.qkv.weight: 3, module.output.weight: 1}
        elif isinstance(module, Reading):
            found |= {module.query.weight: 1, module.kv.weight: 2, module.output.weight: 1}
        elif isinstance(module, FeedForward):
            found |= {module.expand.weight: 2 if module.gated else 1, module.contract.weight: 1}
    return found


def orthogonalize(matrices: Tensor, *, in_half: bool) -> Tensor:
    """Draw the singular values of each matrix near to one, [N, A, B] -> [N, A, B]."""
    slope, bend, tail = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    flat = matrices.bfloat16() if in_half else matrices
    flat = flat.mT if is_tall else flat
    flat = flat / flat.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(NUM_ITERATIONS):
        squares = flat @ flat.mT
        factors = torch.baddbmm(squares, squares, squares, beta=bend, alpha=tail)
        flat = torch.baddbmm(flat, factors, flat, beta=slope)
    return (flat.mT if is_tall else flat).contiguous()
