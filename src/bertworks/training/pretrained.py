"""The values that weights had before fine-tuning, and decay toward them (L2-SP).

Decay toward zero forgets what pre-training has found; toward the pre-trained values it keeps it
(arXiv 1802.01483). What starts fresh, such as a task head, began with nothing: its value is zero.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn


class Pretrained:
    """What the parameters of a model, or those of some names, were when its training began."""

    def __init__(
        self,
        model: nn.Module,
        *,
        fresh: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> None:
        self.fresh = fresh
        self._values: dict[Tensor, Tensor] = {}
        self._forgotten: set[Tensor] = set()
        for name, parameter in model.named_parameters():
            if only is not None and name not in only:
                self._forgotten.add(parameter)
            elif name not in fresh:
                self._values[parameter] = parameter.detach().clone()

    def value(self, parameter: Tensor) -> Tensor:
        """Return what a parameter was; one that came later was nothing."""
        if parameter in self._forgotten:
            raise KeyError("the value of this parameter was not kept")
        if parameter not in self._values:
            self._values[parameter] = torch.zeros_like(parameter)
        return self._values[parameter]

    @torch.no_grad()
    def draw_back(self, optimizer: torch.optim.Optimizer, *, decay: float) -> None:
        """Let matrices that have a gradient go back by the share rate * decay of their way."""
        for group in optimizer.param_groups:
            moved = [w for w in group["params"] if w.grad is not None and w.dim() >= 2]
            if moved:
                values = [self.value(weight) for weight in moved]
                torch._foreach_lerp_(moved, values, group["lr"] * decay)
