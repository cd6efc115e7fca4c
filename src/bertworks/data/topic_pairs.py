"""Text-matching pairs from topics: two passages, and whether they belong together."""

from collections.abc import Mapping, Sequence

import numpy as np

from bertworks.core.seeds import derive, random_at
from bertworks.data.examples import TextExample

SAME, OTHER = "same", "other"


def split_names(names: Sequence[str], shares: Mapping[str, float]) -> dict[str, list[str]]:
    """Deal names into parts by their hash, so that a name never moves when others come or go."""
    parts: dict[str, list[str]] = {part: [] for part in shares}
    edges = np.cumsum(list(shares.values()))
    for name in names:
        place = derive(0, name) / 2**63 * edges[-1]
        parts[list(shares)[int(np.searchsorted(edges, place, side="right"))]].append(name)
    return parts


def make_pairs(topics: Mapping[str, Sequence[str]], *, count: int, seed: int) -> list[TextExample]:
    """Draw pairs of passages, half of them from one topic and half from two.

    Both halves draw their first passage alike, so that a passage by itself tells nothing.
    """
    random = random_at(seed, "pairs", count)
    names = [name for name, passages in topics.items() if len(passages) > 1]
    sizes = np.array([len(topics[name]) for name in names], dtype=float)
    weights = np.sqrt(sizes) / np.sqrt(sizes).sum()  # large topics lead, but do not rule
    pairs = []
    for number in range(count):
        is_same = number % 2 == 0
        first, other = random.choice(len(names), size=2, replace=False, p=weights)
        here = random.permutation(len(topics[names[first]]))
        text = topics[names[first]][here[0]]
        passages = topics[names[first if is_same else other]]
        index = here[1] if is_same else random.integers(len(passages))
        label = SAME if is_same else OTHER
        pairs.append(TextExample(text, passages[int(index)], label, line=number + 1))
    return pairs
