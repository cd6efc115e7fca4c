"""What the training tests share: small networks, batches by number, run folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.pieces import IGNORE
from bertworks.core.seeds import random_at
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.run import Run

VOCAB_SIZE = 41


class SmallBatches:
    """Seven texts a step, each with its own number of hidden pieces, some without a pair."""

    def __init__(self, *, accumulate: int = 1, seed: int = 0) -> None:
        self.accumulate = accumulate
        self.seed = seed

    def at(self, step: int) -> list[Batch]:
        random = random_at(self.seed, "text", step)
        texts = [self._text(random, 10 * step + number) for number in range(7)]
        return [flatten(texts[part :: self.accumulate]) for part in range(self.accumulate)]

    def _text(self, random: np.random.Generator, example: int) -> Features:
        length = int(random.integers(3, 10))
        tokens = random.integers(5, VOCAB_SIZE, size=length)
        places = np.sort(random.permutation(length)[: random.integers(1, length)])
        label = int(random.choice((0, 1, IGNORE)))
        goals = {
            "fill_mask": Goal(random.integers(5, VOCAB_SIZE, size=len(places)), places),
            "next_sentence": Goal((label,)),
        }
        return Features(tokens, np.arange(length) // 4 % 2, goals, example)


@pytest.fixture
def make_model() -> Callable[..., TaskModel]:
    """Make a network with odd sizes, three heads of seven, for both pre-training objectives."""

    def make(*, dropout: float = 0.0, seed: int = 0) -> TaskModel:
        config = EncoderConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=21,
            num_layers=2,
            num_heads=3,
            feed_forward_size=29,
            max_positions=11,
        ).with_dropout(dropout)
        tasks = [make_task("fill_mask"), make_task("next_sentence")]
        return TaskModel(config, tasks, seed=seed, deviation=0.2)

    return make


@pytest.fixture
def make_batches() -> type[SmallBatches]:
    """Make batches that are a pure function of (seed, step)."""
    return SmallBatches


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Open a run folder by name, with whatever settings."""

    def make(name: str = "run", *, resume: bool = False, **settings: Any) -> Run:
        return Run(tmp_path / name, origin=Origin(settings=settings), resume=resume)

    return make


@pytest.fixture
def weights_of() -> Callable[[nn.Module], dict[str, torch.Tensor]]:
    """Copy a model's parameters, to compare them later."""
    return lambda model: {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.fixture
def same_bits() -> Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], bool]:
    """Tell whether two sets of tensors are the same, bit for bit, whatever is not a number."""

    def compare(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
        return first.keys() == second.keys() and all(
            first[name].numpy().tobytes() == second[name].numpy().tobytes() for name in first
        )

    return compare
