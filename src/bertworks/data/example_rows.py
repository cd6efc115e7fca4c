"""Examples as rows again: what `forms` reads back as the same examples."""

from typing import Any

from bertworks.data.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    RelationExample,
    SourceExample,
    TaggedExample,
    TextExample,
)

Row = dict[str, Any]


def row_of(example: Example, *, form: str = "label") -> Row:
    """Return an example of a form as a row of JSON data; what is not known is left out."""
    found = _rows_of_form(example, form)
    return {name: value for name, value in found.items() if value is not None}


def subject_of(example: Any) -> str:
    """Return the text that an example is about; examples about the same text belong together."""
    if isinstance(example, SourceExample):
        return example.source
    return getattr(example, "passage", None) or getattr(example, "text", "") or example.question


def _rows_of_form(example: Any, form: str) -> Row:
    match example:
        case TextExample():
            second = "aspect" if form == "aspect" else "text_b"
            told = {"label": example.label, "labels": example.labels, "score": example.score}
            return {"text": example.text, second: example.text_b, **told}
        case TaggedExample(words=None):
            spans = example.spans
            rows = None if spans is None else [vars(span) for span in spans]
            return {"text": example.text, "spans": rows, "intent": example.intent}
        case TaggedExample():
            words = [example.text[start:end] for start, end in example.words or ()]
            return {"tokens": words, "tags": example.tags, "intent": example.intent}
        case QuestionExample():
            found = example.answers
            answers = None if found is None else [{"text": a.text, "start": a.start} for a in found]
            texts = {"question": example.question, "passage": example.passage}
            return {"id": example.id or None, **texts, "answers": answers}
        case ChoiceExample():
            asked = {"question": example.question, "choices": example.choices}
            return {**asked, "passage": example.passage, "label": example.label}
        case RelationExample():
            places = {"first": example.first, "second": example.second}
            return {"text": example.text, **places, "label": example.label}
        case SourceExample():
            targets = example.targets
            target = targets[0] if targets and len(targets) == 1 else targets
            return {"source": example.source, "target": target}
    raise TypeError(f"a {type(example).__name__} has no columns")
