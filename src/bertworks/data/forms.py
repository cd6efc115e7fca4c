"""How a row of labelled data becomes an example: the columns of each form, checked."""

import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode
from bertworks.core.scripts import is_invisible
from bertworks.data.answer_places import find_answer
from bertworks.data.blank_tokens import pass_blanks
from bertworks.data.examples import (
    ChoiceExample,
    Example,
    Place,
    QuestionExample,
    RelationExample,
    SourceExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.data.span_words import read_place, read_span


@dataclass(frozen=True)
class Form:
    """What the rows of some tasks hold: the columns that are read, and those that are sought."""

    inputs: tuple[str, ...]  # in the order in which they are given without names
    gold: tuple[str, ...]
    make: Callable[["Row"], Example]


class Row:
    """One row, its columns under our names; a value that cannot be used is a DataError."""

    def __init__(
        self, values: Mapping[str, Any], line: int, columns: Mapping[str, str], *, labelled: bool
    ) -> None:
        self.line = line
        self.is_labelled = labelled  # otherwise what is sought is not looked at
        self._values = values
        self._columns = columns

    def has(self, name: str) -> bool:
        """Tell whether the row has a value in a column."""
        return self._values.get(self._named(name)) is not None

    def value(self, name: str) -> Any:
        """Return what a column holds, whatever it is."""
        if not self.has(name):
            raise self._missing(name)
        return self._values[self._named(name)]

    def text(self, name: str) -> str:
        """Return the text of a column."""
        found = self.value(name)
        if not isinstance(found, str) or not found.strip():
            said = _no_text(found) if _is_number(found) else "empty or not a string"
            raise DataError(f"{self._said(name)} is {said}")
        if not is_unicode(found):
            raise DataError("a value holds half of a surrogate pair")
        return found

    def optional_text(self, name: str) -> str | None:
        """Return the text of a column that may be missing."""
        return self.text(name) if self.has(name) else None

    def label(self, name: str = "label") -> str:
        """Return the name of a label."""
        found = self._values.get(self._named(name))
        named = label_name(found)
        if named is None and found not in (None, ""):
            raise DataError(
                f"the {name} is {found!r}; a label is a string, a whole number or true/false"
            )
        if named is None:
            raise self._missing(name)
        if not is_unicode(named):
            raise DataError("a value holds half of a surrogate pair")
        return named

    def label_set(self, name: str) -> tuple[str, ...]:
        """Return the names of labels: of a list, or of a text with | between them."""
        found = self.value(name)
        if isinstance(found, str):
            items = [part for part in found.split("|") if label_name(part)]
        else:
            items = self.items(name)
        named = [label_name(item) for item in items]
        labels = [label for label in named if label is not None and is_unicode(label)]
        if len(labels) < len(named):
            raise DataError(
                f"{self._said(name)} is {found!r:.60}; a label is a string, a whole number or "
                "true/false"
            )
        return tuple(dict.fromkeys(labels))

    def number(self, name: str) -> float:
        """Return a number, which may be written as text."""
        found = self.value(name)
        try:
            number = math.nan if isinstance(found, bool) else float(found)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"{self._said(name)} is {found!r:.60}; it must be a finite number")
        return number

    def joined(self, name: str) -> str:
        """Return a text that may be given as a list of its sentences, some of them blank."""
        found = self.value(name)
        if not isinstance(found, list | tuple):
            return self.text(name)
        said = [item for item in found if not isinstance(item, str) or item.strip()]
        return " ".join(sentence.strip() for sentence in self._require_texts(name, said))

    def one_or_several(self, name: str) -> tuple[str, ...]:
        """Return the texts of a column that holds one text or a list of them."""
        is_list = isinstance(self.value(name), list | tuple)
        return self.texts(name) if is_list else (self.text(name),)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, none of them empty."""
        return self._require_texts(name, self.items(name))

    def _require_texts(self, name: str, found: list[Any]) -> tuple[str, ...]:
        if not found:
            raise DataError(f"{self._said(name)} is empty")
        for item in found:
            if not isinstance(item, str) or not item.strip() or not is_unicode(item):
                raise DataError(f"{self._said(name)} holds {_no_text(item)}")
        return tuple(found)

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        found = self.value(name)
        if not isinstance(found, list | tuple):
            raise DataError(f"{self._said(name)} is {found!r:.60}; it must be a list")
        return list(found)

    def _missing(self, name: str) -> DataError:
        if self._named(name) in self._values:
            return DataError(f"{self._said(name)} is empty")
        found = ", ".join(self._values) or "nothing"
        return DataError(f"no {self._said(name)} (found {found})")

    def _named(self, name: str) -> str:
        return self._columns.get(name, name)

    def _said(self, name: str) -> str:
        """Say which column is meant: by its name, or by its number where it has none."""
        named = self._named(name)
        return f"column {named}" if named.isdecimal() else repr(named)


def label_name(label: Any) -> str | None:
    """Return a label as the text that names it, or None where there is none."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, int):
        return str(label)
    return _bare(label) or None if isinstance(label, str) else None


