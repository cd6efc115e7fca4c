"""What a client may ask beside its inputs, checked before anything is computed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode
from bertworks.service.failures import Failure

MOST_COUNTED = 100_000  # of dims, labels or candidates
OF_VECTORS = {"normalize", "dims", "prompt", "prompt_name", "pooling"}
OF_TASKS = {"task", "top_k", "threshold"}
TAKEN: dict[str, set[str]] = {  # of an ability; all others take what is of tasks
    "embed": OF_VECTORS,
    "embed_all": {"prompt", "prompt_name"},
    "fill_mask": {"top_k", "num_candidates"},
    "zero_shot": {"labels", "template", "by", "calibrate", "top_k"},
    "rerank": set(),
    "attention": set(),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a request; None stands for the model's own way."""

    truncate: bool = True  # whether an input that is too long may be cut
    normalize: bool | None = None
    dims: int | None = None
    prompt: str | None = None  # the very words
    prompt_name: str | None = None
    pooling: str | None = None
    task: str | None = None  # its name among those of the model
    top_k: int | None = None  # how many labels or candidates are told
    num_candidates: int | None = None  # the same of a mask
    threshold: float | None = None  # the least chance of what is told
    labels: Sequence[str] | Mapping[str, str] = ()
    template: str | None = None
    by: str | None = None  # how labels that were never learned are told
    calibrate: bool = False  # whether a text that says nothing is answered too, last

    @classmethod
    def of(cls, ability: str, options: Mapping[str, Any]) -> Self:
        """Take the options that an ability has; None is as if it were not given."""
        given = {name: value for name, value in options.items() if value is not None}
        taken = TAKEN.get(ability, OF_TASKS) | {"truncate"}
        for name in given:
            if name not in taken:
                known = ", ".join(sorted(taken))
                raise Failure("bad_value", f"{ability} has no option {name!r}; it has {known}")
        asked = cls(**given)
        asked._refuse_odd()
        return asked

    def _refuse_odd(self) -> None:
        for names, is_fit, words in RULES:
            for name in names:
                value = getattr(self, name)
                if value is not None and not is_fit(value):
                    raise Failure("bad_value", f"{name} is {value!r:.60}; give {words}")


def query_pairs(inputs: Sequence[Any]) -> list[tuple[str, str]]:
    """Return inputs that are each a query and a document."""
    pairs = []
    for number, item in enumerate(inputs, 1):
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise DataError(f"input {number} is {item!r:.60}; give a query and a document")
        if not all(isinstance(text, str) and is_unicode(text) for text in item):
            raise DataError(f"input {number} is {item!r:.60}; both must be texts")
        pairs.append((item[0], item[1]))
    return pairs


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and 1 <= value <= MOST_COUNTED


def _is_chance(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_labels(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_text, [*value, *value.values()]))
    return isinstance(value, list | tuple) and all(map(_is_text, value))


# Names of options, what holds of their values, and what to give instead of others.
RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("dims", "top_k", "num_candidates"), _is_count, f"a whole number from 1 to {MOST_COUNTED}"),
    (
        ("truncate", "normalize", "calibrate"),
        lambda value: isinstance(value, bool),
        "true or false",
    ),
    (("prompt", "prompt_name", "pooling", "task", "template", "by"), _is_text, "a string"),
    (("labels",), _are_labels, "a list of texts, or a table of texts"),
    (("threshold",), _is_chance, "a number from 0 to 1"),
)
