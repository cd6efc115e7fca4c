"""Texts of many lengths and kinds for the tests of tasks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from bertworks.tasks.task import Answer, Task

WORDS = ("the", "cat", "sat", "dog", "hill", "Katze", "läuft", "北京", "中文", "14", "!", "unseen")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Make a hundred texts, from one word to several windows long."""
    random = np.random.default_rng(17)
    lengths = [1, 2, 5, 150, 300, *random.integers(1, 90, size=95)]
    return [" ".join(random.choice(WORDS, size=length)) for length in lengths]


@pytest.fixture(scope="session")
def score() -> Callable[..., dict[str, float]]:
    """Return a way to score answers by the gold of their examples."""

    def score(task: Task, answers: Sequence[Answer], examples: Sequence[Any]) -> dict[str, float]:
        scorer = task.scorer()
        for example, answer in zip(examples, answers, strict=True):
            scorer.add(example, answer)
        return scorer.metrics()

    return score