def _is_number(found: Any) -> bool:
    """Tell whether a value is a number or true or false, and not how pandas says that none is."""
    return isinstance(found, int) or (isinstance(found, float) and not math.isnan(found))


def _no_text(found: Any) -> str:
    """Say that a value is no text; of what JSON writes without quotes, how it would be one."""
    # It is not taken as its text: a label that is a number could count choices or name one of them.
    written = json.dumps(found) if _is_number(found) and abs(found) < math.inf else ""
    way = f'as "{written}"' if len(written) < 60 else "in quotes"
    return f"{found!r:.60}, which is no text" + (f"; write it {way}" if written else "")


def _bare(label: str) -> str:
    """Return a label without white space and invisible marks at its ends."""
    bare = label.strip()
    if bare.isprintable():
        return bare
    seen = [at for at, char in enumerate(bare) if not char.isspace() and not is_invisible(char)]
    return bare[seen[0] : seen[-1] + 1] if seen else ""


def make_example(
    values: Mapping[str, Any],
    line: int,
    *,
    form: str = "label",
    columns: Mapping[str, str] | None = None,
    labelled: bool = True,
) -> Example:
    """Return a row as an example of a form, or raise the reason why it is none."""
    row = Row(values, line, columns or {}, labelled=labelled)
    found = FORMS[form].make(row)
    told = (name for name in ORIGINS if name not in FORMS[form].inputs and row.has(name))
    origin = next(told, None)
    return replace(found, origin=label_name(row.value(origin))) if origin else found


def inputs_of(example: Example, form: str) -> dict[str, Any]:
    """Return what an example asks, in the columns from which it would be read again."""
    held = vars(example)
    found = {name: held.get(name) for name in FORMS[form].inputs}
    if form == "aspect":
        found["aspect"] = held["text_b"]
    if isinstance(example, TaggedExample) and example.words is not None:
        words = [example.text[start:end] for start, end in example.words]
        found |= {"text": None, "tokens": words}
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _label(row: Row) -> TextExample:
    text, text_b = row.text("text"), row.optional_text("text_b")
    return TextExample(text, text_b, row.label() if row.is_labelled else None, line=row.line)


def _labels(row: Row) -> TextExample:
    text, text_b = row.text("text"), row.optional_text("text_b")
    if not row.is_labelled:
        return TextExample(text, text_b, line=row.line)
    return TextExample(text, text_b, labels=row.label_set("labels"), line=row.line)


def _score(row: Row) -> TextExample:
    text, text_b = row.text("text"), row.optional_text("text_b")
    score = row.number("score") if row.is_labelled else None
    return TextExample(text, text_b, score=score, line=row.line)


def _texts(row: Row) -> TextExample:
    return TextExample(row.text("text"), row.optional_text("text_b"), line=row.line)


def _aspect(row: Row) -> TextExample:
    text, aspect = row.text("text"), row.text("aspect")
    return TextExample(text, aspect, row.label() if row.is_labelled else None, line=row.line)


def _tags(row: Row) -> TaggedExample:
    if not row.has("tokens"):
        text = row.text("text")
        if row.is_labelled and row.has("tags") and not row.has("spans"):
            return _tagged_characters(row, text)
        spans = _spans(row, text) if row.is_labelled else None
        return TaggedExample(text, spans=spans, line=row.line)
    words = row.texts("tokens")
    tags = None
    if row.is_labelled:
        tags = row.texts("tags")
        if len(tags) != len(words):
            raise DataError(f"{len(words)} tokens but {len(tags)} tags; each token needs one")
    return TaggedExample(" ".join(words), places_of(words), tags, line=row.line)


def _tagged_characters(row: Row, text: str) -> TaggedExample:
    """Return a text that has a tag for each of its characters, and no words of its own."""
    tags = row.texts("tags")
    if len(tags) != len(text):
        raise DataError(
            f"{len(text)} characters in the text but {len(tags)} tags; give tokens with as many "
            "tags, or a text with spans"
        )
    words, own = zip(*pass_blanks(zip(text, tags, strict=True)), strict=True)
    return TaggedExample(" ".join(words), places_of(words), own, line=row.line)


def _intent_slots(row: Row) -> TaggedExample:
    made = _tags(row)
    intent = row.label("intent") if row.is_labelled else None
    return replace(made, intent=intent)


def places_of(words: Sequence[str]) -> tuple[Place, ...]:
    """Return where words begin and end in the text that they make with spaces between them."""
    ends = accumulate(len(word) + 1 for word in words)
    return tuple((end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True))


