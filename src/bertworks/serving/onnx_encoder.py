"""An encoder that ONNX Runtime computes, called as the network in torch is."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch, Layout
from bertworks.core.errors import UsageError
from bertworks.interop.onnx_network import IDS, MASK, SEGMENTS
from bertworks.interop.onnx_outputs import HIDDEN
from bertworks.model.encoder import Encoder, Pooling, pool_texts

RECTANGLE = 1024  # tokens of one rectangle, padding counted
MOST_PADDING = 0.1  # of a rectangle


class OnnxEncoder(nn.Module):
    """Texts in, one vector per token out; what heads read beside it stays in torch."""

    def __init__(
        self, encoder: Encoder, session: Any, *, precision: Literal["fp32", "int8"] = "fp32"
    ) -> None:
        super().__init__()
        self.precision = precision  # of most of its products
        self.config = encoder.config
        self.embeddings = encoder.embeddings  # a tied head reads the vectors of the pieces
        self.pooler = encoder.pooler
        self.session = session
        self.inputs = {item.name for item in session.get_inputs()}

    def forward(self, batch: Batch) -> Tensor:
        """Return the last layer's vectors, [T, D]."""
        if batch.is_causal:
            raise UsageError("the backend onnx does not read from left to right; use torch")
        tokens, segments = batch.tokens.numpy(), batch.segments.numpy()
        starts = batch.layout.starts.numpy()
        hidden = np.empty((len(tokens), self.config.hidden_size), np.float32)
        for texts in rectangles(batch.layout.lengths):
            begin, end = starts[texts.start], starts[texts.stop]
            is_there = _mask(batch.layout.lengths[texts.start : texts.stop])
            given = {
                IDS: _fill(tokens[begin:end], is_there),
                MASK: is_there.astype(np.int64),
                SEGMENTS: _fill(segments[begin:end], is_there),
            }
            wanted = {name: given[name] for name in self.inputs}
            (found,) = self.session.run([HIDDEN], wanted)
            hidden[begin:end] = found[is_there]
        return torch.from_numpy(hidden)

    def pool(self, hidden: Tensor, layout: Layout, pooling: Pooling | None = None) -> Tensor:
        """Return one vector for each text, [T, D] -> [N, D]; by default as its mixer allows."""
        return self.pooler(pool_texts(hidden, layout, pooling or self.config.own_pooling))


def rectangles(lengths: tuple[int, ...]) -> Iterator[range]:
    """Cut neighbours of near length into rectangles with little padding."""
    first, total, longest = 0, 0, 0
    for text, length in enumerate(lengths):
        most = max(longest, length)
        area = most * (text + 1 - first)
        if text > first and (area > RECTANGLE or area - total - length > MOST_PADDING * area):
            yield range(first, text)
            first, total, most = text, 0, length
        total, longest = total + length, most
    if first < len(lengths):
        yield range(first, len(lengths))


def _mask(lengths: tuple[int, ...]) -> np.ndarray:
    return np.arange(max(lengths)) < np.array(lengths)[:, None]


def _fill(values: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    """Lay values into a rectangle, text by text; what is left over is 0."""
    filled = np.zeros(is_there.shape, np.int64)
    filled[is_there] = values
    return filled
