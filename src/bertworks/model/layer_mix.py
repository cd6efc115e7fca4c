"""Which layers of an encoder the vectors of tokens come from, and how several become one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from bertworks.core.errors import UsageError

Layers = int | Sequence[int]
Mix = Literal["mean", "concat"] | Sequence[float]  # or how much each layer counts
LAST = -1


@dataclass(frozen=True)
class LayerMix:
    """Layers by their numbers from 0, the vectors that enter the first one, and their weights."""

    numbers: tuple[int, ...]
    weights: tuple[float, ...] | None  # they sum to 1; None: vectors stand side by side

    @classmethod
    def of(cls, layers: Layers, mix: Mix, *, num_layers: int) -> Self:
        """Choose layers of a network; negative numbers count from its end."""
        asked = tuple(layers) if isinstance(layers, Sequence) else (layers,)
        if not asked:
            raise UsageError("layers is empty; name one at least, as -1 for the last")
        for layer in asked:
            if not isinstance(layer, int) or not -num_layers - 1 <= layer <= num_layers:
                raise UsageError(
                    f"there is no layer {layer!r}; the network has {num_layers}, from 1 (or "
                    f"-{num_layers}) to {num_layers} (or -1), and 0 is what enters the first"
                )
        return cls(tuple(layer % (num_layers + 1) for layer in asked), _weights(mix, len(asked)))

    @property
    def width(self) -> int:
        """How many times wider the vectors are than those of one layer."""
        return len(self.numbers) if self.weights is None else 1

    def is_last_of(self, num_layers: int) -> bool:
        """Tell whether nothing but the last layer is asked for."""
        return self.numbers == (num_layers,)

    def apply(self, layers: Iterable[Tensor]) -> Tensor:
        """Return the vectors of tokens from those of all layers, [T, D] each."""
        needed = {number: layer for number, layer in enumerate(layers) if number in self.numbers}
        chosen = [needed[number].float() for number in self.numbers]
        if self.weights is None:
            return torch.cat(chosen, dim=-1)
        pairs = zip(self.weights, chosen, strict=True)
        return torch.stack([weight * layer for weight, layer in pairs]).sum(0)


def _weights(mix: Mix, count: int) -> tuple[float, ...] | None:
    if mix == "concat":
        return None
    if mix == "mean":
        return (1 / count,) * count
    try:
        weights = tuple(float(weight) for weight in mix)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"mix {mix!r} is not known; use mean, concat or one weight for each layer"
        ) from error
    total = sum(weights)
    if len(weights) != count or not total or not math.isfinite(total):
        raise UsageError(
            f"mix is {weights}; {count} layers need as many weights, with a sum other than 0"
        )
    return tuple(weight / total for weight in weights)
