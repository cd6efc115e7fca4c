"""MinHash: a short signature of a text, from which the likeness of two texts can be estimated.

A text is taken as a set of shingles: runs of neighboring words. In scripts without spaces between
words each character counts as one. Two signatures agree in about that share of their places which
the sets have in common (their Jaccard similarity).
"""

from collections.abc import Iterator

import numpy as np

from bertworks.core.code_points import code_points
from bertworks.core.seeds import random_at
from bertworks.corpus.words import find_words

SHINGLE_WORDS = 5
SEGMENT = 100_000  # characters looked at together, so that a long text needs no more memory
TOGETHER = 20_000  # characters of short texts that are looked at together
BLOCK = 512  # shingles that are hashed at once, so that all their hashes stay in the cache


class MinHash:
    """Makes signatures; those of one number of permutations can be compared, wherever made."""

    def __init__(self, num_permutations: int, *, shingle_words: int = SHINGLE_WORDS) -> None:
        self.shingle_words = shingle_words
        random = random_at(0, "minhash", num_permutations)
        shape = (num_permutations, 1)
        self.salts = random.integers(0, 2**32, shape, dtype=np.uint32)
        self.factors = random.integers(0, 2**32, shape, dtype=np.uint32) | np.uint32(1)

    def signature(self, text: str) -> np.ndarray:
        """Return the lower half of the least hash under every permutation, [P] uint16."""
        least = np.full(len(self.salts), 2**32 - 1, np.uint32)
        for start in range(0, len(text), SEGMENT):
            hashes = shingles(text[start : start + SEGMENT], self.shingle_words)
            for first in range(0, len(hashes), BLOCK):
                block = hashes[first : first + BLOCK] ^ self.salts
                block *= self.factors
                np.minimum(least, block.min(axis=1), out=least)
        return least.astype(np.uint16)

    def signatures(self, texts: list[str]) -> np.ndarray:
        """Return the signatures of texts, [N, P]; short ones are quicker together than alone."""
        found = np.empty((len(texts), len(self.salts)), np.uint16)
        for first, last in _chunks(texts):
            if last - first == 1:
                found[first] = self.signature(texts[first])
            else:
                self._sign_together(texts[first:last], found[first:last])
        return found

    def _sign_together(self, texts: list[str], out: np.ndarray) -> None:
        owners, runs = _shingles_of_all(texts, self.shingle_words)
        block = runs ^ self.salts
        block *= self.factors
        rows, starts = np.unique(owners, return_index=True)
        if len(rows):
            out[rows] = np.minimum.reduceat(block, starts, axis=1).T
        for row in np.setdiff1d(np.arange(len(texts)), rows).tolist():  # of fewer words than a run
            out[row] = self.signature(texts[row])


def likeness(signature: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimate the Jaccard similarity of a signature [P] and each of several others [N, P]."""
    return (others == signature).mean(axis=1)


def shingles(text: str, num_words: int = SHINGLE_WORDS) -> np.ndarray:
    """Return a hash of every run of words; a short text is one run. Case does not count."""
    codes = code_points(text.lower())
    words, _ = _word_hashes(codes)
    if not len(words):  # nothing but marks: let all of them be a word
        words = _sums(codes, np.zeros(min(len(codes), 1), np.int64))
    size = min(num_words, len(words))
    runs = np.zeros(len(words) - size + 1 if size else 0, np.uint64)
    for place in range(size):
        runs = mix(runs + words[place : place + len(runs)])
    return (runs >> np.uint64(32)).astype(np.uint32)


def _chunks(texts: list[str]) -> Iterator[tuple[int, int]]:
    """Yield from where to where texts are short enough together."""
    first, size = 0, 0
    for place, text in enumerate(texts):
        if size and size + len(text) > TOGETHER:
            yield first, place
            first, size = place, 0
        size += len(text)
    if first < len(texts):
        yield first, len(texts)


def _shingles_of_all(texts: list[str], num_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a hash of every full run of words in some texts, and which text it is of."""
    codes = code_points("\n".join(text.lower() for text in texts))
    words, places = _word_hashes(codes)
    ends = np.cumsum([len(text.lower()) + 1 for text in texts])
    owners = np.searchsorted(ends, places, side="right")
    count = max(len(words) - num_words + 1, 0)
    runs = np.zeros(count, np.uint64)
    for place in range(num_words):
        runs = mix(runs + words[place : place + count])
    is_of_one = owners[:count] == owners[num_words - 1 :]
    hashes = (runs >> np.uint64(32)).astype(np.uint32)
    return owners[:count][is_of_one], hashes[is_of_one]


def mix(values: np.ndarray) -> np.ndarray:
    """Spread every bit of uint64 values over all of their bits."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _word_hashes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a hash of each word, and where it begins."""
    is_letter, begins = find_words(codes)
    letters = np.flatnonzero(is_letter)
    firsts = np.flatnonzero(begins.take(letters))
    return _sums(codes.take(letters), firsts), letters[firsts]


def _sums(codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a hash of the characters from each start to the next, their order counted."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    places = np.arange(len(codes), dtype=np.uint64)
    places -= np.repeat(starts.astype(np.uint64), np.diff(starts, append=len(codes)))
    places <<= np.uint64(32)
    places += codes
    return mix(np.add.reduceat(mix(places), starts))
