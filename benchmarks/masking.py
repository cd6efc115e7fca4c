"""Hiding pieces for pre-training: microseconds a step for each kind of masking, on one core.

    python benchmarks/masking.py [--tokens 65536] [--tokens-per-second 600000] [--repeats 30]

Texts are of natural lengths, from 16 to 128 pieces, and three pieces in four begin a word. With
the rate of a GPU, the share of its step that one process needs for hiding is shown beside: below
100 % a single process keeps up, and a run with workers hides while the GPU computes.
"""

import argparse
import statistics
import time
from typing import get_args

import numpy as np

from bertworks.core.pieces import SpecialIds
from bertworks.data.masking import Masking, MaskKind

VOCABULARY = 30_000
SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)


def main() -> None:
    """Time every kind on the same texts and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--tokens-per-second", type=float, help="of a GPU that waits for them")
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    tokens, lengths, begins_word = texts(options.tokens)
    print(f"{len(tokens):,} tokens in {len(lengths):,} texts, median of {options.repeats}")
    for kind in get_args(MaskKind):
        masking = Masking(SPECIALS, VOCABULARY, kind=kind)
        seconds = []
        for seed in range(options.repeats + 1):
            random = np.random.default_rng(seed)
            started = time.perf_counter()
            masking.hide(tokens, lengths, random, begins_word=begins_word)
            seconds.append(time.perf_counter() - started)
        taken = statistics.median(seconds[1:])  # the first one fills tables
        print(f"{kind:6} {taken * 1e6:8.0f} µs{share(taken, len(tokens), options)}")


def texts(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw texts of at least so many tokens together, and where words begin in them."""
    random = np.random.default_rng(0)
    lengths = random.integers(16, 129, size=count // 16)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), count)) + 1]
    tokens = random.integers(5, VOCABULARY, size=lengths.sum())
    ends = np.cumsum(lengths)
    tokens[ends - lengths], tokens[ends - 1] = SPECIALS.first, SPECIALS.separator
    return tokens, lengths, random.random(len(tokens)) < 0.75


def share(seconds: float, num_tokens: int, options: argparse.Namespace) -> str:
    """Say how much of a GPU's step so many seconds are, if its rate is known."""
    if options.tokens_per_second is None:
        return ""
    return f" {100 * seconds * options.tokens_per_second / num_tokens:6.1f} % of a step"


if __name__ == "__main__":
    main()