def _spans(row: Row, text: str) -> tuple[Span, ...]:
    found = []
    for item in row.items("spans"):
        place, label = read_span(item, text)
        name = label_name(label)
        if name is None or not is_unicode(name):
            raise DataError(f"the span {item!r:.60} has no label")
        found.append(Span(*place, name))
    found.sort(key=lambda span: span.start)
    for before, after in pairwise(found):
        if after.start < before.end:
            first, second = (f"{one.start}..{one.end} ({one.label})" for one in (before, after))
            raise DataError(
                f"the spans {first} and {second} overlap; a word has one tag, so keep one of them"
            )
    return tuple(found)


def _answers(row: Row) -> QuestionExample:
    question, passage = row.text("question"), row.text("passage")
    identity = str(row.value("id")) if row.has("id") else ""
    answers = None
    if row.is_labelled:
        answers = tuple(find_answer(*pair, passage) for pair in _answer_pairs(row))
        if answers and all(answer.start is None for answer in answers):
            raise DataError(f"the answer {answers[0].text!r:.60} is not in its passage")
    return QuestionExample(question, passage, answers, identity, line=row.line)


def _answer_pairs(row: Row) -> list[tuple[Any, Any]]:
    """Return text and start of each answer, from a list of objects or an object of lists."""
    found = row.value("answers")
    if isinstance(found, dict) and isinstance(found.get("text"), str):
        found = [found]
    try:
        if isinstance(found, dict):
            starts = found.get("start", found.get("answer_start"))
            return list(zip(found["text"], starts or [None] * len(found["text"]), strict=True))
        pairs = [(item["text"], item.get("start", item.get("answer_start"))) for item in found]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"the answers {found!r:.60} are no list of texts with starts") from None
    return pairs


def _choice(row: Row) -> ChoiceExample:
    choices = row.texts("choices")
    if len(choices) < 2:
        raise DataError("there are less than two choices, so there is nothing to choose")
    label = _chosen(row, choices) if row.is_labelled else None
    # An empty cell is how a table says that there is none.
    is_blank = row.has("passage") and not str(row.value("passage")).strip()
    passage = None if is_blank else row.optional_text("passage")
    return ChoiceExample(row.text("question"), choices, passage, label, line=row.line)


def _chosen(row: Row, choices: tuple[str, ...]) -> int:
    """Return which choice is meant by a number from 0 on, a letter or its very text."""
    said, texts = row.label(), [choice.strip() for choice in choices]
    if said in texts and not isinstance(row.value("label"), int):
        return texts.index(said)
    letter = string.ascii_uppercase.find(said) if len(said) == 1 else -1
    index = int(said) if said.isdecimal() else letter
    if not 0 <= index < len(choices):
        raise DataError(
            f"the label {said!r} names none of {len(choices)} choices; give its number from 0 on, "
            "its letter or its text"
        )
    return index


def _relation(row: Row) -> RelationExample:
    text = row.text("text")
    first, second = (read_place(row.value(name), text) for name in ("first", "second"))
    label = row.label() if row.is_labelled else None
    return RelationExample(text, first, second, label, line=row.line)


def _target(row: Row) -> SourceExample:
    source = row.joined("source")
    targets = row.one_or_several("target") if row.is_labelled else None
    return SourceExample(source, targets, line=row.line)


FORMS: dict[str, Form] = {
    "label": Form(("text", "text_b"), ("label",), _label),
    "labels": Form(("text", "text_b"), ("labels",), _labels),
    "score": Form(("text", "text_b"), ("score",), _score),
    "texts": Form(("text", "text_b"), (), _texts),
    "aspect": Form(("text", "aspect"), ("label",), _aspect),
    "tags": Form(("text", "tokens"), ("tags", "spans"), _tags),
    "intent_slots": Form(("text", "tokens"), ("tags", "intent"), _intent_slots),
    "answers": Form(("question", "passage", "id"), ("answers",), _answers),
    "choice": Form(("question", "choices", "passage"), ("label",), _choice),
    "relation": Form(("text", "first", "second"), ("label",), _relation),
    "target": Form(("source",), ("target",), _target),
}
# Columns that tell the form of a file when nobody names its task, the surest first.
TELLTALES = {
    "answers": "answers",
    "choices": "choice",
    "intent": "intent_slots",
    "tags": "tags",
    "spans": "tags",
    "aspect": "aspect",
    "first": "relation",
    "labels": "labels",
    "score": "score",
    "target": "target",
}
# Columns that tell where a text is from, by which reports are cut into slices; a form that reads
# one of them as its input has only the other.
ORIGINS = ("origin", "source")
COLUMNS = tuple(dict.fromkeys(name for form in FORMS.values() for name in form.inputs + form.gold))
