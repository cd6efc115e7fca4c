"""What carried words to their neighbours before attention: recurrence and convolution.

Each is called as SelfAttention is, `mixer(hidden, sight)`, and never looks beyond its own text.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from bertworks.model.attention import Sight
from bertworks.model.config import EncoderConfig

DILATIONS = (1, 2, 4, 8)  # by layer, then again from the first


class Recurrence(nn.Module):
    """An LSTM in each direction, half as wide."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        half = config.hidden_size // 2
        self.lstm = nn.LSTM(config.hidden_size, half, bidirectional=True, bias=config.biases)

    def forward(self, hidden: Tensor, sight: Sight) -> Tensor:
        """Return what each token has read from both ends of its text, [T, D] -> [T, D]."""
        steps = sight.steps
        read, _ = self.lstm(PackedSequence(hidden.index_select(0, steps.order), steps.sizes))
        return read.data.index_select(0, steps.back)


class Convolution(nn.Module):
    """A gated look at three tokens, farther apart from layer to layer."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.distance = DILATIONS[layer % len(DILATIONS)]
        self.look = nn.Linear(3 * config.hidden_size, 2 * config.hidden_size, bias=config.biases)

    def forward(self, hidden: Tensor, sight: Sight) -> Tensor:
        """Return what each token saw of itself and two others, [T, D] -> [T, D]."""
        before = _shift(hidden, self.distance) * (sight.before >= self.distance)
        after = _shift(hidden, -self.distance) * (sight.after >= self.distance)
        seen, gate = self.look(torch.cat([before, hidden, after], dim=-1)).chunk(2, dim=-1)
        return seen * gate.sigmoid()


def _shift(hidden: Tensor, distance: int) -> Tensor:
    """Move all tokens by a distance; what moves in from outside is zero."""
    empty = hidden.new_zeros(min(abs(distance), len(hidden)), hidden.shape[-1])
    if distance > 0:
        return torch.cat([empty, hidden[:-distance]])
    return torch.cat([hidden[-distance:], empty])
