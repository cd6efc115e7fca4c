"""Mixout and parameter dropout: in each step, some weights are not those that are learned.

The weights that leave a neuron are put back together, with a chance p, to what they were before
fine-tuning (mixout, arXiv 1909.11299) or to zero (parameter dropout). What remains is stretched so
that on average every weight is itself:

    mixed = (kept * weight + (1 - kept) * toward - p * toward) / (1 - p)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bertworks.core.seeds import derive
from bertworks.model.encoder import Encoder
from bertworks.training.pretrained import Pretrained


class Mixout:
    """Lends a model mixed weights for the time of a step, the same for all of its parts."""

    def __init__(
        self, model: nn.Module, *, rate: float, seed: int, toward: Pretrained | None = None
    ) -> None:
        self.rate = rate
        self.seed = seed
        self.toward = toward  # None: zero
        fresh = toward.fresh if toward else ()
        self.weights = {n: w for n, w in linear_weights(model).items() if n not in fresh}

    @contextmanager
    def lent(self, step: int) -> Iterator[None]:
        """Give the model the weights of a step; afterwards it has its own, and their gradients."""
        own = {name: weight.detach().clone() for name, weight in self.weights.items()}
        kept = {name: self._kept(name, weight, step) for name, weight in self.weights.items()}
        with torch.no_grad():
            for name, weight in self.weights.items():
                toward = self.toward.value(weight) if self.toward else torch.zeros_like(weight)
                weight.copy_(mix(weight, toward, kept[name], rate=self.rate))
        try:
            yield
        finally:
            self._take_back(own, kept)

    @torch.no_grad()
    def _take_back(self, own: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(own[name])
            if weight.grad is not None:  # of the mixed weight, so by the chain rule
                weight.grad.mul_(kept[name] / max(1 - self.rate, 1e-9))

    def _kept(self, name: str, weight: Tensor, step: int) -> Tensor:
        """Draw which neurons keep the weights that leave them, [in]."""
        random = torch.Generator().manual_seed(derive(self.seed, "mixout", step, name))
        kept = torch.rand(weight.shape[1], generator=random) >= self.rate
        return kept.to(weight.device, weight.dtype)


def mix(weight: Tensor, toward: Tensor, kept: Tensor, *, rate: float) -> Tensor:
    """Put the columns of a weight that are not kept to other values; on average it stays."""
    if rate == 1:
        return toward.clone()
    return (torch.where(kept > 0, weight, toward) - rate * toward) / (1 - rate)


def linear_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the matrices of the linear layers of a model's encoder, by name."""
    return {
        f"{prefix}.{name}.weight": module.weight
        for prefix, encoder in model.named_modules()
        if isinstance(encoder, Encoder)
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear)
    }
