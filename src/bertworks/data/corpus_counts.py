"""Counts of a corpus by which a run is judged: how often each piece comes, how much comes twice."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from bertworks.data.passages import Passages
from bertworks.data.shards import Shards

MOST_PASSAGES = 100_000  # looked at, spread over the corpus
AT_ONCE = 1000  # passages


@dataclass(frozen=True)
class CorpusCounts:
    """What was counted."""

    pieces: np.ndarray  # [V] how often each comes
    duplicate_share: float  # of the passages

    @classmethod
    def of(cls, shards: Shards, passages: Passages) -> Self:
        """Count a corpus, or a sample of a large one."""
        return cls(count_pieces(shards, passages), duplicate_share(shards, passages))


def count_pieces(shards: Shards, passages: Passages) -> np.ndarray:
    """Return how often each piece stands in the passages, or in a sample of many, [V]."""
    spans, counts = _some(passages), np.zeros(shards.vocab_size, dtype=np.int64)
    for first in range(0, len(spans), AT_ONCE):
        pieces = [shards.tokens(start, end) for start, end in spans[first : first + AT_ONCE]]
        counts += np.bincount(np.concatenate(pieces), minlength=shards.vocab_size)
    return counts


def duplicate_share(shards: Shards, passages: Passages) -> float:
    """Return the share of the passages whose pieces are those of another one before it."""
    spans = _some(passages)
    hashes = {
        hashlib.blake2b(shards.tokens(start, end).tobytes(), digest_size=8).digest()
        for start, end in spans
    }
    return (len(spans) - len(hashes)) / max(len(spans), 1)


def _some(passages: Passages) -> np.ndarray:
    """Return the token spans of all passages, or of the first of each stretch of them."""
    spans = passages.singles().first
    return spans[:: -(-len(spans) // MOST_PASSAGES) or 1]
