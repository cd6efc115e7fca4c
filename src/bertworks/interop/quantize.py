"""Numbers of eight bits: a weight matrix by columns, and vectors as they come."""

import numpy as np
import torch
from torch import Tensor

HIGHEST = 127
LEAST = 1e-30  # a column below it is nothing, for its step would be no normal number


def quantize_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers from -127 to 127 and the step of each column, [in, out] -> [out]."""
    highest = np.abs(matrix).max(axis=0)
    steps = np.where(highest > LEAST, highest / HIGHEST, 1.0).astype(np.float32)
    return np.rint(matrix / steps).clip(-HIGHEST, HIGHEST).astype(np.int8), steps


def round_vectors(vectors: Tensor) -> Tensor:
    """Return vectors as they are after a step that fits the whole lot: 256 values, 0 among them."""
    lowest, highest = vectors.amin().clamp(max=0.0), vectors.amax().clamp(min=0.0)
    step = (highest - lowest) / 255
    if not step > 0:
        return vectors
    zero = torch.round(-lowest / step)
    return (torch.round(vectors / step + zero).clamp(0, 255) - zero) * step


def round_columns(weight: Tensor) -> Tensor:
    """Return the weight of a linear layer as its whole numbers stand for it, [out, in]."""
    whole, steps = quantize_columns(weight.detach().numpy().T)
    return torch.from_numpy((whole * steps).T.copy())
