"""How a report sees answers: which label was taken for which, and the worst in their texts."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from bertworks.data.examples import (
    ChoiceExample,
    QuestionExample,
    RelationExample,
    SourceExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.tag_schemes import find_spans
from bertworks.evaluation.answer_parts import NOTHING, Confusion, Errors, Pairs
from bertworks.evaluation.marked_text import Mark, Side, mark_text
from bertworks.evaluation.report_blocks import UNNAMED, Piece, Shown
from bertworks.tasks.task import Answer, Verdict

MOST_ERRORS, MOST_PAIRS = 20, 30  # that a page shows
MOST_COUNTED = 10_000  # different pairs of gold and answer
MOST_NAMED = 12  # spans of one answer
LONGEST_WORDS = 300  # characters of a gold or an answer
Spans = dict[tuple[int, int], str]  # labels by their places


@dataclass
class Gallery:
    """Keeps of all answers the pairs of gold and answer, and the worst with their texts."""

    labels: Sequence[str] = ()  # those of the task, where it tells single labels apart
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_matrix: bool = True  # so far all pairs are of single labels
    num_wrong: int = 0
    are_texts: bool = False  # that were written
    _worst: list[tuple[float, float, int, Shown]] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    def add(self, example: Any, answer: Answer, verdict: Verdict) -> None:
        """Look at one answer."""
        found = label_pairs(example, answer, verdict)
        self.is_matrix = self.is_matrix and found is not None
        self.are_texts = isinstance(example, SourceExample)
        for pair in found or [(verdict.gold, verdict.given)] * (found is None):
            if pair in self.pairs or len(self.pairs) < MOST_COUNTED:
                self.pairs[pair] += 1
        if verdict.score is None or verdict.score == 1:
            return
        self.num_wrong += 1
        rank = (1 - verdict.score, verdict.certainty, -next(self._numbers))
        if len(self._worst) < MOST_ERRORS:
            heapq.heappush(self._worst, (*rank, view_of(example, answer, verdict)))
        elif rank > self._worst[0][:3]:
            heapq.heapreplace(self._worst, (*rank, view_of(example, answer, verdict)))

    def confusion(self) -> Confusion | Pairs | None:
        """Return which label was taken for which; of other answers the pairs that come often."""
        if not self.pairs:
            return None
        if self.is_matrix:
            return Confusion.of_pairs(self.pairs, self.labels)
        common = self.pairs.most_common(MOST_PAIRS)
        if len(common) == MOST_PAIRS and common[0][1] < 3:  # all answers are different
            return None
        return Pairs(tuple((gold, given, times) for (gold, given), times in common))

    def errors(self) -> Errors:
        """Return the worst answers, of those that are as bad the surest first."""
        views = [entry[-1] for entry in sorted(self._worst, key=lambda own: own[:3], reverse=True)]
        return Errors(tuple(views), self.num_wrong, self.are_texts)


def label_pairs(example: Any, answer: Answer, verdict: Verdict) -> list[tuple[str, str]] | None:
    """Return labels beside those given for them; None where answers are no single labels."""
    match example:
        case TaggedExample():
            gold, given = spans_of(example, answer)
            places = sorted({*gold, *given})
            return [(gold.get(own, NOTHING), given.get(own, NOTHING)) for own in places]
        case TextExample(label=str()) | RelationExample(label=str()):
            return [(verdict.gold, verdict.given)]
        case SourceExample():
            return []  # of whole texts there is nothing to count
        case _:
            return None


def view_of(example: Any, answer: Answer, verdict: Verdict) -> Shown:
    """Return an answer in its text, marked where it and the gold lie."""
    gold, given = verdict.gold, verdict.given
    if isinstance(example, TaggedExample):
        gold, given = _said_of_spans(example, answer)
    sure = None if verdict.certainty == 1 else verdict.certainty
    near = verdict.score if isinstance(example, SourceExample) else None
    texts = marked_texts(example, answer)
    return Shown(example.line, texts, _short(gold), _short(given), sure, near)


def marked_texts(example: Any, answer: Answer) -> dict[str, Sequence[Piece]]:
    """Return the texts of an example by their names, with the places that matter marked."""
    match example:
        case QuestionExample():
            marks = [Mark(*place, "gold", UNNAMED) for place in _answer_places(example)]
            if answer.get("start") is not None:
                marks.append(Mark(answer["start"], answer["end"], "answer", UNNAMED))
            passage = mark_text(example.passage, marks)
            return {"question": mark_text(example.question, ()), "passage": passage}
        case ChoiceExample():
            texts = {"passage": example.passage, "question": example.question}
            texts |= {f"choice {n}": own for n, own in enumerate(example.choices, start=1)}
            return {name: mark_text(text, ()) for name, text in texts.items() if text}
        case TaggedExample():
            return {"": mark_text(example.text, span_marks(example, answer))}
        case RelationExample():
            places = {"first": example.first, "second": example.second}
            return {"": mark_text(example.text, [Mark(*p, "place", n) for n, p in places.items()])}
        case TextExample(text_b=str() as text_b):
            return {"first": mark_text(example.text, ()), "second": mark_text(text_b, ())}
        case SourceExample():
            return {"": mark_text(example.source, ())}
        case _:
            return {"": mark_text(example.text, ())}


def _answer_places(example: QuestionExample) -> list[tuple[int, int]]:
    """Return where answers stand; of those that overlap, the longest."""
    known = [own for own in example.answers or () if own.start is not None]
    places: list[tuple[int, int]] = []
    for own in sorted(known, key=lambda own: -len(own.text)):
        start, end = own.start or 0, (own.start or 0) + len(own.text)
        if all(end <= other[0] or other[1] <= start for other in places):
            places.append((start, end))
    return places


def span_marks(example: TaggedExample, answer: Answer) -> list[Mark]:
    """Return the marks of all spans; of plain tags only of those that are wrong."""
    gold, given = spans_of(example, answer)
    if is_plain(answer):
        gold, given = _apart(gold, given), _apart(given, gold)
    sides: dict[Side, Spans] = {"gold": gold, "answer": given}
    return [Mark(*at, side, own) for side, spans in sides.items() for at, own in spans.items()]


def spans_of(example: TaggedExample, answer: Answer) -> tuple[Spans, Spans]:
    """Return where labels should be found and where they were; of plain tags each word has one."""
    words = example.words or ()
    if is_plain(answer):
        gold = dict(zip(words, example.tags or (), strict=False))
        return gold, dict(zip(words, answer["tags"], strict=False))
    found = answer["spans"] if "spans" in answer else answer["slots"]
    given = {(own["start"], own["end"]): own["label"] for own in found}
    if example.spans is not None:
        return {(own.start, own.end): own.label for own in example.spans}, given
    spans = find_spans(example.tags or ())
    return {(words[own.first][0], words[own.end - 1][1]): own.label for own in spans}, given


def is_plain(answer: Answer) -> bool:
    """Tell whether tags speak of single words, not of spans."""
    return "spans" not in answer and "slots" not in answer


def _apart(spans: Spans, others: Spans) -> Spans:
    """Return the spans that are not among others."""
    return {place: label for place, label in spans.items() if others.get(place) != label}


def _said_of_spans(example: TaggedExample, answer: Answer) -> tuple[str, str]:
    """Say what was missed and what was wrongly given, the intent before the spans."""
    gold, given = spans_of(example, answer)
    intents = [example.intent], [answer.get("intent")]
    if intents[0] == intents[1]:
        intents = [], []
    missed = _said(example.text, _apart(gold, given), intents[0])
    return missed, _said(example.text, _apart(given, gold), intents[1])


def _said(text: str, spans: Spans, intents: Sequence[str | None]) -> str:
    """Say in words which spans there are, each with its place."""
    said = [f"intent {intent}" for intent in intents]
    for (start, end), label in sorted(spans.items()):
        said.append(f"{_short(text[start:end], 60)} = {label} ({start}–{end})")
    more = [f"and {len(said) - MOST_NAMED} more"] * (len(said) > MOST_NAMED)
    return "; ".join([*said[:MOST_NAMED], *more]) or NOTHING


def _short(text: str, longest: int = LONGEST_WORDS) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
