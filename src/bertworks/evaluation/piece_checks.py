"""Checks of texts in pieces: what needs several windows, and what truncating would lose."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertworks.data.examples import (
    ChoiceExample,
    Place,
    QuestionExample,
    RelationExample,
    SourceExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.tag_schemes import find_spans
from bertworks.data.windows import cut_beside, cut_pair, cut_spans
from bertworks.evaluation.findings import Finding, Places, rows_of
from bertworks.evaluation.text_checks import length_table
from bertworks.tasks.relate import NUM_MARKS
from bertworks.tokenizer.tokenizer import Tokenizer

MOST_UNKNOWN = 0.01  # share of pieces before it is a warning
UNKNOWN_REMEDY = "bertworks vocab inspect names the words; vocab extend adds pieces"
Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Reading:
    """How an example is read: windows slide over a long text, others stand beside each of them."""

    text: str
    beside: tuple[str, ...] = ()  # one at a time
    gold: tuple[Place, ...] = ()  # what must be seen whole
    is_pair: bool = False  # both texts are cut
    is_whole: bool = False  # one window shows all gold, with signs around it, and what is nearest


class PieceCheck:
    """Counts pieces, windows and the gold that stands in them."""

    def __init__(self, tokenizer: Tokenizer, *, longest: int) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        self.lengths: dict[str, array[int]] = {}
        self.long: dict[str, Places] = {}
        self.count: Counter[str] = Counter()
        self.cut, self.unknown = Places(), Places()
        self.last: _Cut | None = None

    def add(self, part: str, example: Any) -> None:
        """Cut an example into windows as its task would; sources have a check of their own."""
        if isinstance(example, SourceExample):
            return
        reading = reading_of(example)
        cut = self._cut(reading.text)
        beside = [np.array(ids) for ids in self.tokenizer.ids_of(reading.beside)]
        self._count_unknown(part, example.line, [cut.ids, *beside])
        gold = cut.pieces_of(reading.gold)
        spans, num_seen = self._windows(reading, cut.ids, beside, gold)
        length = len(cut.ids) + max(map(len, beside), default=0)
        self.lengths.setdefault(part, array("q")).append(length)
        self.long.setdefault(part, Places())
        if len(spans) > 1:
            self.long[part].add(part, example.line)
        self._count_gold(part, example.line, gold, spans)
        self.count["truncated"] += sum(last >= num_seen for _, last in gold)

    def findings(self) -> Iterator[Finding]:
        """Yield lengths, windows, and what is lost of gold and of text."""
        if self.cut.count:
            yield Finding(
                severity="warning",
                check="gold cut by windows",
                said=f"{self.cut.count:,} of {self.count['gold']:,} gold spans stand whole in no "
                f"window of {self.longest} pieces",
                remedy="raise --longest if the model reads more, or mark less",
                places=self.cut,
            )
        for part, places in self.long.items():
            if places.count:
                yield Finding(
                    severity="note",
                    check="several windows",
                    said=f"{rows_of(places.count)} of {len(self.lengths[part]):,} in {part} longer "
                    f"than one window of {self.longest} pieces",
                    remedy="nothing is lost here, but they take longer",
                    places=places,
                )
        if self.count["gold"]:
            yield Finding(
                severity="note",
                check="gold lost by truncating",
                said=f"cut off after {self.longest} pieces, {self.count['truncated']:,} of "
                f"{self.count['gold']:,} gold spans would be lost; windows lose "
                f"{self.cut.count:,}",
            )
        yield from self._unknown_pieces()
        if self.lengths:
            yield length_table("length in pieces", self.lengths, unit="pieces")

    def _cut(self, text: str) -> "_Cut":
        """Return the pieces of a text; the questions about a passage mostly follow each other."""
        if self.last is None or self.last.text != text:
            encoding = self.tokenizer.encode(text)
            offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            self.last = _Cut(text, np.array(encoding.ids, dtype=np.int64), offsets)
        return self.last

    def _windows(
        self, reading: Reading, pieces: np.ndarray, beside: list[np.ndarray], gold: Spans
    ) -> tuple[Spans, int]:
        """Return the windows over the long text, and how many pieces truncating would keep."""
        room = self.longest - self.tokenizer.specials.num_added(pair=bool(beside))
        if reading.is_whole:
            marked = {piece for first, last in gold for piece in range(first, last + 1)}
            is_shown = len(marked) + NUM_MARKS <= room
            return [(0, len(pieces) * is_shown)], room
        if reading.is_pair:
            count = len(cut_pair(pieces, beside[0], room=room))
            return [(0, len(pieces))] * count, len(pieces)
        if not beside:
            return cut_spans(len(pieces), room=room), room
        return cut_beside(beside, len(pieces), room=room)[1], room - max(map(len, beside))

    def _count_gold(self, part: str, line: int, gold: Spans, spans: Spans) -> None:
        self.count["gold"] += len(gold)
        for first, last in gold:
            if not any(start <= first and last < end for start, end in spans):
                self.cut.add(part, line)

    def _count_unknown(self, part: str, line: int, texts: list[np.ndarray]) -> None:
        unknown = self.tokenizer.specials.unknown
        found = sum(int(np.count_nonzero(ids == unknown)) for ids in texts)
        self.count["pieces"] += sum(map(len, texts))
        if found:
            self.unknown.add(part, line)
            self.count["unknown"] += found

    def _unknown_pieces(self) -> Iterator[Finding]:
        if not self.unknown.count:
            return
        share = self.count["unknown"] / self.count["pieces"]
        yield Finding(
            severity="warning" if share > MOST_UNKNOWN else "note",
            check="unknown pieces",
            said=f"{share:.2%} of the pieces are unknown to the tokenizer, in "
            f"{rows_of(self.unknown.count)}",
            remedy=UNKNOWN_REMEDY,
            places=self.unknown,
        )


def unknown_warning(part: str, texts: Iterable[np.ndarray], unknown: int) -> str | None:
    """Return what to say of a file where many of its pieces are unknown."""
    found = total = 0
    for tokens in texts:
        found += int(np.count_nonzero(tokens == unknown))
        total += len(tokens)
    if found <= MOST_UNKNOWN * total:
        return None
    return (
        f"{found / total:.2%} of the pieces of {part} are unknown to the model's tokenizer; take a "
        f"model of this language, or {UNKNOWN_REMEDY}"
    )


@dataclass(frozen=True)
class _Cut:
    """A text and its pieces."""

    text: str
    ids: np.ndarray
    offsets: np.ndarray  # [pieces, 2], in characters

    def pieces_of(self, places: tuple[Place, ...]) -> Spans:
        """Return the first and the last piece of places in the text."""
        starts, ends = self.offsets.T
        found = []
        for start, end in places:
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(starts, end, side="left")) - 1
            if first <= last:
                found.append((first, last))
        return found


def reading_of(example: Any) -> Reading:
    """Return how the task of an example reads it."""
    match example:
        case QuestionExample():
            found = ((answer.start, len(answer.text)) for answer in example.answers or ())
            gold = tuple((start, start + size) for start, size in found if start is not None)
            return Reading(example.passage, (example.question,), gold)
        case ChoiceExample(passage=str() as passage):
            return Reading(passage, tuple(f"{example.question} {c}" for c in example.choices))
        case ChoiceExample():
            return Reading(example.question, example.choices)
        case RelationExample():
            return Reading(example.text, gold=(example.first, example.second), is_whole=True)
        case TaggedExample():
            return Reading(example.text, gold=_marked(example))
        case TextExample(text_b=str() as text_b):
            return Reading(example.text, (text_b,), is_pair=True)
        case _:
            return Reading(example.text)


def _marked(example: TaggedExample) -> tuple[Place, ...]:
    """Return the places of the spans of a text."""
    if example.spans is not None:
        return tuple((span.start, span.end) for span in example.spans)
    if example.words is None or example.tags is None:
        return ()
    words = example.words
    found = find_spans(example.tags)
    return tuple((words[span.first][0], words[span.end - 1][1]) for span in found)
