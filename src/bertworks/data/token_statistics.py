"""What a tokenizer made of a corpus, in numbers that can be added up."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


@dataclass
class TokenStatistics:
    """Counts over documents; those of several chunks can be added.

    A document is spaced when most of its words stand between spaces. In others, as Chinese ones,
    every character counts as a word.
    """

    documents: int = 0
    held_out_documents: int = 0
    sentences: int = 0
    unknown_tokens: int = 0
    spaced_tokens: int = 0
    spaced_words: int = 0
    unspaced_tokens: int = 0
    unspaced_characters: int = 0
    lengths: Counter[int] = field(default_factory=Counter)  # documents by number of tokens

    def add_document(self, num_tokens: int, *, num_words: int, num_unspaced: int) -> None:
        """Count a document, by its tokens and words and how many of these are characters."""
        self.documents += 1
        self.lengths[num_tokens] += 1
        if 2 * num_unspaced > num_words:
            self.unspaced_tokens += num_tokens
            self.unspaced_characters += num_words
        else:
            self.spaced_tokens += num_tokens
            self.spaced_words += num_words

    def add(self, other: "TokenStatistics") -> None:
        """Add the counts of other documents."""
        for item in fields(self):
            if item.name != "lengths":
                total = getattr(self, item.name) + getattr(other, item.name)
                setattr(self, item.name, total)
        self.lengths.update(other.lengths)

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return self.spaced_tokens + self.unspaced_tokens

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know, as JSON data."""
        numbers = {name: number for name, number in vars(self).items() if name != "lengths"}
        return {
            **numbers,
            "tokens": self.tokens,
            "pieces_per_word": _ratio(self.spaced_tokens, self.spaced_words),
            "pieces_per_character": _ratio(self.unspaced_tokens, self.unspaced_characters),
            "unknown_share": _ratio(self.unknown_tokens, self.tokens),
            "tokens_per_document": _ratio(self.tokens, self.documents),
            "tokens_per_sentence": _ratio(self.tokens, self.sentences),
            "length_percentiles": self.percentiles(),
            "longest_document": max(self.lengths, default=0),
            "length_classes": self._classes(),
        }

    def percentiles(self) -> dict[str, int]:
        """Return below which length which share of the documents lies."""
        if not self.lengths:
            return {}
        lengths = np.array(sorted(self.lengths))
        ranks = np.cumsum([self.lengths[length] for length in lengths.tolist()])
        wanted = [percentile / 100 * ranks[-1] for percentile in PERCENTILES]
        found = lengths[np.searchsorted(ranks, wanted)]
        return {str(p): int(n) for p, n in zip(PERCENTILES, found, strict=True)}

    def as_json(self) -> dict[str, Any]:
        """Return all counts as JSON data, to be taken up again."""
        return vars(self) | {"lengths": sorted(self.lengths.items())}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Take up counts that were put aside."""
        return cls(**data | {"lengths": Counter(dict(data["lengths"]))})

    def _classes(self) -> dict[str, int]:
        """Return how many documents have at least a power of two of tokens, and not the next."""
        classes: Counter[int] = Counter()
        for length, count in self.lengths.items():
            classes[1 << (length.bit_length() - 1)] += count
        return {str(start): classes[start] for start in sorted(classes)}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
