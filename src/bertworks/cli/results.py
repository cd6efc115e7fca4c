"""Results for people: a line for each value, a table where a value is a list of rows."""

import unicodedata
from collections.abc import Iterator
from typing import Any


def result_lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show what a stage returned."""
    for key, value in result.items():
        name = key.replace("_", " ")
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield f"{name}:"
            yield from _table(value)
        elif isinstance(value, list):
            yield f"{name}: {', '.join(map(_shown, value)) or 'none'}"
        else:
            yield f"{name}: {_shown(value)}"


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a heading and the rows, words to the left and numbers to the right."""
    columns = [
        _column(key.replace("_", " "), [row.get(key, "") for row in rows]) for key in rows[0]
    ]
    for cells in zip(*columns, strict=True):
        yield "  " + "  ".join(cells).rstrip()


def _column(name: str, values: list[Any]) -> list[str]:
    cells = [name, *map(_shown, values)]
    width = max(map(_width, cells))
    spaces = [" " * (width - _width(cell)) for cell in cells]
    is_number = all(isinstance(value, int | float) for value in values)
    return [s + c if is_number else c + s for c, s in zip(cells, spaces, strict=True)]


def _width(text: str) -> int:
    """Return how many columns a text takes on a terminal; East Asian signs take two."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.4f}"
