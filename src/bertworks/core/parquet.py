"""Rows of a Parquet file, a few at a time."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.lines import UNREADABLE, is_compressed, open_bytes
from bertworks.core.optional import import_optional

ROWS_AT_ONCE = 64
BUFFER_BYTES = 1 << 20  # a column of a row group is read through this, not held whole


def read_parquet(
    file: Path, choose: Callable[[Any], list[str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number, values) of the columns that are chosen from the schema.

    Bytes are read as text; what cannot be is None.
    """
    number = 0
    arrow = import_optional("pyarrow", extra="corpus", purpose=f"reading {file}")
    parquet = import_optional("pyarrow.parquet", extra="corpus", purpose=f"reading {file}")
    try:
        source = _unpacked(file) if is_compressed(file) else file
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER_BYTES) as table:
            columns = choose(table.schema_arrow)
            for batch in table.iter_batches(ROWS_AT_ONCE, columns=columns, use_threads=False):
                for row in zip(*(batch.column(name) for name in columns), strict=True):
                    number += 1
                    yield number, dict(zip(columns, map(_plain, row), strict=True))
    except (arrow.ArrowException, *UNREADABLE) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"{file} cannot be read after row {number}: {reason}") from error


def _unpacked(file: Path) -> io.BytesIO:
    """Return a compressed file as a whole: its rows are found from its end."""
    with open_bytes(file) as stream:
        return io.BytesIO(stream.read())


def _plain(value: Any) -> Any:
    try:
        found = value.as_py()
        return found.decode() if isinstance(found, bytes) else found
    except UnicodeDecodeError:
        return None
