"""A flat batch knows where its texts lie and how much there is to find."""

from itertools import accumulate

import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Batch, Layout, Target
from bertworks.core.pieces import IGNORE

CPU = torch.device("cpu")
ELSEWHERE = torch.device("meta")  # a device whose numbers cannot be read, as a busy GPU's


@given(st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=13))
def test_runs_are_the_texts_in_order_as_rectangles(lengths: list[int]) -> None:
    layout = Layout.of(tuple(lengths))
    assert [length for count, length in layout.runs for _ in range(count)] == lengths
    neighbours = zip(layout.runs, layout.runs[1:], strict=False)
    assert all(left[1] != right[1] for left, right in neighbours)
    assert layout.starts.tolist() == [0, *accumulate(lengths)]
    assert layout.first_tokens().tolist() == [0, *accumulate(lengths[:-1])]
    assert layout.longest == max(lengths)
    assert layout.starts.dtype == torch.int32


def test_equal_lengths_that_are_no_neighbours_stay_apart() -> None:
    assert Layout.of((5, 5, 3, 5)).runs == ((2, 5), (1, 3), (1, 5))


def test_a_target_counts_what_there_is_to_find() -> None:
    values = torch.tensor([3, IGNORE, 0, 7, IGNORE])
    assert Target(values).count == 3
    weights = torch.tensor([0.5, 9.0, 0.25, 1.0, 9.0])
    assert Target(values, weights=weights).count == 1.75
    assert Target(torch.full((5,), IGNORE)).count == 0


def test_a_target_keeps_its_count_on_a_device_that_cannot_be_asked() -> None:
    target = Target(
        torch.tensor([3, IGNORE, 0]), torch.tensor([1, 2, 4]), torch.tensor([0.5, 1.0, 0.25])
    )
    moved = target.to(ELSEWHERE)
    assert moved.count == target.count == 0.75
    assert moved.values.device == ELSEWHERE
    assert moved.at is not None
    assert moved.at.device == ELSEWHERE
    assert target.values.device == CPU


def test_a_batch_moves_as_a_whole_and_leaves_the_original() -> None:
    batch = Batch(
        tokens=torch.arange(5),
        positions=torch.tensor([0, 1, 0, 1, 2]),
        segments=torch.zeros(5, dtype=torch.int64),
        layout=Layout.of((2, 3)),
        targets={"task": Target(torch.tensor([1, IGNORE]))},
        ids=(7, 11),
    )
    moved = batch.to(ELSEWHERE)
    tensors = (moved.tokens, moved.positions, moved.segments, moved.layout.starts)
    assert {tensor.device for tensor in tensors} == {ELSEWHERE}
    assert moved.targets["task"].values.device == ELSEWHERE
    assert (moved.num_texts, moved.ids, moved.layout.lengths) == (2, (7, 11), (2, 3))
    assert moved.layout.runs == batch.layout.runs
    assert batch.tokens.device == CPU
