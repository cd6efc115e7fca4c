"""Whole numbers of eight bits stand for weights and vectors within half a step."""

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bertworks.interop.quantize import quantize_columns, round_columns, round_vectors

NUMBERS = st.floats(-50, 50, width=32)
MATRICES = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=NUMBERS
)


@given(MATRICES)
def test_a_column_is_rounded_by_half_of_its_own_step_at_most(matrix: np.ndarray) -> None:
    whole, steps = quantize_columns(matrix)
    assert whole.dtype == np.int8
    assert whole.min() >= -127
    assert steps.shape == matrix.shape[1:]
    off = np.abs(whole * steps.astype(np.float64) - matrix)
    assert (off <= steps / 2 * (1 + 1e-4)).all()


@given(MATRICES)
@example(np.array([[1e-45, 1e-38], [0, 3]], np.float32))
def test_the_largest_number_of_a_column_becomes_127(matrix: np.ndarray) -> None:
    whole, _ = quantize_columns(matrix)
    filled = np.abs(matrix).max(axis=0) > 1e-30
    assert (np.abs(whole).max(axis=0)[filled] == 127).all()
    assert not whole[:, ~filled].any()


def test_a_loud_column_leaves_a_quiet_one_alone() -> None:
    quiet = np.array([[0.01], [-0.02], [0.005]], np.float32)
    both = np.concatenate([quiet, 1000 * np.ones((3, 1), np.float32)], axis=1)
    np.testing.assert_array_equal(quantize_columns(both)[0][:, :1], quantize_columns(quiet)[0])


@given(MATRICES)
def test_vectors_take_at_most_256_values_and_zero_is_one_of_them(matrix: np.ndarray) -> None:
    vectors = torch.from_numpy(matrix)
    rounded = round_vectors(vectors)
    step = max(float(vectors.max()), 0) - min(float(vectors.min()), 0)
    assert float((rounded - vectors).abs().max()) <= step / 255 * 1.01 + 1e-30
    assert len(rounded.unique()) <= 256
    with_zero = torch.cat([vectors.flatten(), torch.zeros(1)])
    assert round_vectors(with_zero)[-1] == 0


def test_a_weight_is_rounded_row_by_row_of_its_outputs() -> None:
    weight = torch.randn(5, 7, generator=torch.Generator().manual_seed(3))
    whole, steps = quantize_columns(weight.numpy().T)
    np.testing.assert_array_equal(round_columns(weight).numpy(), (whole * steps).T)
