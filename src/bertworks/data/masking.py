"""Hiding pieces for masked-language modelling: one by one, by words, by spans or by n-grams.

All kinds are one: texts are cut into words and words gathered into runs, and the runs of a text are
hidden in random order until it has lost its share. A word may be a piece, and a run a word.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from bertworks.core.errors import UsageError
from bertworks.core.pieces import SpecialIds

MaskKind = Literal["piece", "word", "span", "ngram"]

_SPAN = 0.2 * 0.8 ** np.arange(10)  # SpanBERT: geometric, at most ten words
_NGRAM = 1 / np.arange(1, 4)  # ALBERT: at most three words
RUN_LENGTHS = {"span": _SPAN / _SPAN.sum(), "ngram": _NGRAM / _NGRAM.sum()}  # of 1, 2, ... words


@dataclass(frozen=True)
class Masking:
    """How much is hidden, what together, and behind what: the mask, random pieces, or itself."""

    specials: SpecialIds
    vocab_size: int
    rate: float = 0.15
    masked_share: float = 0.8
    random_share: float = 0.1
    kind: MaskKind = "piece"

    def __post_init__(self) -> None:
        if self.masked_share + self.random_share > 1 + 1e-9:
            raise UsageError(
                f"the masked share {self.masked_share} and the random share {self.random_share} "
                "are more than the whole together; lower one of them"
            )

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The pieces that are not special."""
        return np.setdiff1d(np.arange(self.vocab_size), self.specials.as_tuple())

    @property
    def needs_words(self) -> bool:
        """Whether `hide` must be told where words begin."""
        return self.kind != "piece"

    def hide(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        random: np.random.Generator,
        *,
        begins_word: np.ndarray | None = None,
        rate: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts with pieces hidden, and the places (ascending) of what was hidden.

        Every text with an ordinary piece loses at least one word, and its share as nearly as whole
        words allow, for which its last run may end early. The words of a run meet the same fate.
        """
        rate = self.rate if rate is None else rate
        can_hide = self._is_ordinary[tokens]
        text = np.repeat(np.arange(len(lengths)), lengths)
        budget = rate * np.bincount(text[can_hide], minlength=len(lengths))
        if not self.needs_words:
            budget, word = np.rint(budget), np.arange(len(tokens))
            run = word
        else:
            budget += random.random(len(lengths)) - 0.5  # so that rounding loses nothing on average
            word, run = self._cut(tokens, text, begins_word, random)
        words = _Words(word, run, text=text, can_hide=can_hide)
        is_chosen = words.choose(budget, random.random(words.num_runs))
        at = np.flatnonzero(is_chosen[word] & can_hide)
        return self._replace(tokens, at, run[word[at]], random), at

    def _cut(
        self,
        tokens: np.ndarray,
        text: np.ndarray,
        begins_word: np.ndarray | None,
        random: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each token's word, [T], and of each word's run, [W]."""
        if begins_word is None:
            raise ValueError(f"masking by {self.kind} must be told where words begin")
        begins_part = self._is_apart[tokens]  # nothing reaches over the end of a text or segment
        begins_part[1:] |= begins_part[:-1] | (np.diff(text) > 0)
        begins_part[:1] = True
        begins = begins_word | begins_part
        word = np.cumsum(begins) - 1
        if self.kind == "word":
            return word, np.arange(begins.sum())
        begins_run = _begin_runs(begins_part[begins], RUN_LENGTHS[self.kind], random)
        return word, np.cumsum(begins_run) - 1

    def _replace(
        self, tokens: np.ndarray, at: np.ndarray, run: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Return the texts with other pieces at some places; the runs there ascend."""
        turn = np.cumsum(np.diff(run, prepend=run[:1]) > 0)  # which of the hidden runs
        fate = random.random(turn[-1] + 1 if len(turn) else 0)[turn]
        pieces = self.ordinary[random.integers(len(self.ordinary), size=len(at))]
        hidden = tokens.copy()
        is_masked = fate < self.masked_share
        is_random = ~is_masked & (fate < self.masked_share + self.random_share)
        hidden[at[is_masked]] = self.specials.mask
        hidden[at[is_random]] = pieces[is_random]
        return hidden

    @cached_property
    def _is_ordinary(self) -> np.ndarray:
        return _table(self.vocab_size, self.ordinary)

    @cached_property
    def _is_apart(self) -> np.ndarray:
        """Which pieces stand between texts; the unknown piece is special, but stands in one."""
        ids = self.specials
        return _table(self.vocab_size, (ids.pad, ids.first, ids.separator, ids.mask))


class _Words:
    """The words of a batch, gathered into runs: their text, and how many pieces may be hidden."""

    def __init__(
        self, word: np.ndarray, run: np.ndarray, *, text: np.ndarray, can_hide: np.ndarray
    ) -> None:
        self.run = run
        self.text = text[np.flatnonzero(np.diff(word, prepend=-1))]
        self.size = np.bincount(word[can_hide], minlength=len(run))
        self.run_starts = np.append(np.flatnonzero(np.diff(run, prepend=-1)), len(run))
        self.num_runs = len(self.run_starts) - 1

    def choose(self, budget: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Tell which words to hide: of each text those of the runs of least noise, until enough.

        Whether the last word is taken must not depend on its size, or long words would be hidden
        less often than short ones. So it may exceed the budget, and the limit is set lower by what
        it exceeds on average. Words of twice the budget stay, where there are others.
        """
        size = self._fitting(budget)
        total = self._sum(size, budget)
        excess = self._sum(size**2, budget) / np.maximum(2 * total, 1)
        order = self._order(size, budget, noise)
        size, text = size[order], self.text[order]
        is_first = np.diff(text, prepend=-1) > 0
        before = np.cumsum(size) - size
        before -= np.maximum.accumulate(before * is_first)
        is_chosen = np.zeros(len(self.size), dtype=bool)
        is_chosen[order[is_first | (before < (budget - excess)[text])]] = True
        return is_chosen

    def _fitting(self, budget: np.ndarray) -> np.ndarray:
        """Return the pieces of each word that may be hidden, none of those that are too long."""
        fits = self.size <= np.maximum(2 * budget, 1)[self.text]
        has_fitting = self._sum(self.size * fits, budget) > 0
        return self.size * (fits | ~has_fitting[self.text])

    def _order(self, size: np.ndarray, budget: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the words that may be hidden, text by text in the order of their runs' noise.

        Sorting is dear, so late runs are left out of texts in which the early ones are enough.
        """
        is_early = noise < 2 * budget.sum() / max(size.sum(), 1)
        is_enough = self._sum(size * is_early[self.run], budget) > np.maximum(budget, 0)
        text = self.text[self.run_starts[:-1]]
        runs = np.flatnonzero(is_early | ~is_enough[text])
        runs = runs[np.argsort(text[runs] + noise[runs] / 2)]
        starts, counts = self.run_starts[runs], np.diff(self.run_starts)[runs]
        order = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        return order[size[order] > 0]

    def _sum(self, values: np.ndarray, per_text: np.ndarray) -> np.ndarray:
        """Add up the words of each text."""
        return np.bincount(self.text, weights=values, minlength=len(per_text))


def _begin_runs(
    begins_part: np.ndarray, law: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Tell which words begin a run, when a law says how likely runs of one word, two, ... are."""
    count = len(begins_part)  # as many lengths are drawn as there are words, which is always enough
    length = 1 + np.searchsorted(np.cumsum(law)[:-1], random.random(count), side="right")
    part = np.cumsum(begins_part) - 1
    starts = np.append(np.flatnonzero(begins_part), count)
    begin = np.cumsum(length) - length
    begin += (starts[:-1] - begin[starts[:-1]])[part]
    begins = np.zeros_like(begins_part)
    begins[begin[begin < starts[part + 1]]] = True
    return begins


def _table(size: int, ids: np.ndarray | tuple[int, ...]) -> np.ndarray:
    """Tell for each piece of the vocabulary whether it is among these."""
    table = np.zeros(size, dtype=bool)
    table[np.asarray(ids)] = True
    return table
