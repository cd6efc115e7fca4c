"""How the checks see an example, whatever its form: its texts, its labels, what it is about."""

from itertools import accumulate
from typing import Any

from bertworks.data.examples import (
    ChoiceExample,
    Place,
    QuestionExample,
    RelationExample,
    SourceExample,
    TaggedExample,
    TextExample,
)


def texts_of(example: Any) -> tuple[str, ...]:
    """Return all that the network reads of an example."""
    match example:
        case QuestionExample():
            return example.question, example.passage
        case ChoiceExample():
            return (*filter(None, (example.passage,)), example.question, *example.choices)
        case SourceExample():
            return (example.source, *(example.targets or ()))
        case TextExample(text_b=str() as text_b):
            return example.text, text_b
        case _:
            return (example.text,)


def identity_of(example: Any) -> str:
    """Return a text that is the same only where the same is asked."""
    if isinstance(example, SourceExample):
        return example.source
    is_relation = isinstance(example, RelationExample)
    places = solid_places(example.text, example.first, example.second) if is_relation else ()
    return "\0".join((*texts_of(example), *map(str, places)))


def labels_of(example: Any) -> dict[str, tuple[str, ...]]:
    """Return the labels of an example by what they are labels of."""
    match example:
        case TextExample(labels=tuple() as labels):
            return {"labels": labels}
        case TextExample(label=str() as label) | RelationExample(label=str() as label):
            return {"label": (label,)}
        case TaggedExample():
            tags = example.tags or tuple(span.label for span in example.spans or ())
            name = "span label" if example.tags is None else "tag"
            intent = {"intent": (example.intent,)} if example.intent is not None else {}
            return {**intent, name: tags}
        case _:
            return {}


def gold_of(example: Any) -> str:
    """Return what should be found, as a text that is the same only where the gold is."""
    match example:
        case QuestionExample():
            return repr(sorted(answer.text for answer in example.answers or ()))
        case ChoiceExample():
            return repr(None if example.label is None else example.choices[example.label])
        case TaggedExample():
            spans = example.spans or ()
            places = solid_places(example.text, *((span.start, span.end) for span in spans))
            labels = [span.label for span in spans]
            return repr((example.intent, example.tags, places, labels))
        case TextExample():
            return repr((example.label, sorted(example.labels or ()), example.score))
        case SourceExample():
            return ""  # a source may be put in many words, so no two targets contradict
        case _:
            return repr(example.label)


def solid_places(text: str, *places: Place) -> list[Place]:
    """Return places as they are where white space does not count."""
    if not places:
        return []
    before = list(accumulate((not char.isspace() for char in text), initial=0))
    return [(before[start], before[end]) for start, end in places]


def compared_of(example: Any) -> tuple[str, str]:
    """Return the text by which near copies are found, and what must be the very same in them.

    The questions about a passage are no copies of each other, and neither are the aspects of a
    text; so of two texts the shorter one must be the same.
    """
    match example:
        case QuestionExample():
            return example.question, example.passage
        case ChoiceExample():
            return "\n".join((example.question, *example.choices)), example.passage or ""
        case RelationExample():
            marked = (example.text[slice(*place)] for place in (example.first, example.second))
            return example.text, "\n".join(marked)
        case SourceExample():
            return example.source, ""
        case TextExample(text_b=str() as text_b):
            shorter, longer = sorted((example.text, text_b), key=len)
            return longer, shorter
        case _:
            return example.text, ""
