"""A fine-tuning batch is a pure function of the examples, the seed and the step."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.data.example_batches import ExampleBatches, length_sorted_batches
from bertworks.data.packing import Features, Goal


def make_windows(count: int, *, seed: int = 3) -> list[list[Features]]:
    """Draw examples of one to three windows, whose tokens all name their example."""
    random = random_at(seed, "windows")
    return [
        [
            Features(
                np.full(size, number),
                np.zeros(size, np.int64),
                {"classify": Goal((number % 2,), weight=1 / count_windows)},
                number,
            )
            for size in random.integers(1, 14, size=count_windows)
        ]
        for number, count_windows in enumerate(random.integers(1, 4, size=count))
    ]


def tokens_of(parts: list[Batch]) -> list[int]:
    return torch.cat([part.tokens for part in parts]).tolist()


def test_every_example_comes_once_an_epoch_with_all_its_windows() -> None:
    windows = make_windows(23)
    batches = ExampleBatches(windows, batch_size=5, seed=7)
    assert batches.steps_per_epoch == 5
    orders = []
    for epoch in range(3):
        steps = [batches.at(epoch * 5 + step) for step in range(5)]
        examples = [sorted({i for part in parts for i in part.ids}) for parts in steps]
        assert [len(found) for found in examples] == [5, 5, 5, 5, 3]
        assert sorted(i for found in examples for i in found) == list(range(23))
        for parts, found in zip(steps, examples, strict=True):
            expected = sorted(t for i in found for w in windows[i] for t in w.tokens.tolist())
            assert sorted(tokens_of(parts)) == expected
            assert sum(part.targets["classify"].count for part in parts) == pytest.approx(
                len(found)
            )
        orders.append(examples)
    assert orders[0] != orders[1] != orders[2]


def test_a_batch_does_not_depend_on_what_was_asked_before() -> None:
    windows = make_windows(23)
    asked_first = tokens_of(ExampleBatches(windows, batch_size=5, seed=7).at(8))
    batches = ExampleBatches(windows, batch_size=5, seed=7)
    for step in (3, 19, 0):
        batches.at(step)
    assert tokens_of(batches.at(8)) == asked_first
    assert tokens_of(ExampleBatches(windows, batch_size=5, seed=8).at(8)) != asked_first


@pytest.mark.parametrize("accumulate", [2, 3, 100])
def test_accumulation_splits_the_same_texts(accumulate: int) -> None:
    windows = make_windows(23)
    whole = ExampleBatches(windows, batch_size=7, seed=7).at(2)
    parts = ExampleBatches(windows, batch_size=7, accumulate=accumulate, seed=7).at(2)
    assert len(parts) == min(
        accumulate, len(set(whole[0].ids))
    )  # the windows of a text stay together
    assert sorted(tokens_of(parts)) == sorted(tokens_of(whole))
    counts = sum(part.targets["classify"].count for part in parts)
    assert counts == pytest.approx(whole[0].targets["classify"].count)


@given(st.lists(st.integers(1, 17), min_size=1, max_size=31), st.integers(1, 40))
def test_inference_batches_hold_every_text_once_with_its_place(
    lengths: list[int], budget: int
) -> None:
    texts = [Features(np.full(n, i), np.zeros(n, np.int64)) for i, n in enumerate(lengths)]
    batches = length_sorted_batches(texts, budget=budget)
    places = np.concatenate([found for found, _ in batches])
    assert sorted(places.tolist()) == list(range(len(lengths)))
    for found, batch in batches:
        assert batch.tokens[batch.layout.first_tokens()].tolist() == found.tolist()
        assert sum(batch.layout.lengths) <= budget or len(found) == 1
    ordered = [length for _, batch in batches for length in batch.layout.lengths]
    assert ordered == sorted(lengths)
