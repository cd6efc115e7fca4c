"""One column of a Parquet file as text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.parquet import read_parquet

# Kinds of columns; some programs write text as bytes.
TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def read_column(file: Path, column: str) -> Iterator[tuple[int, Any]]:
    """Yield (row number, value) of a column; a value that is no text is None."""

    def choose(schema: Any) -> list[str]:
        _require_text(file, schema, column)
        return [column]

    for number, row in read_parquet(file, choose):
        yield number, row[column]


def _require_text(file: Path, schema: Any, column: str) -> None:
    remedy = "name the one that holds the text with clean --column"
    if column not in schema.names:
        found = ", ".join(schema.names)
        raise DataError(f'{file} holds no column "{column}" (found {found}); {remedy}')
    kind = schema.types[schema.names.index(column)]
    stored = kind.value_type if str(kind).startswith("dictionary<") else kind
    if str(stored) not in TEXTS:
        raise DataError(f'{file} holds {kind} in its column "{column}", not text; {remedy}')
