"""Which layers of a model learn at a step, and how fast each of them does."""

import re
from dataclasses import dataclass

from torch import Tensor, nn

from bertworks.model.encoder import initialize

BLOCK = re.compile(r"encoder\.blocks\.(\d+)\.")
BOTTOM = ("encoder.embeddings.", "encoder.distances.")


@dataclass(frozen=True, kw_only=True)
class Layers:
    """How the layers differ; 0 is the embeddings, then come the blocks, then what lies behind them.

    The task heads lie above all of these, and always learn.
    """

    num_frozen: int = 0  # at the beginning, from the bottom
    thaw_every: int = 0  # steps after which one more learns, from the top; 0: never
    decay: float = 1.0  # of the learning rate, from each layer to the one below
    fresh: frozenset[str] = frozenset()  # parameters that learn wherever they lie


class Ladder:
    """The parameters of a model, each on the rung of its layer."""

    def __init__(self, model: nn.Module, layers: Layers) -> None:
        self.layers = layers
        self.num_blocks = count_blocks(model)
        self._rungs = [
            (parameter, self.num_blocks + 2 if name in layers.fresh else self.layer(name))
            for name, parameter in model.named_parameters()
        ]

    def num_frozen(self, step: int) -> int:
        """Return how many layers do not learn at a step, counted from the bottom."""
        layers = self.layers
        thawed = (step - 1) // layers.thaw_every if layers.thaw_every else 0
        if not thawed:
            return layers.num_frozen
        # What lies behind the last block thaws with it.
        return max(min(layers.num_frozen, self.num_blocks + 1) - thawed, 0)

    def freeze(self, step: int) -> None:
        """Let only those parameters have gradients that learn at a step."""
        if not self.layers.num_frozen:
            return
        num_frozen = self.num_frozen(step)
        for parameter, layer in self._rungs:
            parameter.requires_grad_(layer >= num_frozen)

    def shares(self) -> dict[Tensor, float]:
        """Return which share of the learning rate each parameter has."""
        top = self.num_blocks + 1
        return {p: self.layers.decay ** max(top - layer, 0) for p, layer in self._rungs}

    def layer(self, name: str) -> int:
        """Return the layer of a parameter."""
        if name.startswith(BOTTOM):
            return 0
        if block := BLOCK.match(name):
            return int(block[1]) + 1
        return self.num_blocks + (1 if name.startswith("encoder.") else 2)


def reinitialize(model: nn.Module, count: int, *, seed: int) -> frozenset[str]:
    """Draw the top blocks afresh, and what lies behind them; return what begins anew.

    The top of a pre-trained network knows its old objective best (arXiv 2006.05987).
    """
    if not count:
        return frozenset()
    ladder = Ladder(model, Layers())
    lowest = ladder.num_blocks - count
    layers = ((name, ladder.layer(name)) for name, _ in model.named_parameters())
    drawn = frozenset(name for name, n in layers if lowest < n <= ladder.num_blocks + 1)
    initialize(model, seed=seed, only=drawn)
    return drawn


def count_blocks(model: nn.Module) -> int:
    """Return how many blocks a model's encoder has."""
    found = (BLOCK.match(name) for name, _ in model.named_parameters())
    return max((int(block[1]) + 1 for block in found if block), default=0)
