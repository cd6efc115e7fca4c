"""BLEU and chrF as functions of sums over texts, equal to those of sacrebleu."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from bertworks.core.optional import import_optional

Tokenization = Literal["13a", "zh"]  # how sacrebleu parts words

WORD_ORDER, CHAR_ORDER = 4, 6  # the longest runs of words and of characters
NUM_BLEU_SUMS, NUM_CHRF_SUMS = 2 + 2 * WORD_ORDER, 3 * CHAR_ORDER
RECALL_WEIGHT = 4  # the square of chrF's beta
LEAST = 1e-12


class WordRuns:
    """Counts the runs of words that texts share with their references."""

    def __init__(self, tokenization: Tokenization) -> None:
        metrics = import_optional("sacrebleu.metrics", extra="eval", purpose="to score texts")
        self._bleu = metrics.BLEU(tokenize=tokenization, effective_order=True)

    def sums(self, given: str, golds: Sequence[str]) -> list[int]:
        """Return both lengths, how many runs of each length are right, and how many there are."""
        found = self._bleu.sentence_score(given, list(golds))
        return [found.sys_len, found.ref_len, *found.counts, *found.totals]

    def longest(self, golds: Sequence[str]) -> int:
        """Return how many words the longest reference has."""
        return max(len(self._bleu.tokenizer(gold).split()) for gold in golds)


def bleu_of(sums: np.ndarray) -> np.ndarray:
    """Return BLEU from 0 to 1 of the sums of all texts, [..., S] -> [...]."""
    given, gold = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + WORD_ORDER], sums[..., 2 + WORD_ORDER :]
    is_none = right < 0.5
    # Of runs of which none is right, half a one is taken for the first length, then a quarter …
    smoothed = np.where(is_none, 0.5 ** is_none.cumsum(axis=-1), right)
    shares = smoothed / np.maximum(total, LEAST)
    is_scored = (total > 0.5).all(axis=-1) & ~is_none.all(axis=-1)
    brevity = np.exp(np.minimum(1 - gold / np.maximum(given, LEAST), 0))
    return np.where(is_scored, brevity * np.exp(np.log(shares).mean(axis=-1)), 0.0)


def chrf_sums(given: str, golds: Sequence[str]) -> list[int]:
    """Return how many runs of characters a text has, the nearest reference has, and both have."""
    own = _char_runs(given)
    found = [_shared(own, _char_runs(gold)) for gold in golds]
    return max(found, key=lambda sums: float(chrf_of(np.array(sums))))


def chrf_of(sums: np.ndarray) -> np.ndarray:
    """Return chrF from 0 to 1 of the sums of all texts, [..., S] -> [...]."""
    given, gold, both = np.moveaxis(sums.reshape(*sums.shape[:-1], CHAR_ORDER, 3), -1, 0)
    is_known = (given > 0.5) & (gold > 0.5)
    num_known = np.maximum(is_known.sum(axis=-1), 1)
    precision, recall = (
        np.where(is_known, both / np.maximum(side, 0.5), 0).sum(axis=-1) / num_known
        for side in (given, gold)
    )
    weighed = RECALL_WEIGHT * precision + recall
    return (1 + RECALL_WEIGHT) * precision * recall / np.maximum(weighed, LEAST)


def _char_runs(text: str) -> list[Counter[str]]:
    chars = "".join(text.split())
    return [
        Counter(chars[start : start + length] for start in range(len(chars) - length + 1))
        for length in range(1, CHAR_ORDER + 1)
    ]


def _shared(given: list[Counter[str]], gold: list[Counter[str]]) -> list[int]:
    found: list[int] = []
    for own, other in zip(given, gold, strict=True):
        total = own.total() if other else 0  # runs that no reference is long enough for
        both = sum(min(count, other[run]) for run, count in own.items() if run in other)
        found += (total, other.total(), both)
    return found
