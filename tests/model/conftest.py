"""Batches of random texts for the tests of the network."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from bertworks.data.packing import Features

MakeTexts = Callable[..., list[Features]]


@pytest.fixture(scope="session")
def make_texts() -> MakeTexts:
    """Return texts of the wanted lengths with random tokens and a second segment in some."""

    def make(lengths: Sequence[int], *, vocab_size: int, seed: int = 0) -> list[Features]:
        random = np.random.default_rng(seed)
        return [
            Features(
                random.integers(vocab_size, size=length),
                (np.arange(length) >= random.integers(1, length + 2)).astype(np.int64),
                example=number,
            )
            for number, length in enumerate(lengths)
        ]

    return make
