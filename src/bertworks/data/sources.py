"""A file of labelled data, understood: its form, the columns that are ours, how to read it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertworks.core.errors import BertworksError, DataError, UsageError
from bertworks.core.lines import plain_suffix
from bertworks.core.quarantine import Quarantine
from bertworks.data.columns import Columns
from bertworks.data.forms import FORMS
from bertworks.data.layouts import Layout, Rows, find_layout
from bertworks.data.table_columns import by_name, find_columns, require_told, table_form
from bertworks.data.tables import Table, Wanted
from bertworks.data.telling_values import refuse_other_mark


@dataclass(frozen=True)
class Source:
    """A file of labelled data, understood."""

    form: str
    columns: Columns
    read: Callable[[Quarantine], Rows]
    note: str | None = None  # what was guessed


def open_source(
    file: Path, *, form: str | None, columns: Columns | None = None, labelled: bool = True
) -> Source:
    """Find out how the rows of a file are read; without a form, the one it speaks of."""
    given = columns or {}
    found = find_layout(file, form, given, labelled=labelled)
    if isinstance(found, Layout):
        return _layout_source(file, found, form, given)
    with _naming(file):
        return _table_source(file, found, form, given, labelled=labelled)


def tell_form(file: Path, given: Columns, *, among: Sequence[str] | None = None) -> str:
    """Return the form that a file speaks of; of several, the one that it has the columns of."""
    if among is not None and len(among) == 1:
        return among[0]
    hint = next((form for form in ("tags", "texts") if among and form in among), None)
    found = find_layout(file, hint, given)
    with _naming(file):
        form = found.form if isinstance(found, Layout) else table_form(found, given, among)
        if not isinstance(found, Layout) and among is None and found.sample:
            require_told(found, form, given)
    return form if not among or form in among else among[0]


def open_table(file: Path) -> Table:
    """Return the columns and rows of a file that must be a table."""
    found = find_layout(file, None, {})
    if isinstance(found, Layout):
        raise DataError(f"{file} holds {found.name}; give a table with named columns")
    return found


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Put the name of a file before what is wrong with its columns."""
    try:
        yield
    except BertworksError as error:
        raise type(error)(f"{file} {error}") from error


def _layout_source(file: Path, layout: Layout, form: str | None, given: Columns) -> Source:
    others = {ours: theirs for ours, theirs in given.items() if ours not in layout.chooses}
    if form not in (None, layout.form) and not others:
        raise UsageError(
            f"{file} holds {layout.name}, which is for the form {layout.form!r}, not for {form!r}; "
            "name another --task or give another file"
        )

    def read(quarantine: Quarantine) -> Rows:
        return layout.read(file, quarantine, given)

    return Source(form or layout.form, others, read, f"{file.name} is read as {layout.name}")


def _table_source(
    file: Path, table: Table, form: str | None, given: Columns, *, labelled: bool
) -> Source:
    given = by_name(given, table)
    form = form or table_form(table, given)
    if not table.sample:
        return Source(form, given, table.read)
    columns = find_columns(table, form, given, labelled=labelled)
    if plain_suffix(file) == ".csv" and len(table.names) == 1 and not (table.has_names or given):
        refuse_other_mark(table)
    note = _note(file, form, columns, given) or _header_warning(file, table, given)
    return Source(form, columns, _reader(table, form, columns, labelled=labelled), note)


def _reader(
    table: Table, form: str, columns: Columns, *, labelled: bool
) -> Callable[[Quarantine], Rows]:
    """Return how to read a table whose rows may lack cells that a form does without."""
    if not table.has_places:
        return table.read
    wanted = {*FORMS[form].inputs, *(FORMS[form].gold if labelled else ())} - {"choices"}
    needed = {columns[ours] for ours in wanted if ours in columns}
    return partial(table.read, wanted=Wanted(needed, has_blank=not labelled))


def _header_warning(file: Path, table: Table, given: Columns) -> str | None:
    """Return what to say where columns are given by number and the first row may be a header."""
    is_odd = (table.column(name).begins_with_name for name in given.values() if name in table.names)
    if table.has_names or not any(is_odd):
        return None
    first = ", ".join(f"{value!r:.30}" for value in table.sample[0].values())
    return (
        f"warning: the first row of {file.name} ({first}) is read as an example; if it is a "
        "header, give --columns by name"
    )


def _note(file: Path, form: str, columns: Columns, given: Columns) -> str | None:
    guessed = {ours: theirs for ours, theirs in columns.items() if ours not in given}
    if all(ours == theirs for ours, theirs in guessed.items()):
        return None
    ordered = dict.fromkeys((*FORMS[form].inputs, *FORMS[form].gold, *columns))
    pairs = " ".join(f"{ours}={columns[ours]}" for ours in ordered if ours in columns)
    return f"columns of {file.name}: {pairs} (guessed)"
