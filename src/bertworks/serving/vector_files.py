"""Vectors as files that other programs read: .npy, .parquet and .jsonl."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bertworks.core.errors import DataError, UsageError
from bertworks.core.growing import Growing
from bertworks.core.optional import import_optional
from bertworks.model.vector_precision import as_ranges

HEAD_BYTES = 128  # of a .npy, whatever its number of rows
ROWS_OF_A_GROUP = 4096  # of a .parquet
NAMES_NO_LINES = ".npy"  # its rows are vectors and nothing else


class VectorFile(Protocol):
    """How rows of vectors become bytes, and the bytes a file."""

    def opening(self, vectors: np.ndarray) -> bytes:
        """Return what stands before all rows, with room for `head`."""

    def rows(self, lines: Sequence[int], vectors: np.ndarray) -> bytes:
        """Return some rows."""

    def head(self, count: int, vectors: np.ndarray) -> bytes:
        """Return what takes the place of the first bytes when so many rows are written."""

    def publish(self, file: Growing, dtype: str, size: int) -> None:
        """Let the file appear in its place."""


def vector_file(out: str) -> VectorFile:
    """Return how the vectors of an output are written, by its name."""
    suffix = Path(out).suffix.lower()
    if suffix == ".npy":
        return NpyFile()
    if suffix == ".parquet":
        return ParquetFile()
    if out == "-" or suffix in (".jsonl", ".ndjson"):
        return JsonLines()
    raise UsageError(f"--out is {out}; its name should end with .npy, .parquet or .jsonl, or be -")


def read_ranges(file: Path) -> np.ndarray:
    """Return the least and the greatest of each number from a .npy, [2, D]."""
    try:
        return as_ranges(np.load(file, allow_pickle=False))
    except (OSError, EOFError, ValueError, UsageError) as error:
        raise DataError(f"cannot read ranges from {file}: {error}") from error


class JsonLines:
    """One object for each row, with the line that it answers."""

    def opening(self, vectors: np.ndarray) -> bytes:
        """Return nothing."""
        return b""

    def rows(self, lines: Sequence[int], vectors: np.ndarray) -> bytes:
        """Return some rows, of each number as many digits as tell it from its neighbors."""
        plain = (_numbers(vector) for vector in vectors)
        pairs = zip(lines, plain, strict=True)
        return "".join(
            json.dumps({"line": line, "vector": numbers}) + "\n" for line, numbers in pairs
        ).encode()

    def head(self, count: int, vectors: np.ndarray) -> bytes:
        """Return nothing."""
        return b""

    def publish(self, file: Growing, dtype: str, size: int) -> None:
        """Let the file appear in its place."""
        file.publish()


class NpyFile:
    """One array, which can be mapped into memory."""

    def opening(self, vectors: np.ndarray) -> bytes:
        """Return the head of no rows."""
        return self.head(0, vectors)

    def rows(self, lines: Sequence[int], vectors: np.ndarray) -> bytes:
        """Return some rows as they lie in memory."""
        return np.ascontiguousarray(vectors).tobytes()

    def head(self, count: int, vectors: np.ndarray) -> bytes:
        """Return the head of so many rows."""
        shape = (count, vectors.shape[1])
        told = {"descr": vectors.dtype.str, "fortran_order": False, "shape": shape}
        begin = b"\x93NUMPY\x01\x00" + (HEAD_BYTES - 10).to_bytes(2, "little")
        return (begin + str(told).encode()).ljust(HEAD_BYTES - 1) + b"\n"

    def publish(self, file: Growing, dtype: str, size: int) -> None:
        """Let the file appear in its place."""
        file.publish()


class ParquetFile:
    """A table of lines and vectors, made of plain rows when all are there."""

    def __init__(self) -> None:
        self.arrow = _pyarrow("pyarrow")
        self.parquet = _pyarrow("pyarrow.parquet")

    def opening(self, vectors: np.ndarray) -> bytes:
        """Return nothing."""
        return b""

    def rows(self, lines: Sequence[int], vectors: np.ndarray) -> bytes:
        """Return some rows, each with its line, as they lie in memory."""
        made = np.empty(len(vectors), _row(vectors.dtype.str, vectors.shape[1]))
        made["line"], made["vector"] = lines, vectors
        return made.tobytes()

    def head(self, count: int, vectors: np.ndarray) -> bytes:
        """Return nothing."""
        return b""

    def publish(self, file: Growing, dtype: str, size: int) -> None:
        """Turn the rows into a table and let it appear in its place."""
        made = file.target.with_name(file.target.name + ".partial.parquet")
        with made.open("wb") as stream:
            self._write(file.file.fileno(), _row(dtype, size), stream)
            stream.flush()
            os.fsync(stream.fileno())
        file.publish(made)

    def _write(self, rows: int, row: np.dtype[Any], stream: Any) -> None:
        """Copy rows by their descriptor, for to close the file once more would free its lock."""
        arrow, vector = self.arrow, row["vector"]
        size = vector.shape[0]
        kind = arrow.list_(arrow.from_numpy_dtype(vector.base), size)
        schema = arrow.schema([("line", arrow.int64()), ("vector", kind)])
        step = ROWS_OF_A_GROUP * row.itemsize
        with self.parquet.ParquetWriter(stream, schema) as writer:
            for first in range(0, os.fstat(rows).st_size, step):
                some = np.frombuffer(os.pread(rows, step, first), row)
                flat = arrow.array(some["vector"].reshape(-1))
                vectors = arrow.FixedSizeListArray.from_arrays(flat, size)
                columns = [arrow.array(np.ascontiguousarray(some["line"])), vectors]
                writer.write_batch(arrow.record_batch(columns, schema=schema))


def _row(dtype: str, size: int) -> np.dtype[Any]:
    """Return how a line and its vector lie in memory."""
    return np.dtype([("line", "<i8"), ("vector", dtype, (size,))])


def _pyarrow(name: str) -> Any:
    return import_optional(name, extra="corpus", purpose="writing .parquet")


def _numbers(vector: np.ndarray) -> list[float]:
    if vector.dtype == np.float32:
        return [float(f"{number:.9g}") for number in vector.tolist()]
    numbers: list[float] = vector.tolist()
    return numbers
