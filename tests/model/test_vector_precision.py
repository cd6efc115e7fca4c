"""Vectors in few bits: the very numbers, the ends of ranges, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.model.vector_precision import quantize, ranges_of

VECTORS = np.array([[-255, 0, 255], [255, 0, -3], [1, 0.5, 999]], np.float32)
RANGES = np.array([[-255, 0, 0], [255, 0, 255]], np.float32)


def test_numbers_become_steps_of_their_range_and_never_leave_it() -> None:
    steps = quantize(VECTORS, "uint8", RANGES)
    assert steps.dtype == np.uint8
    np.testing.assert_array_equal(steps, [[0, 0, 255], [255, 0, 0], [128, 0, 255]])
    signed = quantize(VECTORS, "int8", RANGES)
    assert signed.dtype == np.int8
    np.testing.assert_array_equal(signed, steps.astype(int) - 128)


def test_bits_are_packed_with_the_first_number_highest() -> None:
    vectors = np.array([[1, -1, 1, 0, 0, 0, 0, 2, 3], [-1] * 9], np.float32)
    bits = quantize(vectors, "ubinary")
    np.testing.assert_array_equal(bits, [[0b10100001, 0b10000000], [0, 0]])
    signed = quantize(vectors, "binary")
    assert signed.dtype == np.int8
    np.testing.assert_array_equal(signed, bits.astype(int) - 128)


@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(1, 9))
def test_a_vector_is_found_again_to_within_a_step(seed: int, count: int, width: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    ranges = ranges_of(vectors)
    step = (ranges[1] - ranges[0]) / 255
    again = ranges[0] + quantize(vectors, "uint8", ranges) * step
    assert (np.abs(again - vectors) <= step * 1.01 + 1e-6).all()


def test_nothing_stays_nothing_of_the_right_width() -> None:
    none = np.zeros((0, 9), np.float32)
    ranges = np.zeros((2, 9), np.float32)
    assert quantize(none, "int8", ranges).shape == (0, 9)
    assert quantize(none, "binary").shape == (0, 2)
    assert quantize(none, "float32") is none


def test_what_is_missing_or_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="precision 'int4' is not known for vectors; use one of"):
        quantize(VECTORS, "int4")
    for precision in ("int8", "uint8"):
        with pytest.raises(UsageError, match=f"{precision} vectors need ranges"):
            quantize(VECTORS, precision)
    with pytest.raises(UsageError, match=r"shape \(2, 2\), but vectors of 3 numbers need \(2, 3\)"):
        quantize(VECTORS, "int8", RANGES[:, :2])
    with pytest.raises(UsageError, match="at least 2 vectors; got 1"):
        ranges_of(VECTORS[:1])


@pytest.mark.parametrize(
    "ranges", ["x", 3, [1, 2], [[1, 2], [0, 3]], [[0, 1], [float("nan"), 2]], [[1], [2], [3]]]
)
def test_what_are_no_ranges_is_refused_rather_than_counted_with(ranges: Any) -> None:
    with pytest.raises(UsageError, match="ranges are two rows of finite numbers"):
        quantize(np.ones((3, 2), np.float32), "int8", ranges)
