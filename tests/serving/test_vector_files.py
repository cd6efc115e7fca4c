"""Files of vectors: other programs read what was written, to the last bit."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from bertworks.core.errors import DataError, UsageError
from bertworks.core.growing import growing
from bertworks.serving.vector_files import HEAD_BYTES, NpyFile, read_ranges, vector_file

LINES = [2, 3, 5, 8, 9, 13, 14]


def vectors(dtype: str) -> np.ndarray:
    """Draw seven vectors of five numbers, with ones that are hard to write down."""
    drawn = np.random.default_rng(11).normal(size=(7, 5)) * 50
    drawn[0, :3] = [1 / 3, 1e-30, -0.0]
    return drawn.astype(dtype)


def write(out: Path, rows: np.ndarray) -> None:
    """Write vectors in two chunks."""
    form = vector_file(str(out))
    with growing(out, {}, resume=False, keep=True) as file:
        file.write(form.opening(rows))
        for some in (slice(0, 3), slice(3, 7)):
            file.write(form.rows(LINES[some], rows[some]))
            file.commit({}, head=form.head(some.stop, rows))
        form.publish(file, rows.dtype.str, rows.shape[1])


def read(out: Path) -> tuple[list[int], np.ndarray]:
    """Read lines and vectors with the libraries that people use."""
    if out.suffix == ".npy":
        return LINES, np.load(out, mmap_mode="r")
    if out.suffix == ".parquet":
        table = parquet.read_table(out)
        return table["line"].to_pylist(), np.stack(table["vector"].to_numpy())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return [row["line"] for row in rows], np.array([row["vector"] for row in rows])


@pytest.mark.parametrize("dtype", ["<f4", "|i1", "|u1"])
@pytest.mark.parametrize("suffix", ["npy", "parquet", "jsonl"])
def test_other_libraries_read_the_same_numbers(tmp_path: Path, suffix: str, dtype: str) -> None:
    out, rows = tmp_path / f"out.{suffix}", vectors(dtype)
    write(out, rows)
    lines, found = read(out)
    assert lines == LINES
    np.testing.assert_array_equal(found.astype(dtype), rows)
    assert list(tmp_path.iterdir()) == [out]


def test_the_head_of_an_array_has_one_size_whatever_it_tells() -> None:
    rows = np.zeros((2, 1024), np.float32)
    assert {len(NpyFile().head(count, rows)) for count in (0, 7, 10**12)} == {HEAD_BYTES}


@pytest.mark.parametrize("out", ["vectors", "vectors.csv", "vectors.npy.gz"])
def test_an_unknown_ending_is_one_sentence(out: str) -> None:
    with pytest.raises(UsageError, match=r"should end with .npy, .parquet or .jsonl, or be -"):
        vector_file(out)


def test_ranges_are_read_as_they_were_saved(tmp_path: Path) -> None:
    ranges = np.array([[-1, 0.5, 2], [1, 0.5, 3]], np.float64)
    np.save(tmp_path / "ranges.npy", ranges)
    found = read_ranges(tmp_path / "ranges.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ranges)


@pytest.mark.parametrize(
    "held",
    [
        np.zeros((3, 2)),
        np.zeros(2),
        np.array([[1.0], [0.0]]),
        np.array([[0.0], [np.nan]]),
        np.array([["a"], ["b"]]),
        np.array([[None], [{}]]),
        b"",
        b"\x93NUMPY\x01\x00",
        b"not an array",
    ],
    ids=str,
)
def test_what_holds_no_ranges_is_one_sentence(held: np.ndarray | bytes, tmp_path: Path) -> None:
    file = tmp_path / "ranges.npy"
    if isinstance(held, bytes):
        file.write_bytes(held)
    else:
        np.save(file, held)
    with pytest.raises(DataError, match=r"cannot read ranges from .*ranges.npy: "):
        read_ranges(file)
