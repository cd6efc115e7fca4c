"""Files of labelled data: rows of JSONL, CSV or TSV as examples."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import (
    COMPRESSIONS,
    STANDARD_INPUT,
    plain_suffix,
    read_lines,
    require_content,
)
from bertworks.core.quarantine import Quarantine
from bertworks.data.forms import COLUMNS, TELLTALES, make_example

Columns = Mapping[str, str]  # our name of a column -> the file's


def read_examples(
    file: Path,
    quarantine: Quarantine,
    *,
    form: str = "label",
    columns: Columns | None = None,
    labelled: bool = True,
) -> list[Any]:
    """Return the examples of a file; rows that cannot be used go to the quarantine."""
    require_content(file)
    own = Quarantine()  # each file must be mostly good, however long the others are
    examples = list(stream_examples(file, own, form=form, columns=columns, labelled=labelled))
    own.check(remedy="mend the file, or name its columns with --columns")
    if not examples:
        raise DataError(f"{file} holds no rows; give a file with examples in it")
    quarantine.take(own)
    return examples


def stream_examples(
    file: Path,
    quarantine: Quarantine,
    *,
    form: str = "label",
    columns: Columns | None = None,
    labelled: bool = True,
) -> Iterator[Any]:
    """Yield the examples of a file, or of JSON lines from standard input, one by one."""
    for line, row in _rows(file, quarantine):
        try:
            found = make_example(row, line, form=form, columns=columns, labelled=labelled)
        except DataError as error:
            quarantine.add(file, line, str(error))
        else:
            quarantine.num_good += 1
            yield found


def find_form(file: Path, columns: Columns | None = None) -> str:
    """Return the form that the columns of a file's first row speak of."""
    require_content(file)
    _, row = next(_rows(file, Quarantine()), (0, {}))
    told = (form for ours, form in TELLTALES.items() if (columns or {}).get(ours, ours) in row)
    return next(told, "label")


def parse_columns(pairs: tuple[str, ...]) -> dict[str, str]:
    """Read `text=sentence` as: the column `sentence` holds the text."""
    columns = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not equals or ours not in COLUMNS or not theirs:
            raise UsageError(f"--columns takes NAME=COLUMN with {', '.join(COLUMNS)}; got {pair!r}")
        columns[ours] = theirs
    return columns


def _rows(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, dict[str, Any]]]:
    if file != STANDARD_INPUT:
        require_content(file)
    reader = _READERS.get(".jsonl" if file == STANDARD_INPUT else plain_suffix(file))
    if reader is None:
        known = ", ".join(_READERS)
        raise UsageError(
            f"{file} has no known format; its name should end with {known}, which may be "
            f"followed by {', '.join(COMPRESSIONS)}"
        )
    return reader(file, quarantine)


def _read_jsonl(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in read_lines(file, quarantine):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            quarantine.add(file, number, "not a JSON object")


def _read_tsv(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, dict[str, Any]]]:
    """Split on tabs alone: the public sets hold bare quote characters."""
    rows = ((n, line.rstrip("\r\n").split("\t")) for n, line in read_lines(file, quarantine))
    return _with_header(file, rows, quarantine)


def _read_csv(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, dict[str, Any]]]:
    return _with_header(file, _csv_rows(file, quarantine), quarantine)


def _csv_rows(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line on which it begins; a broken one costs all lines it took."""
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for number, line in read_lines(file, quarantine):
            taken.append(number)
            yield line

    rows = csv.reader(lines(), strict=True)
    while True:
        taken.clear()
        try:
            yield from ((taken[0], row) for row in islice(rows, 1))
        except csv.Error as error:
            for number in taken:
                quarantine.add(file, number, f"not CSV: {error}")
        if not taken:
            return


def _with_header(
    file: Path, rows: Iterator[tuple[int, list[str]]], quarantine: Quarantine
) -> Iterator[tuple[int, dict[str, Any]]]:
    _, header = next(rows, (0, []))
    for number, row in rows:
        if len(row) == len(header):
            yield number, dict(zip(header, row, strict=True))
        elif any(row):
            quarantine.add(file, number, f"{len(row)} columns, but the header has {len(header)}")


_Reader = Callable[[Path, Quarantine], Iterator[tuple[int, dict[str, Any]]]]
_READERS: dict[str, _Reader] = {".jsonl": _read_jsonl, ".tsv": _read_tsv, ".csv": _read_csv}
