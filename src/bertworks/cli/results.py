"""Results for people: a line for each value, a table where a value is a list of rows."""

import textwrap
import unicodedata
from collections.abc import Iterator
from typing import Any

NARROWEST = 30  # columns for the words at the end of a table, however narrow the terminal


def result_lines(result: dict[str, Any], *, width: int | None = None) -> Iterator[str]:
    """Yield the lines that show what a stage returned; words at the end of a table fit a width.

    Sentences of a list have lines of their own.
    """
    for key, value in result.items():
        name = key.replace("_", " ")
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield f"{name}:"
            yield from _table(value, width)
        elif isinstance(value, list) and any(", " in str(item) for item in value):
            yield f"{name}:"
            yield from (f"  {item}" for item in value)
        elif isinstance(value, list):
            yield f"{name}: {', '.join(map(_shown, value)) or 'none'}"
        else:
            yield f"{name}: {_shown(value)}"


def _table(rows: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    """Yield a heading and the rows, words to the left and numbers to the right."""
    *columns, last = [
        _column(key.replace("_", " "), [row.get(key, "") for row in rows]) for key in rows[0]
    ]
    begin = sum(_width(column[0]) + 2 for column in columns) + 2
    room = max((width or 0) - begin, NARROWEST)
    for *cells, words in zip(*columns, last, strict=True):
        is_wide = width is not None and _width(words.rstrip()) > room
        parts = textwrap.wrap(words, room) if is_wide else [words]
        yield ("  " + "  ".join([*cells, *parts[:1]])).rstrip()
        yield from (" " * begin + part for part in parts[1:])


def _column(name: str, values: list[Any]) -> list[str]:
    cells = [name, *map(_shown, values)]
    width = max(map(_width, cells))
    spaces = [" " * (width - _width(cell)) for cell in cells]
    is_number = all(isinstance(value, int | float | None) for value in values)
    return [s + c if is_number else c + s for c, s in zip(cells, spaces, strict=True)]


def _width(text: str) -> int:
    """Return how many columns a text takes on a terminal; East Asian signs take two."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.4f}"
