"""Randomness without hidden state: every draw is a function of a seed and a place."""

import hashlib

import numpy as np


def derive(seed: int, *place: int | str) -> int:
    """Return a 63-bit seed for one place (a step, an epoch, a parameter's name) of a run."""
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def random_at(seed: int, *place: int | str) -> np.random.Generator:
    """Return a fresh generator for one place of a run."""
    return np.random.Generator(np.random.Philox(key=derive(seed, *place)))
