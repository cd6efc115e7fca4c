"""The numbers of answers: only finite ones leave the service, for JSON knows no others."""

from math import isfinite
from typing import Any

import numpy as np

from bertworks.service.failures import Failure


def if_finite(answer: Any) -> Any:
    """Return an answer, or the failure of one that holds other than finite numbers."""
    return answer if is_finite(answer) else not_finite()


def not_finite() -> Failure:
    """Return the failure of an input that breaks the network's numbers."""
    return Failure(
        "not_finite",
        "the network gives no finite numbers for this input; tell those who run the service",
    )


def is_finite(value: Any) -> bool:
    """Tell whether all numbers in an array, or in JSON data, are finite."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, value))
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())
