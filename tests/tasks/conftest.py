"""Texts of many lengths and kinds for the tests of tasks."""

import numpy as np
import pytest

WORDS = ("the", "cat", "sat", "dog", "hill", "Katze", "läuft", "北京", "中文", "14", "!", "unseen")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Make a hundred texts, from one word to several windows long."""
    random = np.random.default_rng(17)
    lengths = [1, 2, 5, 150, 300, *random.integers(1, 90, size=95)]
    return [" ".join(random.choice(WORDS, size=length)) for length in lengths]
