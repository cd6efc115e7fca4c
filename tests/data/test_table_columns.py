"""The columns of a table are told by its names, else by its values, or are all given."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data.table_columns import by_name, find_columns, require_told, table_form
from bertworks.data.tables import Table

TEXTS = [f"text number {at} of some" for at in range(12)]


def table(*, has_names: bool = True, has_places: bool = True, **columns: list[Any]) -> Table:
    names = tuple(columns) if has_names else tuple(str(at) for at in range(1, len(columns) + 1))
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Table(names, tuple(rows), lambda *_: iter(()), has_names, has_places)


NAMED = table(sentence=TEXTS, gold=list("01" * 6))
BARE = table(has_names=False, a=list("01" * 6), b=TEXTS)


def test_names_tell_the_columns_and_a_given_one_comes_first() -> None:
    assert table_form(NAMED, {}) == "label"
    assert find_columns(NAMED, "label", {}, labelled=True) == {"text": "sentence", "label": "gold"}
    found = find_columns(NAMED, "label", {"text": "gold", "label": "sentence"}, labelled=True)
    assert found == {"text": "gold", "label": "sentence"}


def test_values_tell_the_columns_where_there_are_no_names() -> None:
    assert table_form(BARE, {}) == "label"
    assert find_columns(BARE, "label", {}, labelled=True) == {"text": "2", "label": "1"}


def test_without_a_header_all_columns_are_given_or_none() -> None:
    whole = {"text": "2", "label": "1"}
    assert find_columns(BARE, "label", whole, labelled=True) == whole
    assert find_columns(BARE, "label", {"text": "2"}, labelled=False) == {"text": "2"}
    with pytest.raises(DataError, match="cannot be told; say it with --columns text=COLUMN label="):
        find_columns(BARE, "label", {"text": "2"}, labelled=True)


def test_numbers_mean_names_where_columns_stand_in_an_order() -> None:
    assert by_name({"text": "1", "choices": "2,1"}, NAMED) == {
        "text": "sentence",
        "choices": "gold,sentence",
    }
    assert by_name({"text": "3"}, NAMED) == {"text": "3"}  # there is no third
    objects = table(has_places=False, sentence=TEXTS)
    assert by_name({"text": "1"}, objects) == {"text": "1"}


def test_a_number_that_is_the_name_of_a_column_is_that_name() -> None:
    odd = table(**{"2": TEXTS, "1": list("01" * 6)})
    assert by_name({"text": "2", "label": "1"}, odd) == {"text": "2", "label": "1"}


def test_columns_that_tell_no_task_must_be_told() -> None:
    require_told(NAMED, "label", {})
    with pytest.raises(DataError, match="name the --task"):
        require_told(table(甲=TEXTS, 乙=TEXTS), "label", {})
