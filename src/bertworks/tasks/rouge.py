"""ROUGE: how many words, pairs of words and words in order a text shares with a reference."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from bertworks.core.scripts import EAST_ASIAN_CHARS

# A character of Chinese, or letters and digits of other scripts.
WORD = re.compile(rf"[{EAST_ASIAN_CHARS}]|[^\W_{EAST_ASIAN_CHARS}]+")


def rouge_scores(given: str, golds: Sequence[str]) -> tuple[float, float, float]:
    """Return the F of ROUGE-1, ROUGE-2 and ROUGE-L, each with the reference it is highest with."""
    words = words_of(given)
    found = [_scores(words, words_of(gold)) for gold in golds]
    first, second, longest = (max(scores) for scores in zip(*found, strict=True))
    return first, second, longest


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters, without marks; of Chinese its characters."""
    return WORD.findall(text.lower())


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many words two texts have in the same order, whatever stands between them.

    A bit of a number stands for each word of the first, so that it takes one step for each word of
    the second: the bits that have become zero are those of the longest common sequence.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(first)) - 1
    row = every
    for word in second:
        met = row & places.get(word, 0)
        row = ((row + met) | (row - met)) & every
    return len(first) - row.bit_count()


def _scores(given: list[str], gold: list[str]) -> tuple[float, float, float]:
    pairs = [list(pairwise(words)) for words in (given, gold)]
    longest = longest_common(given, gold)
    return (
        _f1((Counter(given) & Counter(gold)).total(), len(given), len(gold)),
        _f1((Counter(pairs[0]) & Counter(pairs[1])).total(), len(pairs[0]), len(pairs[1])),
        _f1(longest, len(given), len(gold)),
    )


def _f1(shared: int, num_given: int, num_gold: int) -> float:
    return 2 * shared / (num_given + num_gold) if shared else 0.0
