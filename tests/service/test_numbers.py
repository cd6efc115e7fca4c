"""Only finite numbers leave the service."""

import math
from typing import Any

import numpy as np
import pytest

from bertworks.service.failures import Failure
from bertworks.service.numbers import if_finite


@pytest.mark.parametrize(
    "answer", [{"a": [1.5, {"b": "nan"}], "c": None}, [], 7, np.zeros((2, 3)), (1.0, True)]
)
def test_an_answer_of_finite_numbers_is_given(answer: Any) -> None:
    assert if_finite(answer) is answer


@pytest.mark.parametrize(
    "answer", [{"a": [1.5, {"b": math.nan}]}, [math.inf], np.array([1.0, -np.inf]), (math.nan,)]
)
def test_an_answer_of_others_is_a_failure(answer: Any) -> None:
    failure = if_finite(answer)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.status) == ("not_finite", 500)
