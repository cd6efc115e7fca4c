"""Randomness without hidden state: every draw is a function of a seed and a place."""

import hashlib

import numpy as np


def derive(seed: int, *place: int | str) -> int:
    """Return a 63-bit seed for one place (a step, an epoch, a parameter's name) of a run."""
    text = _named(seed, *place)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def random_at(seed: int, *place: int | str) -> np.random.Generator:
    """Return a fresh generator for one place of a run."""
    return np.random.Generator(np.random.Philox(key=derive(seed, *place)))


def bytes_at(seed: int, *place: int | str, count: int) -> bytes:
    """Return so many bytes for one place of a run: quicker than a generator where few are drawn."""
    return hashlib.shake_128(_named(seed, *place)).digest(count)


def _named(seed: int, *place: int | str) -> bytes:
    return "/".join(map(str, (seed, *place))).encode()
