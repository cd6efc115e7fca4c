"""A fine-tuning batch is a pure function of the examples, the seed and the step."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.data.example_batches import (
    ExampleBatches,
    MixedBatches,
    length_sorted_batches,
    share_steps,
)
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


# Several tasks


def mixed(*, temperature: float = 1.0, seed: int = 7) -> MixedBatches:
    """Mix three tasks of 23, 9 and 3 examples; the name of a task is in its goals."""
    tasks = []
    for number, count in enumerate((23, 9, 3)):
        windows = [
            [replace(window, goals={f"task{number}": Goal((1,))}) for window in own]
            for own in make_windows(count, seed=number)
        ]
        tasks.append(ExampleBatches(windows, batch_size=4, seed=number))
    return MixedBatches(tasks, temperature=temperature, seed=seed)


def task_of(parts: list[Batch]) -> str:
    (name,) = parts[0].targets
    return name


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0, 1e6])
def test_each_step_is_one_tasks_and_its_examples_all_come_before_any_comes_again(
    temperature: float,
) -> None:
    batches = mixed(temperature=temperature)
    seen: dict[str, list[int]] = {}
    for step in range(40):
        parts = batches.at(step)
        seen.setdefault(task_of(parts), []).extend(sorted(set(parts[0].ids)))
    assert len(seen) == 3
    for name, count in (("task0", 23), ("task1", 9), ("task2", 3)):
        ids = seen[name]
        for first in range(0, len(ids) - count + 1, count):
            assert sorted(ids[first : first + count]) == list(range(count))


def test_at_a_temperature_of_one_every_example_comes_once_an_epoch() -> None:
    batches = mixed()
    assert (batches.steps_per_epoch, batches.steps_of_task) == (10, [6, 3, 1])
    orders = []
    for epoch in range(3):
        names = [task_of(batches.at(10 * epoch + step)) for step in range(10)]
        assert [names.count(name) for name in ("task0", "task1", "task2")] == [6, 3, 1]
        orders.append(names)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_the_examples_of_steps_are_counted_as_they_come(temperature: float) -> None:
    batches = mixed(temperature=temperature)
    alone = ExampleBatches(make_windows(23), batch_size=4)
    for made in (batches, alone):
        seen = 0
        for step in range(30):
            assert made.num_seen(step) == seen
            seen += len({i for part in made.at(step) for i in part.ids})
        assert made.num_seen(30) == seen


def test_a_mixed_batch_does_not_depend_on_what_was_asked_before() -> None:
    batches = mixed()
    later = [batches.at(step) for step in (17, 3, 28)]
    for step, parts in zip((17, 3, 28), later, strict=True):
        alone = mixed().at(step)
        assert task_of(alone) == task_of(parts)
        assert tokens_of(alone) == tokens_of(parts)
    others = [task_of(mixed(seed=8).at(step)) for step in range(20)]
    assert others != [task_of(batches.at(step)) for step in range(20)]


def test_examples_that_are_cut_again_are_so_for_each_epoch() -> None:
    windows, longer = make_windows(23), 5

    def recut(epoch: int, example: int) -> list[Features]:
        tokens = np.full(longer + epoch, 100 * epoch + example)
        return [replace(windows[example][0], tokens=tokens, segments=np.zeros_like(tokens))]

    batches = ExampleBatches(windows, batch_size=5, seed=7, recut=recut)
    plain = ExampleBatches(windows, batch_size=5, seed=7)
    for step in (0, 4, 5, 13):
        epoch = step // 5
        found = {i for part in batches.at(step) for i in part.ids}
        assert found == {i for part in plain.at(step) for i in part.ids}
        expected = sorted(100 * epoch + i for i in found for _ in range(longer + epoch))
        assert sorted(tokens_of(batches.at(step))) == expected


@given(st.lists(st.integers(1, 900), min_size=1, max_size=7), st.floats(0.2, 50))
def test_steps_are_shared_out_whole_and_none_goes_away_empty(
    sizes: list[int], temperature: float
) -> None:
    steps = share_steps(sizes, temperature=temperature)
    assert sum(steps) == sum(sizes)
    assert min(steps) >= 1
    by_size = sorted(zip(sizes, steps, strict=True))
    assert all(small <= large + 1 for (_, small), (_, large) in pairwise(by_size))
    assert share_steps(sizes, temperature=1.0) == sizes


def test_a_hot_mix_is_even_and_a_cold_one_is_not() -> None:
    assert share_steps([90, 9, 1], temperature=1e9) == [34, 33, 33]
    assert share_steps([90, 9, 1], temperature=2.0) == [70, 22, 8]


def test_short_texts_count_as_much_as_they_are_told_to() -> None:
    windows = [own[0] for own in make_windows(50)]
    for least in (0, 6, 100):
        batches = length_sorted_batches(windows, budget=30, least=least)
        assert sorted(np.concatenate([places for places, _ in batches])) == list(range(50))
        most = 30 // max(least, 1) or 1
        assert max(batch.num_texts for _, batch in batches) <= most
