"""The tasks by name: adding one is a file beside this and a row here."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import Example
from bertworks.tasks.classify import Classify
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.replaced_token import ReplacedToken
from bertworks.tasks.task import Task

NEXT_SENTENCE_LABELS = ("next", "random")  # in the order of BERT's two logits
SENTENCE_ORDER_LABELS = ("in order", "swapped")  # in the order of ALBERT's two logits

TASKS: dict[str, Callable[..., Task]] = {
    "fill_mask": lambda labels, **options: FillMask(**options),
    "next_sentence": lambda labels, **options: Classify(
        NEXT_SENTENCE_LABELS, name="next_sentence", needs_pair=True, **options
    ),
    "sentence_order": lambda labels, **options: Classify(
        SENTENCE_ORDER_LABELS, name="sentence_order", needs_pair=True, **options
    ),
    "replaced_token": lambda labels, **options: ReplacedToken(),
    "classify": partial(Classify, name="classify"),
    "match": partial(Classify, name="match", needs_pair=True),
}


def make_task(name: str, labels: Sequence[str] = (), **options: Any) -> Task:
    """Return the task of this name over these labels, with the options that were saved with it."""
    if name not in TASKS:
        raise UsageError(f"there is no task {name!r}; the tasks are {', '.join(TASKS)}")
    try:
        return TASKS[name](labels, **options)
    except TypeError as error:
        raise UsageError(f"the task {name} cannot be made with {options}: {error}") from error


def guess_task(examples: Sequence[Example]) -> str:
    """Return the task that the columns of all examples speak of."""
    is_pair = {example.text_b is not None for example in examples}
    if len(is_pair) > 1:
        odd = next(e for e in examples if (e.text_b is None) != (examples[0].text_b is None))
        raise DataError(
            f"line {odd.line}: some rows have a text_b and some have none; name the --task"
        )
    return "match" if is_pair == {True} else "classify"


def find_labels(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the labels in use, numbers in their order and names in theirs."""
    labels = {example.label for example in examples if example.label is not None}
    return tuple(
        sorted(
            labels, key=lambda name: (not name.isdecimal(), name.isdecimal() and int(name), name)
        )
    )
