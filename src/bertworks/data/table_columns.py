"""Which form and which columns of ours a table has: by its names, its values, or what is given."""

from collections.abc import Mapping, Sequence

from bertworks.core.errors import DataError
from bertworks.data.bare_tables import guess_columns, guess_form
from bertworks.data.columns import (
    Columns,
    cannot_tell,
    choose_form,
    form_of,
    match_names,
    missing_inputs,
    must_be_told,
)
from bertworks.data.forms import FORMS
from bertworks.data.layouts import OF_TEXTS
from bertworks.data.tables import Table, names_columns
from bertworks.data.telling_values import (
    has_character_tags,
    has_spans,
    refuse_decimals,
    refuse_shorter,
    with_spans,
)


def table_form(table: Table, given: Columns, among: Sequence[str] | None = None) -> str:
    """Return the form that a table speaks of, perhaps of several."""
    given = by_name(given, table)
    if has_spans(table):
        return "tags"
    if table.has_names or not table.sample:
        form = choose_form(table.names, given, among or ()) or form_of(table.names, given)
        if form == "label" and not among:
            refuse_decimals(table, given)
            is_told = "label" in match_names(table.names, form, given)
            return form if is_told or not has_character_tags(table, given) else "tags"
        return form
    if given:
        names = [*given.values()]
        return choose_form(names, given, among or ()) or form_of(names, given)
    columns = [table.column(name) for name in table.names]
    by_gold = sorted(among or (), key=lambda form: not FORMS[form].gold)
    fitting = [form for form in by_gold if guess_columns(columns, form, labelled=True)]
    is_sure = len([form for form in fitting if FORMS[form].gold]) < 2
    return fitting[0] if fitting and is_sure else guess_form(columns)


def find_columns(table: Table, form: str, given: Columns, *, labelled: bool) -> Columns:
    """Return our columns and the table's for them; what cannot be told is an error."""
    if table.has_names:
        columns: Columns = _named_columns(table, form, given, labelled=labelled)
        if "text" in columns and "text" not in given:
            refuse_shorter(table, columns)
    else:
        columns = _bare_columns(table, form, given, labelled=labelled)
    if missing_inputs(form, columns):
        raise cannot_tell(table.names, form, labelled=labelled)
    return columns


def require_told(table: Table, form: str, given: Columns) -> None:
    """Stop where nobody named a task, and the columns do not tell one either."""
    given = by_name(given, table)
    if not table.has_names:
        _bare_columns(table, form, given, labelled=True, has_task=False)
        return
    found = _named_columns(table, form, given, labelled=True)
    is_sought = bool(found.keys() & {*FORMS[form].gold})
    if missing_inputs(form, found) or ({*table.names} - {*found.values()} and not is_sought):
        raise must_be_told(table.names, form)


def by_name(given: Columns, table: Table) -> dict[str, str]:
    """Return the columns that are given by their numbers under their names."""
    if not table.has_places:
        return dict(given)
    stripped = {name.strip(): name for name in reversed(table.names)}

    def named(theirs: str) -> str:
        at = int(theirs) if theirs.isdecimal() else 0
        is_number = theirs not in table.names and 0 < at <= len(table.names)
        return table.names[at - 1] if is_number else stripped.get(theirs, theirs)

    return {
        ours: theirs if theirs in table.names else ",".join(map(named, theirs.split(",")))
        for ours, theirs in given.items()
    }


def _named_columns(table: Table, form: str, given: Columns, *, labelled: bool) -> dict[str, str]:
    found = match_names(table.names, form, given, labelled=labelled)
    return with_spans(found, table, given) if form == "tags" else found


def _bare_columns(
    table: Table, form: str, given: Columns, *, labelled: bool, has_task: bool = True
) -> Mapping[str, str]:
    """Return the columns of a table without a header: all given, or all guessed."""
    if given:
        gold = set(FORMS[form].gold)
        has_gold = not gold or not labelled or gold & given.keys()
        if missing_inputs(form, given) or not has_gold:
            raise _unknown(table, form, labelled=labelled, has_task=has_task)
        return given
    if form in OF_TEXTS and not labelled and len(table.names) == 1:
        return {"text": table.names[0]}
    _require_columns(table, is_enough=not (labelled and FORMS[form].gold))
    try:
        found = guess_columns([table.column(name) for name in table.names], form, labelled=labelled)
    except DataError as error:
        told = _unknown(table, form, labelled=labelled, has_task=has_task)
        raise DataError(f"{error}: it {told}") from error
    if found is None:
        raise _unknown(table, form, labelled=labelled, has_task=has_task)
    return found


def _require_columns(table: Table, *, is_enough: bool) -> None:
    """Stop where rows seem to be parted at the wrong marks; one column may be enough."""
    first = str(table.sample[0]["1"])
    if not table.is_even:
        raise DataError(
            "has no known header and rows of different widths; quote texts that hold the mark "
            "between columns, or give --columns by number"
        )
    if len(table.names) == 1 and (not is_enough or names_columns(first)):
        raise DataError(
            f"has one column only, which begins with {first!r:.30}; columns are parted by commas "
            "in .csv (by semicolons only below a header of known names) and by tabs in .tsv; "
            "rename the file, or write it with them"
        )


def _unknown(table: Table, form: str, *, labelled: bool, has_task: bool) -> DataError:
    first = table.sample[0]
    shown = [f"{name} ({first[name]!r:.30})" for name in table.names]
    if not has_task:
        return must_be_told(shown, form, has_names=False)
    return cannot_tell(shown, form, has_names=False, labelled=labelled)
