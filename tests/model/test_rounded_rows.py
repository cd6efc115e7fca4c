"""Rows of whole numbers: near enough to what they stand for, and no damaged scale is believed."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError
from bertworks.model.rounded_rows import MOST, has_rows, round_rows, widen_rows

HALF = 0.5 + 1e-4  # of a step; the rest is for the rounding of float itself


@given(
    shape=st.tuples(st.integers(1, 7), st.integers(1, 13)),
    size=st.floats(-30, 30),
    seed=st.integers(0, 10**6),
)
def test_no_number_moves_by_more_than_half_a_step(shape, size: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    spread = torch.rand(shape[0], 1, generator=random)  # rows of unlike sizes
    matrix = torch.randn(shape, generator=random) * spread * 10.0**size
    rows, scales = round_rows(matrix, "w")
    assert rows.dtype == torch.int8
    assert rows.shape == matrix.shape
    again = widen_rows(rows, scales, "w")
    assert again.dtype == torch.float32
    assert ((again - matrix).abs() <= HALF * scales.unsqueeze(1)).all()
    assert torch.equal(rows.abs().amax(dim=1), torch.full((shape[0],), MOST, dtype=torch.int8))


@given(st.lists(st.integers(-MOST, MOST), min_size=1, max_size=9), st.floats(1e-20, 1e20))
def test_what_was_rounded_once_keeps_its_numbers(numbers: list[int], scale: float) -> None:
    rows = torch.tensor([[*numbers, MOST]], dtype=torch.int8)
    once = widen_rows(rows, torch.tensor([scale]), "w")
    again, scales = round_rows(once, "w")
    assert torch.equal(again, rows)
    assert scales.item() == pytest.approx(scale, rel=1e-6)


def test_a_row_of_zeros_has_the_scale_zero_and_stays_so() -> None:
    matrix = torch.tensor([[0.0, 0.0, -0.0], [0.5, -1.0, 0.25]])
    rows, scales = round_rows(matrix, "w")
    assert scales.tolist() == pytest.approx([0.0, 1 / MOST])
    assert rows.tolist() == [[0, 0, 0], [64, -127, 32]]
    assert widen_rows(rows, scales, "w")[0].tolist() == [0.0, 0.0, 0.0]


def test_rows_too_small_for_a_scale_become_zeros_or_stay_near() -> None:
    matrix = torch.tensor([[1e-44, -1e-45], [2e-43, 1e-43]])
    again = widen_rows(*round_rows(matrix, "w"), "w")
    assert again.isfinite().all()
    assert (again - matrix).abs().max() < 1e-43


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused_by_name(number: float) -> None:
    matrix = torch.ones(3, 5)
    matrix[1, 4] = number
    with pytest.raises(ArtifactError, match=r"encoder\.w holds numbers that are not finite"):
        round_rows(matrix, "encoder.w")


@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_scales_may_be_of_either_precision(kind: torch.dtype) -> None:
    rows = torch.tensor([[1, -2, 127], [0, 4, -127]], dtype=torch.int8)
    scales = torch.tensor([0.25, 0.5]).to(kind)
    expected = [[0.25, -0.5, 31.75], [0.0, 2.0, -63.5]]
    assert widen_rows(rows, scales, "w").tolist() == expected


@pytest.mark.parametrize(
    ("scales", "found"),
    [
        (torch.ones(3), r"shape \[3\] beside rows of \[2, 5\]"),
        (torch.ones(2, 1), r"shape \[2, 1\] beside rows"),
        (torch.ones(5), r"shape \[5\] beside rows"),
        (torch.tensor(1.0), r"shape \[\] beside rows"),
        (torch.ones(2, dtype=torch.int32), r"type torch\.int32"),
        (torch.tensor([1.0, math.nan]), "negative or not finite"),
        (torch.tensor([math.inf, 1.0]), "negative or not finite"),
        (torch.tensor([1.0, -0.5]), "negative or not finite"),
    ],
)
def test_damaged_scales_are_refused_by_name(scales: torch.Tensor, found: str) -> None:
    with pytest.raises(ArtifactError, match=rf"^w\.scales has .*{found}"):
        widen_rows(torch.ones(2, 5, dtype=torch.int8), scales, "w")


def test_only_a_matrix_of_real_numbers_has_rows() -> None:
    assert has_rows(torch.zeros(1, 1))
    assert has_rows(torch.zeros(3, 5, dtype=torch.float16))
    odd = [torch.zeros(()), torch.zeros(5), torch.zeros(2, 3, 4), torch.zeros(0, 5)]
    assert not any(map(has_rows, [*odd, torch.zeros(5, 0), torch.zeros(2, 2, dtype=torch.int64)]))
