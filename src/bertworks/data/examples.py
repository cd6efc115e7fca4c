"""Labelled data in memory: what an example of each form holds."""

from dataclasses import dataclass, field
from typing import Any

Place = tuple[int, int]  # where something begins and ends in a text, in characters


@dataclass(frozen=True, kw_only=True)
class Example:
    """One row of a file; what a task should find is None where it is not known."""

    line: int = 0  # where it stands in its file
    origin: str | None = field(default=None, compare=False)  # where its text is from, if told

    @property
    def where(self) -> dict[str, Any]:
        """What an answer says of the row that it belongs to."""
        return {"line": self.line}

    @property
    def num_characters(self) -> int:
        """How long all that it says is together."""
        values = vars(self).values()
        several = (value if isinstance(value, tuple) else (value,) for value in values)
        return sum(len(one) for own in several for one in own if isinstance(one, str))


@dataclass(frozen=True)
class TextExample(Example):
    """A text or a pair of texts -> a label, several labels, or a number."""

    text: str
    text_b: str | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    score: float | None = None


@dataclass(frozen=True)
class Span:
    """A part of a text that has a label."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class TaggedExample(Example):
    """The words of a text -> a tag for each, or labelled spans; perhaps also an intent."""

    text: str
    words: tuple[Place, ...] | None = None  # None: the text was not cut into words yet
    tags: tuple[str, ...] | None = None  # of the words
    spans: tuple[Span, ...] | None = None  # of a text without words, in their order
    intent: str | None = None


@dataclass(frozen=True)
class Found:
    """An answer as it stands in a passage."""

    text: str
    start: int | None  # None: it is not there in these very words
    is_moved: bool = field(default=False, compare=False)  # it was said to stand elsewhere


@dataclass(frozen=True)
class QuestionExample(Example):
    """A question and a passage -> the part of it that answers, or nothing."""

    question: str
    passage: str
    answers: tuple[Found, ...] | None = None  # any of them is right; none at all: no answer
    id: str = ""

    @property
    def where(self) -> dict[str, Any]:
        """What an answer says of the row that it belongs to, by the name that the row has."""
        return super().where | ({"id": self.id} if self.id else {})


@dataclass(frozen=True)
class ChoiceExample(Example):
    """A question, perhaps about a passage, and choices -> the right one."""

    question: str
    choices: tuple[str, ...]
    passage: str | None = None
    label: int | None = None


@dataclass(frozen=True)
class RelationExample(Example):
    """A text with two places in it -> how they are related."""

    text: str
    first: Place
    second: Place
    label: str | None = None


@dataclass(frozen=True)
class SourceExample(Example):
    """A text -> the text to write of it; any of several references is right."""

    source: str
    targets: tuple[str, ...] | None = None
