"""Parallel texts: the same line of two files says the same in two languages."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.file_pairs import sides_of
from bertworks.core.lines import UNREADABLE, open_bytes, read_every_line, require_content
from bertworks.core.quarantine import Quarantine

Rows = Iterator[tuple[int, dict[str, Any]]]
CHUNK_BYTES = 1 << 20


def read_pair(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield the lines of the first side as sources, and those of the second as their targets."""
    sides = sides_of(file)
    _require_even(*sides)
    streams = (read_every_line(side, quarantine) for side in sides)
    for (number, source), (_, target) in zip(*streams, strict=True):
        if source is None or target is None:
            continue  # it was set aside when it was read
        row = {"source": source.strip(), "target": target.strip()}
        empty = [side.name for side, text in zip(sides, row.values(), strict=True) if not text]
        if empty:
            quarantine.add(file, number, f"nothing on this line of {' and of '.join(empty)}")
        else:
            yield number, row


def _require_even(first: Path, second: Path) -> None:
    for side in (first, second):
        require_content(side)
    counts = [_num_lines(side) for side in (first, second)]
    if counts[0] != counts[1]:
        raise DataError(
            f"{first} has {counts[0]:,} lines, but {second} has {counts[1]:,}; the same line of "
            "both must say the same"
        )


def _num_lines(file: Path) -> int:
    count, last = 0, b"\n"
    try:
        with open_bytes(file) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read after line {count}: {error}") from error
    return count + (last != b"\n")
