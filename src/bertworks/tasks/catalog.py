"""The tasks by name: adding one is a file beside this and a row here."""

from collections.abc import Callable, Sequence
from functools import partial

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import Example
from bertworks.tasks.classify import Classify
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.task import Task

NEXT_SENTENCE_LABELS = ("next", "random")  # in the order of BERT's two logits

TASKS: dict[str, Callable[[Sequence[str]], Task]] = {
    "fill_mask": lambda labels: FillMask(),
    "next_sentence": lambda labels: Classify(
        NEXT_SENTENCE_LABELS, name="next_sentence", needs_pair=True
    ),
    "classify": partial(Classify, name="classify"),
    "match": partial(Classify, name="match", needs_pair=True),
}


def make_task(name: str, labels: Sequence[str] = ()) -> Task:
    """Return the task of this name over these labels."""
    if name not in TASKS:
        raise UsageError(f"there is no task {name!r}; the tasks are {', '.join(TASKS)}")
    return TASKS[name](labels)


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
