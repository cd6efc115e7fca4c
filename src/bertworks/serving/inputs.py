"""What a program gives a model to read, as examples."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import is_unicode
from bertworks.data.examples import Example
from bertworks.data.forms import FORMS, make_example

Input = str | tuple[Any, ...] | dict[str, Any]


def as_example(item: Input, number: int, form: str) -> Example:
    """Make an example of a row, or of values in the order of the form's columns."""
    columns = FORMS[form].inputs
    if isinstance(item, dict):
        row = {str(key): value for key, value in item.items()}
    elif isinstance(item, str):
        row = {columns[0]: item}
    elif isinstance(item, tuple | list) and 1 < len(item) <= len(columns):
        row = dict(zip(columns, item, strict=False))
    else:
        raise DataError(
            f"input {number} is {item!r:.60}; give a text, a pair of texts, or a row with "
            f"{columns[0]!r}"
        )
    try:
        return make_example(row, number, form=form, labelled=False)
    except DataError as error:
        raise DataError(f"input {number}: {error}") from error


def require_list(inputs: Any, name: str, of: str = "text") -> None:
    """Stop at one input by itself, and at what has no order or can be gone through but once."""
    if isinstance(inputs, str | bytes | Mapping):
        raise UsageError(f"{name} takes a list of {of}s; put the {of} into a list")
    if not hasattr(inputs, "__getitem__") or not hasattr(inputs, "__len__"):
        found = type(inputs).__name__
        raise UsageError(f"{name} takes a list of {of}s, but this is of type {found}; give a list")


def refuse_others_than_texts(inputs: Sequence[Any], done: str = "embedded") -> None:
    """Stop at what is no list, and at the first input that is no text, by its number."""
    require_list(inputs, "embed")
    for number, item in enumerate(inputs, 1):
        if not isinstance(item, str) or not is_unicode(item):
            raise DataError(f"input {number} is {item!r:.60}; only texts can be {done}")
