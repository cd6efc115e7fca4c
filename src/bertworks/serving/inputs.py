"""What a program gives a model: examples to read, and words and numbers that can be meant."""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import is_unicode
from bertworks.data.examples import Example
from bertworks.data.forms import FORMS, make_example

Input = str | tuple[Any, ...] | dict[str, Any]
TAGGED = 'a text, or a row with its words, as {"tokens": ["Hello", "world"]}'
# What can be given for a form; for those that are not here, one text or two.
READ = {
    "texts": "a text, or a row with 'text'",
    "aspect": "a text and its aspect, or a row with 'text' and 'aspect'",
    "tags": TAGGED,
    "intent_slots": TAGGED,
    "answers": "a question and its passage, or a row with 'question' and 'passage'",
    "choice": "a question and a list of choices, or a row with 'question' and 'choices'",
    "relation": "a text and two places in it, or a row with 'text', 'first' and 'second'",
    "target": "a text, or a row with 'source'",
}


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
        read = READ.get(form, f"a text, a pair of texts, or a row with {columns[0]!r}")
        raise DataError(f"input {number} is {item!r:.60}; give {read}")
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


def refuse_others_than_texts(
    inputs: Sequence[Any], done: str = "embedded", *, name: str = "embed"
) -> None:
    """Stop at what is no list, and at the first input that is no text, by its number."""
    require_list(inputs, name)
    for number, item in enumerate(inputs, 1):
        if not isinstance(item, str) or not is_unicode(item):
            raise DataError(f"input {number} is {item!r:.60}; only texts can be {done}")


def as_folder(path: Any) -> Path:
    """Return the path of a model's folder, or its name; stop at what can be neither."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(f"the model is given as {path!r}; give its folder, or its name")
    return Path(path)


def require_count(value: Any, name: str) -> None:
    """Stop at what is no whole number of at least one."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}; give a whole number")
    if value < 1:
        raise UsageError(f"{name} is {value}; the least is 1")
