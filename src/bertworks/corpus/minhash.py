"""MinHash: a short signature of a text, from which the likeness of two texts can be estimated.

A text is taken as a set of shingles: runs of neighboring words. In scripts without spaces between
words each character counts as one. Two signatures agree in about that share of their places which
the sets have in common (their Jaccard similarity).
"""

import numpy as np

from bertworks.core.code_points import code_points
from bertworks.core.seeds import random_at
from bertworks.corpus.words import find_words

SHINGLE_WORDS = 5
SEGMENT = 100_000  # characters looked at together, so that a long text needs no more memory
BLOCK = 512  # shingles that are hashed at once, so that all their hashes stay in the cache


class MinHash:
    """Makes signatures; those of one number of permutations can be compared, wherever made."""

    def __init__(self, num_permutations: int) -> None:
        random = random_at(0, "minhash", num_permutations)
        shape = (num_permutations, 1)
        self.salts = random.integers(0, 2**32, shape, dtype=np.uint32)
        self.factors = random.integers(0, 2**32, shape, dtype=np.uint32) | np.uint32(1)

    def signature(self, text: str) -> np.ndarray:
        """Return the lower half of the least hash under every permutation, [P] uint16."""
        least = np.full(len(self.salts), 2**32 - 1, np.uint32)
        for start in range(0, len(text), SEGMENT):
            hashes = shingles(text[start : start + SEGMENT])
            for first in range(0, len(hashes), BLOCK):
                block = hashes[first : first + BLOCK] ^ self.salts
                block *= self.factors
                np.minimum(least, block.min(axis=1), out=least)
        return least.astype(np.uint16)


def likeness(signature: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimate the Jaccard similarity of a signature [P] and each of several others [N, P]."""
    return (others == signature).mean(axis=1)


def shingles(text: str) -> np.ndarray:
    """Return a hash of every run of words; a short text is one run. Case does not count."""
    codes = code_points(text.lower())
    words = _word_hashes(codes)
    if not len(words):  # nothing but marks: let all of them be a word
        words = _sums(codes, np.zeros(min(len(codes), 1), np.int64))
    size = min(SHINGLE_WORDS, len(words))
    runs = np.zeros(len(words) - size + 1 if size else 0, np.uint64)
    for place in range(size):
        runs = mix(runs + words[place : place + len(runs)])
    return (runs >> np.uint64(32)).astype(np.uint32)


def mix(values: np.ndarray) -> np.ndarray:
    """Spread every bit of uint64 values over all of their bits."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _word_hashes(codes: np.ndarray) -> np.ndarray:
    is_letter, begins = find_words(codes)
    letters = np.flatnonzero(is_letter)
    return _sums(codes.take(letters), np.flatnonzero(begins.take(letters)))


def _sums(codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a hash of the characters from each start to the next, their order counted."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    places = np.arange(len(codes), dtype=np.uint64)
    places -= np.repeat(starts.astype(np.uint64), np.diff(starts, append=len(codes)))
    places <<= np.uint64(32)
    places += codes
    return mix(np.add.reduceat(mix(places), starts))
