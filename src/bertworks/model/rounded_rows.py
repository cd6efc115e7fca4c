"""Matrices in a quarter of their space: rows of whole numbers, and a scale for each row."""

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError

SCALES = ".scales"  # ends the name of a matrix's scales
MOST = 127  # what the number of a row that is farthest from zero becomes


def has_rows(tensor: Tensor) -> bool:
    """Tell whether a tensor is a matrix, and so can be kept as rows; vectors stay as they are."""
    return tensor.ndim == 2 and tensor.is_floating_point() and tensor.numel() > 0


def round_rows(matrix: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Return the nearest int8 numbers and the scale of each row; a row of zeros has the scale 0."""
    matrix = matrix.float()
    scales = matrix.abs().amax(dim=1) / MOST
    if not scales.isfinite().all():
        raise ArtifactError(
            f"{name} holds numbers that are not finite, which cannot be kept in int8; "
            "train the model again, or export it in fp32"
        )
    steps = scales.masked_fill(scales == 0, 1.0).unsqueeze(1)  # [rows, 1]
    return (matrix / steps).round().clamp(-MOST, MOST).to(torch.int8), scales


def widen_rows(rows: Tensor, scales: Tensor, name: str) -> Tensor:
    """Return the matrix in single precision; refuse scales that cannot be those of its rows."""
    if rows.ndim != 2 or scales.shape != rows.shape[:1]:
        raise _damaged(name, f"shape {list(scales.shape)} beside rows of {list(rows.shape)}")
    if not scales.is_floating_point():
        raise _damaged(name, f"type {scales.dtype}")
    scales = scales.float()
    if not (scales.isfinite() & (scales >= 0)).all():
        raise _damaged(name, "values that are negative or not finite")
    return rows.float().mul_(scales.unsqueeze(1))


def _damaged(name: str, found: str) -> ArtifactError:
    return ArtifactError(f"{name}{SCALES} has {found}; make or fetch the folder again")
