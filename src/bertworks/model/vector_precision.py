"""Vectors in fewer bits: whole numbers of eight bits, or one bit for each number.

The numbers are those that other libraries give, so that their indexes take them.
"""

from typing import Any, Literal, get_args

import numpy as np

from bertworks.core.errors import UsageError

VectorPrecision = Literal["float32", "int8", "uint8", "binary", "ubinary"]
NUM_STEPS = 255  # between the least and the greatest number of a range


def check_precision(precision: str, ranges: np.ndarray | None) -> None:
    """Stop where a precision is not known, or lacks the ranges that it needs."""
    if precision not in get_args(VectorPrecision):
        known = ", ".join(get_args(VectorPrecision))
        raise UsageError(f"precision {precision!r} is not known for vectors; use one of {known}")
    if precision.endswith("int8") and ranges is None:
        raise UsageError(
            f"{precision} vectors need ranges, or each would depend on its neighbours; give "
            "ranges=model.vector_ranges(texts) of some hundred texts like yours"
        )


def as_ranges(given: Any) -> np.ndarray:
    """Return ranges as they are counted with; anything else stops."""
    try:
        found = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        found = np.empty(0, np.float32)
    is_range = found.ndim == 2 and len(found) == 2 and bool(np.isfinite(found).all())
    if not is_range or (found[0] > found[1]).any():
        raise UsageError(
            "ranges are two rows of finite numbers, the least and the greatest of each number, "
            "which these are not; make them of texts with the same settings as the vectors"
        )
    return found


def ranges_of(vectors: np.ndarray) -> np.ndarray:
    """Return the least and the greatest of each number, [N, D] -> [2, D]."""
    if len(vectors) < 2:
        raise UsageError(f"ranges are made of at least 2 vectors; got {len(vectors)}")
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)])


def quantize(
    vectors: np.ndarray, precision: VectorPrecision, ranges: np.ndarray | None = None
) -> np.ndarray:
    """Return float vectors in a precision, [N, D]; in bits, [N, D / 8] rounded up.

    uint8 is how many 255ths of the way from the least to the greatest a number lies, rounded down,
    and int8 is 128 less; what lies outside of a range counts as its end. A bit is 1 for numbers
    above 0, the first in the highest place of a byte; binary bytes are 128 less than ubinary ones.
    """
    check_precision(precision, ranges)
    if precision == "float32":
        return vectors
    if precision.endswith("binary"):
        packed = np.packbits(vectors > 0, axis=1)
        return packed if precision == "ubinary" else _signed(packed)
    steps = _steps(vectors, as_ranges(ranges))
    return steps if precision == "uint8" else _signed(steps)


def _steps(vectors: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    if ranges.shape != (2, vectors.shape[1]):
        raise UsageError(
            f"the ranges have the shape {ranges.shape}, but vectors of {vectors.shape[1]} numbers "
            f"need {(2, vectors.shape[1])}; make them with the same settings as the vectors"
        )
    least, greatest = ranges
    width = (greatest - least) / NUM_STEPS
    # A number that was the same in all vectors has no range; whole steps of it still count.
    places = (vectors - least) / np.where(width == 0, np.float32(1), width)
    return np.floor(places).clip(0, NUM_STEPS).astype(np.uint8)


def _signed(steps: np.ndarray) -> np.ndarray:
    return (steps.astype(np.int16) - 128).astype(np.int8)
