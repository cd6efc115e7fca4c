"""Texts of documents that belong together: what vectors are learned from without labels."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from bertworks.corpus.document import Document
from bertworks.corpus.sentences import split_sentences
from bertworks.corpus.words import count_words

PairKind = Literal["neighbours", "context", "sentences"]
Texts = tuple[str, ...]  # two that belong together, or one alone
AROUND = 2  # sentences on each side that are the context of one


@dataclass(frozen=True)
class PairMaker:
    """What is taken from documents, how much of each, and which sentences count."""

    kind: PairKind = "neighbours"
    per_document: int = 4
    shortest: int = 5  # words; headings and captions are shorter
    longest: int = 60

    def draw(self, document: Document, random: np.random.Generator) -> list[Texts]:
        """Return some texts of a document, in their order; what is in one row is in no other.

        Nor is a text in its own partner: rows are told apart from each other when they are learned.
        """
        texts = [one for paragraph in document.paragraphs for one in self._take(paragraph)]
        found: dict[int, Texts] = {}
        for place in random.permutation(len(texts)).tolist():
            if len(found) == self.per_document:
                break
            row = texts[place]
            beside = [(row[:1], row[1:]), *((row, other) for other in found.values())]
            if self._counts(row) and not any(_overlap(*both) for both in beside):
                found[place] = row
        return [found[place] for place in sorted(found)]

    def _take(self, paragraph: str) -> Iterable[Texts]:
        sentences = split_sentences(paragraph)
        match self.kind:
            case "sentences":
                return zip(sentences, strict=True)
            case "neighbours":
                return pairwise(sentences)
            case "context":
                return _contexts(paragraph, sentences)

    def _counts(self, texts: Texts) -> bool:
        """Tell whether sentences are neither too short nor too long; a context may be."""
        sentences = texts[:1] if self.kind == "context" else texts
        lengths = (count_words(sentence)[0] for sentence in sentences)
        return all(self.shortest <= length <= self.longest for length in lengths)


def _overlap(texts: Texts, others: Texts) -> bool:
    """Tell whether one of some texts stands in one of others, or the other way round."""
    return any(one in other or other in one for one in texts for other in others)


def _contexts(paragraph: str, sentences: list[str]) -> Iterator[Texts]:
    """Yield each sentence and what stands around it, with the spaces that the text has."""
    spans = list(_find(paragraph, sentences))
    for place, (begin, end) in enumerate(spans):
        first = spans[max(place - AROUND, 0)][0]
        last = spans[min(place + AROUND, len(spans) - 1)][1]
        around = (paragraph[first:begin] + paragraph[end:last].lstrip()).strip()
        if around:
            yield sentences[place], around


def _find(paragraph: str, sentences: list[str]) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins and ends."""
    end = 0
    for sentence in sentences:
        begin = paragraph.index(sentence, end)
        end = begin + len(sentence)
        yield begin, end
