"""One column of a Parquet file, a few rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.optional import import_optional

ROWS_AT_ONCE = 64
# Kinds of columns; some programs write text as bytes.
TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
BUFFER_BYTES = 1 << 20  # a column of a row group is read through this, not held whole


def read_column(file: Path, column: str) -> Iterator[tuple[int, Any]]:
    """Yield (row number, value) of a column; a value that is no text is None."""
    number = 0
    arrow = import_optional("pyarrow", extra="corpus", purpose=f"reading {file}")
    parquet = import_optional("pyarrow.parquet", extra="corpus", purpose=f"reading {file}")
    try:
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES) as table:
            _require_text(file, table.schema_arrow, column)
            for batch in table.iter_batches(ROWS_AT_ONCE, columns=[column], use_threads=False):
                for value in batch.column(0):
                    number += 1
                    yield number, _text(value)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{file} cannot be read after row {number}: {reason}") from error


def _require_text(file: Path, schema: Any, column: str) -> None:
    remedy = "name the one that holds the text with clean --column"
    if column not in schema.names:
        found = ", ".join(schema.names)
        raise DataError(f'{file} holds no column "{column}" (found {found}); {remedy}')
    kind = schema.types[schema.names.index(column)]
    stored = kind.value_type if str(kind).startswith("dictionary<") else kind
    if str(stored) not in TEXTS:
        raise DataError(f'{file} holds {kind} in its column "{column}", not text; {remedy}')


def _text(value: Any) -> Any:
    try:
        found = value.as_py()
        return found.decode() if isinstance(found, bytes) else found
    except UnicodeDecodeError:
        return None
