"""Rows of JSONL, CSV, TSV and Parquet under the names that the file gives their columns."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bertworks.core.lines import STANDARD_INPUT, read_lines
from bertworks.core.parquet import read_parquet
from bertworks.core.quarantine import Quarantine
from bertworks.data.bare_tables import Column, least_width
from bertworks.data.columns import Columns, is_header, num_columns
from bertworks.data.json_documents import TOO_LONG, is_too_long

Rows = Iterator[tuple[int, dict[str, Any]]]
Cells = Iterator[tuple[int, list[str]]]
SAMPLE = 1000  # rows that tell what the columns are
CSV_MARKS = (",", ";", "\t")  # between columns, the surest first
FEWEST_EVEN = 0.9  # of the rows of a table without a header have the same width
_SEP_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?,*', re.IGNORECASE)  # which Excel writes and reads
_OF_PROSE = re.compile(r";(?=\s|$)|&#?\w{1,12};")
FEWEST_PARTED = 5  # rows that tell what parts them
UNEVEN = re.compile(r"^\d+ columns?, but ")  # how the reason begins where a row has another width


@dataclass(frozen=True)
class Wanted:
    """What somebody needs of the rows of a table."""

    columns: Container[str] | None = None  # that a row must have; None: all
    has_blank: bool = False  # whether a blank row is told, for answers to rows are counted


ALL_COLUMNS = Wanted()


@dataclass(frozen=True)
class Table:
    """The columns of a file, a few of its rows, and how to read them all."""

    names: tuple[str, ...]  # numbers from 1 on where there is no header
    sample: tuple[dict[str, Any], ...]
    read: Callable[..., Rows]  # of a quarantine; of cells also what is wanted
    has_names: bool = True
    has_places: bool = False  # its columns stand in an order, so they may be given by number
    is_even: bool = True  # nearly all rows have as many columns

    def column(self, name: str) -> Column:
        """Return what stands in one column, as text."""
        return Column(tuple(str(row[name]) for row in self.sample if name in row))

    def mean_length(self, name: str) -> float:
        """Return how many characters the texts of a column have."""
        texts = [row[name] for row in self.sample if isinstance(row.get(name), str)]
        return sum(map(len, texts)) / len(texts) if texts else 0.0


def open_objects(file: Path, read: Callable[[Path, Quarantine], Rows]) -> Table:
    """Return objects with keys as a table; those of standard input are not looked at before."""
    sample: tuple[dict[str, Any], ...] = ()
    if file != STANDARD_INPUT:
        sample = tuple(row for _, row in islice(read(file, Quarantine()), SAMPLE))
    names = dict.fromkeys(name for row in sample for name in row)
    return Table(tuple(names), sample, partial(read, file))


def open_cells(file: Path, read: Callable[[Path, Quarantine], Cells], given: Columns) -> Table:
    """Return lines of cells as a table, with a header or without one."""
    rows = [row for _, row in islice(read(file, Quarantine()), SAMPLE) if not _is_blank(row)]
    if not rows or is_header(rows[0], given, rows[1:]):
        names = tuple(rows[0]) if rows else ()
        fitted = (_fitted(row, len(names)) for row in rows[1:])
        sample = [dict(zip(names, row, strict=False)) for row in fitted if len(row) <= len(names)]
        reader = partial(_with_header, file, read)
        return Table(names, tuple(sample), reader, has_places=True)
    width = Counter(map(len, rows)).most_common(1)[0][0]
    rows = [_fitted(row, width) for row in rows]
    columns = [Column(values) for values in zip(*(r for r in rows if len(r) == width), strict=True)]
    least = least_width(columns)
    names = tuple(str(at) for at in range(1, (least or width) + 1))
    kept = (row for row in rows if len(row) == width or (least and len(row) > least))
    sample = [dict(zip(names, row, strict=False)) for row in kept]
    bare_reader = partial(_without_header, file, read, names, has_extras=least is not None)
    is_even = len(sample) >= FEWEST_EVEN * len(rows)
    return Table(names, tuple(sample), bare_reader, False, True, is_even)


def read_jsonl(file: Path, quarantine: Quarantine) -> Rows:
    """Yield the objects of a file of JSON lines."""
    for number, line in read_lines(file, quarantine):
        if not line.strip():
            continue
        row, reason = None, "not a JSON object"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = TOO_LONG if is_too_long(error) else reason
        if isinstance(row, dict):
            yield number, row
        else:
            quarantine.add(file, number, reason)


def read_parquet_rows(file: Path, quarantine: Quarantine) -> Rows:
    """Yield the rows of a Parquet file."""
    return read_parquet(file, lambda schema: list(dict.fromkeys(schema.names)))


def read_tsv(file: Path, quarantine: Quarantine) -> Cells:
    """Split on tabs alone: the public sets hold bare quote characters."""
    return ((n, line.rstrip("\r\n").split("\t")) for n, line in read_lines(file, quarantine))


def read_whole_lines(file: Path, quarantine: Quarantine) -> Cells:
    """Yield each line as one cell, whatever it holds."""
    return ((number, [line.rstrip("\r\n")]) for number, line in read_lines(file, quarantine))


def csv_reader(head: Sequence[str], given: Columns) -> Callable[[Path, Quarantine], Cells]:
    """Return how to read a CSV file: parted by what its first line tells or has between names."""
    told = _SEP_LINE.fullmatch(head[0].strip(" ")) if head else None
    if told:
        return partial(read_csv, mark=told[1], has_sep_line=True)
    first = next((line for line in head if line.strip()), "")
    named = (mark for mark in CSV_MARKS if is_header(_cells(first, mark), given))
    return partial(read_csv, mark=next(named, ","))


def names_columns(line: str) -> bool:
    """Tell whether a line is a header for one mark or another between its names, and no prose."""
    marks = (mark for mark in CSV_MARKS if f"{mark} " not in line)
    return any(is_header(_cells(line, mark), {}) for mark in marks)


def other_mark(table: Table) -> str | None:
    """Return the mark that nearly all of many rows of one column hold equally often."""
    values = table.column(table.names[0]).values
    # No mark between columns: those of prose, which a blank or the end follows, and of &amp;.
    rows = [_OF_PROSE.sub("", value) for value in values]
    if len(rows) < FEWEST_PARTED:
        return None
    return next((mark for mark in CSV_MARKS[1:] if is_parted(rows, mark)), None)


def is_parted(rows: Sequence[str], mark: str) -> bool:
    """Tell whether nearly all of several rows hold a mark, and equally often."""
    counts = Counter(row.count(mark) for row in rows)
    per_row, num_rows = max(counts.items(), key=lambda item: item[1], default=(0, 0))
    return per_row > 0 and 1 < num_rows >= FEWEST_EVEN * len(rows)


def _cells(line: str, mark: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(mark)]


def read_csv(
    file: Path, quarantine: Quarantine, mark: str = ",", *, has_sep_line: bool = False
) -> Cells:
    """Yield each row with the line on which it begins; a broken one costs all lines it took."""
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for number, line in read_lines(file, quarantine):
            if number > 1 or not has_sep_line:
                taken.append(number)
                yield line

    rows = csv.reader(lines(), delimiter=mark, strict=True)
    while True:
        taken.clear()
        try:
            yield from ((taken[0], row) for row in islice(rows, 1))
        except csv.Error as error:
            reason, *_ = str(error).split(" - ")  # the rest is advice to programmers
            for number in taken:
                quarantine.add(file, number, f"not CSV: {reason}")
        if not taken:
            return


def _with_header(
    file: Path,
    read: Callable[[Path, Quarantine], Cells],
    quarantine: Quarantine,
    wanted: Wanted = ALL_COLUMNS,
) -> Rows:
    rows = read(file, quarantine)
    _, header = next(((number, row) for number, row in rows if not _is_blank(row)), (0, []))
    namer = _Namer(header, wanted, f"the header has {len(header)}")
    return namer.read(rows, partial(quarantine.add, file))


def _without_header(
    file: Path,
    read: Callable[[Path, Quarantine], Cells],
    names: tuple[str, ...],
    quarantine: Quarantine,
    wanted: Wanted = ALL_COLUMNS,
    *,
    has_extras: bool,
) -> Rows:
    rows = read(file, quarantine)
    if has_extras:
        rows = ((number, row[: len(names)]) for number, row in rows)
    namer = _Namer(names, wanted, f"most rows have {len(names)}")
    return namer.read(rows, partial(quarantine.add, file))


@dataclass(frozen=True)
class _Namer:
    """Gives the cells of rows their names."""

    names: Sequence[str]
    wanted: Wanted
    width: str  # how many cells there should be, in words

    def read(self, rows: Cells, refuse: Callable[[int, str], None]) -> Rows:
        """Yield rows by name; those of another width are refused, blank ones at the end are not."""
        blank: list[int] = []
        for number, row in rows:
            # Of one column a blank cell is a text that is missing, and so is an empty line.
            is_one, is_counted = len(self.names) == 1, self.wanted.has_blank
            if _is_blank(row) and (is_counted or not (is_one and row)):
                blank += [number] if is_counted and (is_one or len(row) > 1) else []
                continue
            for before in blank:
                refuse(before, "all of its cells are blank")
            blank = []
            named = self._named(row)
            if named is None:
                refuse(number, f"{num_columns(row)}, but {self.width}")
            else:
                yield number, named

    def _named(self, row: list[str]) -> dict[str, str] | None:
        """Return the cells of a row by name, or None where needed ones are missing or too many."""
        cells = _fitted(row, len(self.names))
        missing = self.names[len(cells) :]
        needed = self.wanted.columns
        is_short = any(needed is None or name in needed for name in missing)
        if is_short or len(cells) > len(self.names):
            return None
        return dict(zip(self.names, [*cells, *[""] * len(missing)], strict=True))


def _is_blank(row: list[str]) -> bool:
    return not any(cell.strip() for cell in row)


def _fitted(row: list[str], width: int) -> list[str]:
    """Return a row without empty cells behind its last column, which spreadsheets leave there."""
    return row[:width] if _is_blank(row[width:]) else row
