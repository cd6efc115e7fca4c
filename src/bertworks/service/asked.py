"""What a client may ask beside its inputs, checked before anything is computed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode
from bertworks.service.failures import Failure

MOST_COUNTED = 100_000  # of dims, labels or candidates
MOST_BEAMS = 16
MOST_WRITTEN = 256  # pieces of a reply: nothing else is computed meanwhile
MOST_SEED = (1 << 32) - 1
MOST_BEGIN = 1000  # characters with which replies may have to begin
OF_VECTORS = {"normalize", "dims", "prompt", "prompt_name", "pooling"}
OF_TASKS = {"task", "top_k", "threshold"}
OF_SEARCH = {"beams", "length_penalty", "no_repeat", "shortest_reply", "longest_reply", "begin"}
OF_WRITING = OF_SEARCH | {"temperature", "top_k", "top_p", "draw_seed"}
TAKEN: dict[str, set[str]] = {  # of an ability; all others take what is of tasks
    "embed": OF_VECTORS,
    "embed_all": {"prompt", "prompt_name"},
    "fill_mask": {"top_k", "num_candidates"},
    "zero_shot": {"labels", "template", "by", "calibrate", "top_k"},
    "generate": OF_WRITING | {"task"},
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
    beams: int | None = None  # replies that are followed while the best is looked for
    length_penalty: float | None = None
    no_repeat: int | None = None  # no run of so many pieces comes twice
    shortest_reply: int | None = None  # in pieces
    longest_reply: int | None = None
    begin: str | None = None  # what every reply begins with
    temperature: float | None = None  # with any of these a reply is drawn by chance
    top_p: float | None = None
    draw_seed: int | None = None

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


def _within(least: float, most: float) -> Callable[[Any], bool]:
    """Return what tells whether a value lies in a range, and is whole where its ends are."""
    kinds = int if isinstance(least, int) else int | float

    def is_fit(value: Any) -> bool:
        return isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most

    return is_fit


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_labels(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_text, [*value, *value.values()]))
    return isinstance(value, list | tuple) and all(map(_is_text, value))


# Names of options, what holds of their values, and what to give instead of others.
RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (
        ("dims", "top_k", "num_candidates"),
        _within(1, MOST_COUNTED),
        f"a whole number from 1 to {MOST_COUNTED}",
    ),
    (
        ("truncate", "normalize", "calibrate"),
        lambda value: isinstance(value, bool),
        "true or false",
    ),
    (("prompt", "prompt_name", "pooling", "task", "template", "by"), _is_text, "a string"),
    (("labels",), _are_labels, "a list of texts, or a table of texts"),
    (("threshold",), _within(0.0, 1), "a number from 0 to 1"),
    (("beams",), _within(1, MOST_BEAMS), f"a whole number from 1 to {MOST_BEAMS}"),
    (("longest_reply",), _within(1, MOST_WRITTEN), f"a whole number from 1 to {MOST_WRITTEN}"),
    (
        ("shortest_reply", "no_repeat"),
        _within(0, MOST_WRITTEN),
        f"a whole number from 0 to {MOST_WRITTEN}",
    ),
    (("draw_seed",), _within(0, MOST_SEED), f"a whole number from 0 to {MOST_SEED}"),
    (("length_penalty",), _within(-5.0, 5), "a number from -5 to 5"),
    (("temperature",), _within(0.01, 100), "a number from 0.01 to 100"),
    (("top_p",), _within(0.001, 1), "a number from 0.001 to 1"),
    (
        ("begin",),
        lambda value: _is_text(value) and len(value) <= MOST_BEGIN,
        f"a string of at most {MOST_BEGIN} characters",
    ),
)
