"""What the values of a table tell of its columns where their names alone do not."""

from collections.abc import Mapping
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.data.columns import WEAK_NAMES, Columns, match_names
from bertworks.data.tables import Table, other_mark

_SPAN_NAMES = ("label", "labels")  # under which CLUE and doccano have spans


def has_spans(table: Table) -> bool:
    """Tell whether a label holds spans, in the form of CLUE or in that of doccano."""
    return bool(_span_columns(table))


def with_spans(found: Mapping[str, str], table: Table, given: Columns) -> dict[str, str]:
    """Return columns with that of spans as values tell it, unless it is given or has our name."""
    named = found.get("spans", "")
    if "spans" in given or named.strip().casefold() == "spans":
        return dict(found)
    there = [*_span_columns(table), *([named] if named else [])]
    if len(there) > 1:
        raise DataError(
            f"has more than one column that may hold the spans: {', '.join(there)}; choose with "
            "--columns spans=COLUMN"
        )
    return {**found, "spans": there[0]} if there else dict(found)


def has_character_tags(table: Table, given: Columns) -> bool:
    """Tell whether most rows have a text and a list of one tag for each of its characters."""
    found = match_names(table.names, "tags", given)
    names = [found.get(ours, ours) for ours in ("text", "tags")]
    are_so = [_is_each_tagged(*map(row.get, names)) for row in table.sample]
    return 2 * sum(are_so) > len(are_so)


def refuse_decimals(table: Table, given: Columns) -> None:
    """Stop where what is named as a label is a number with decimals, so perhaps a score."""
    label = match_names(table.names, "label", given).get("label")
    if label and table.column(label).has_decimals:
        raise UsageError(
            f"has numbers with decimals in {label}, which may be labels or scores; name the --task"
        )


def refuse_shorter(table: Table, columns: Mapping[str, str]) -> None:
    """Stop where a name that may also be that of a headline stands beside longer texts."""
    if columns["text"].casefold() not in WEAK_NAMES:
        return
    length = {name: table.mean_length(name) for name in table.names}
    for name in table.names:
        if name not in columns.values() and length[name] > length[columns["text"]]:
            raise DataError(
                f"may have its text in {columns['text']} or in {name}, which is longer; choose "
                "with --columns text=COLUMN"
            )


def refuse_other_mark(table: Table) -> None:
    """Stop where the one column of a .csv holds what seem to be several."""
    if mark := other_mark(table):
        name = {";": "semicolons", "\t": "tabs"}[mark]
        raise DataError(
            f"has one column only, but its rows hold equally many {name}; name a column of its "
            "header with --columns text=NAME, write it with commas, or take whole rows for texts "
            "with --columns text=1"
        )


def _span_columns(table: Table) -> list[str]:
    return [name for name in _SPAN_NAMES if _has_clue_spans(table, name) or _has_lists(table, name)]


def _has_clue_spans(table: Table, name: str) -> bool:
    return name == "label" and any(isinstance(row.get(name), dict) for row in table.sample)


def _has_lists(table: Table, name: str) -> bool:
    """Tell whether the values of a column are lists of spans, and not all of them empty."""
    values = [row[name] for row in table.sample if row.get(name) is not None]
    if not all(isinstance(value, list) for value in values):
        return False
    items = [item for value in values for item in value]
    return bool(items) and all(map(_is_span, items))


def _is_span(item: Any) -> bool:
    if not isinstance(item, list) or len(item) != 3:
        return False
    start, end, label = item
    return type(start) is int and type(end) is int and isinstance(label, str)


def _is_each_tagged(text: Any, tags: Any) -> bool:
    is_known = isinstance(text, str) and isinstance(tags, list)
    return is_known and len(text) == len(tags) and all(isinstance(tag, str) for tag in tags)
