"""Vectors on their way out: as lists, as base64, compared with each other."""

from base64 import b64encode
from typing import Any

import msgspec
import numpy as np

from bertworks.service.foreign_schemas import Scheme


def as_list(vector: np.ndarray) -> Any:
    """Return the numbers of a vector, or of several, written as JSON.

    One by one, so that other threads have their turn before hundreds of them are written.
    """
    if vector.ndim > 1:
        return msgspec.Raw(b"[" + b",".join(as_list(row) for row in vector) + b"]")
    return msgspec.Raw(msgspec.json.encode(np.asarray(vector, dtype=np.float32).tolist()))


def as_written(vector: np.ndarray, scheme: Scheme) -> Any:
    """Return a vector as numbers, or as base64 of its bytes."""
    if scheme == "float":
        return as_list(vector)
    return b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")


def cosines(vector: np.ndarray, others: list[np.ndarray]) -> list[float]:
    """Return how alike a vector of length 1 and others are."""
    return [float(number) for number in np.stack(others) @ vector]
