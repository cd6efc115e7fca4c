"""LoRA: a matrix moves only by the product of two thin ones (arXiv 2106.09685).

    weight = pretrained + alpha / rank * up @ down

The network always reads the merged weight, so that every kernel, evaluation and saved folder is as
without; the gradients of the thin matrices follow from its gradient by the chain rule.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bertworks.core.errors import UsageError
from bertworks.core.seeds import derive
from bertworks.model.encoder import FeedForward, SelfAttention
from bertworks.training.pretrained import Pretrained

LoraPlace = Literal["attention", "feed-forward", "all"]
MODULE = "lora"  # of the model, while it is trained


@dataclass(frozen=True, kw_only=True)
class LoraPlan:
    """How thin the matrices are, and which ones they move."""

    rank: int
    alpha: float
    on: LoraPlace = "attention"


class Lora:
    """The thin matrices of a model, which are parameters of it until they are taken off."""

    def __init__(
        self, model: nn.Module, plan: LoraPlan, *, pretrained: Pretrained, seed: int
    ) -> None:
        self.model = model
        self.scale = plan.alpha / plan.rank
        self.pretrained = pretrained
        self.weights = {
            name: weight
            for name, weight in projections(model, plan.on).items()
            if name not in pretrained.fresh
        }
        if not self.weights:
            raise UsageError(f"--lora-on {plan.on} finds no matrices in this model; choose another")
        if plan.rank > (side := min(min(weight.shape) for weight in self.weights.values())):
            raise UsageError(f"--lora is {plan.rank}, but a matrix has a side of {side}; lower it")
        self.pairs = {
            name: ThinPair(weight, rank=plan.rank, seed=derive(seed, "lora", name))
            for name, weight in self.weights.items()
        }
        named = {name.replace(".", "-"): pair for name, pair in self.pairs.items()}
        model.add_module(MODULE, nn.ModuleDict(named))

    def ask_for_gradients(self) -> None:
        """Let the matrices that are moved have gradients, though they are frozen themselves."""
        for weight in self.weights.values():
            weight.requires_grad_(True)

    def shares(self, of_weights: Mapping[Tensor, float]) -> dict[Tensor, float]:
        """Return the share of the learning rate of each thin matrix: that of what it moves."""
        return {
            thin: of_weights[weight]
            for name, weight in self.weights.items()
            for thin in self.pairs[name].parameters()
        }

    @torch.no_grad()
    def pull_back(self) -> None:
        """Turn the gradients of the merged matrices into those of the thin ones."""
        for name, weight in self.weights.items():
            if weight.grad is None:
                continue
            pair = self.pairs[name]
            pair.up.grad = self.scale * weight.grad @ pair.down.mT
            pair.down.grad = self.scale * pair.up.mT @ weight.grad
            weight.grad = None

    @torch.no_grad()
    def merge(self) -> None:
        """Give the model the weights that follow from the thin matrices."""
        for name, weight in self.weights.items():
            pair = self.pairs[name]
            weight.copy_(self.pretrained.value(weight) + self.scale * pair.up @ pair.down)

    def take_off(self) -> None:
        """Leave the model with the merged weights alone."""
        delattr(self.model, MODULE)


class ThinPair(nn.Module):
    """Two thin matrices whose product is nothing at first, for one of them is drawn."""

    def __init__(self, weight: Tensor, *, rank: int, seed: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        random = torch.Generator().manual_seed(seed)
        drawn = torch.randn(rank, columns, generator=random) / math.sqrt(columns)
        self.down = nn.Parameter(drawn.to(weight))
        self.up = nn.Parameter(torch.zeros(rows, rank).to(weight))


def projections(model: nn.Module, on: LoraPlace) -> dict[str, nn.Parameter]:
    """Return the matrices of attention or feed-forward layers, by name.

    Those of a head that writes are not among them, for a head learns as a whole.
    """
    found: dict[str, nn.Parameter] = {}
    for prefix, module in model.named_modules():
        names: tuple[str, ...] = ()
        if prefix.startswith("heads."):
            continue
        if isinstance(module, SelfAttention) and on != "feed-forward":
            names = ("qkv", "output")
        elif isinstance(module, FeedForward) and on != "attention":
            names = ("expand", "contract")
        found |= {f"{prefix}.{name}.weight": getattr(module, name).weight for name in names}
    return found
