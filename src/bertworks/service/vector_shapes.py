"""Vectors on their way out: as lists, as base64, compared with each other."""

from base64 import b64encode
from typing import Any

import numpy as np

from bertworks.service.foreign_schemas import Scheme


def as_list(vector: np.ndarray) -> list[Any]:
    """Return the numbers of a vector, or of several."""
    return np.asarray(vector, dtype=np.float32).tolist()


def as_written(vector: np.ndarray, scheme: Scheme) -> list[float] | str:
    """Return a vector as numbers, or as base64 of its bytes."""
    if scheme == "float":
        return as_list(vector)
    return b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")


def cosines(vector: np.ndarray, others: list[np.ndarray]) -> list[float]:
    """Return how alike a vector of length 1 and others are."""
    return [float(number) for number in np.stack(others) @ vector]
