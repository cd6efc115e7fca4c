"""Labels in a row: the likelihood of windows is that of all paths counted out."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE
from bertworks.model.chain import chain_loss, log_partition

LABELS = 3
counts = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def draw_rows(counts: list[int], seed: int) -> torch.Tensor:
    """Draw scores between labels; the first of each window are the same after every label."""
    random = torch.Generator().manual_seed(seed)
    rows = 2 * torch.randn(sum(counts), LABELS, LABELS, generator=random, dtype=torch.float64)
    for first in itertools.accumulate([0, *counts[:-1]]):
        rows[first] = rows[first, :1]
    return rows


def path_score(rows: torch.Tensor, path: tuple[int, ...]) -> float:
    """Add up the scores along one path through a window."""
    pairs = zip([0, *path], path, strict=False)
    return sum(float(row[before, label]) for row, (before, label) in zip(rows, pairs, strict=False))


def by_counting(rows: torch.Tensor, labels: tuple[int, ...]) -> float:
    """Return the negative log-likelihood of a path among all paths, one by one."""
    paths = itertools.product(range(LABELS), repeat=len(rows))
    total = math.fsum(math.exp(path_score(rows, path)) for path in paths)
    return math.log(total) - path_score(rows, labels)


@settings(max_examples=25)
@given(counts, st.integers(0, 99))
def test_the_loss_is_the_likelihood_among_all_paths(counts: list[int], seed: int) -> None:
    rows = draw_rows(counts, seed)
    values = torch.randint(LABELS, (sum(counts),), generator=torch.Generator().manual_seed(seed))
    groups = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    windows = zip(rows.split(counts), values.split(counts), strict=True)
    expected = sum(by_counting(part, tuple(own.tolist())) for part, own in windows)
    found = chain_loss(rows.flatten(1), Target(values, groups=groups))
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@given(counts, st.integers(0, 99))
def test_windows_end_to_end_are_one_chain_that_scores_as_they_do(counts, seed: int) -> None:
    rows = draw_rows(counts, seed)
    apart, joined = log_partition(rows, counts), log_partition(rows, [sum(counts)])
    assert float(apart.sum()) == pytest.approx(float(joined), rel=1e-9)


def test_gradients_are_those_of_small_changes_and_finite() -> None:
    rows = draw_rows([3, 1, 4], seed=5).flatten(1).requires_grad_()
    values, groups = torch.tensor([0, 2, 1, 1, 0, 0, 2, 2]), torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])
    target = Target(values, groups=groups)
    chain_loss(rows, target).backward()
    assert rows.grad.isfinite().all()
    for place, column in ((1, 5), (4, 0), (7, 8)):
        moved = rows.detach().clone()
        moved[place, column] += 1e-2
        back = rows.detach().clone()
        back[place, column] -= 1e-2
        if place == 4:  # the first of a window moves after every label
            moved[4], back[4] = (r[4].view(3, 3)[:1].expand(3, 3).flatten() for r in (moved, back))
        slope = (chain_loss(moved, target) - chain_loss(back, target)) / 2e-2
        wanted = rows.grad[place].view(3, 3)
        told = wanted[:, column % 3].sum() if place == 4 else wanted.flatten()[column]
        assert float(slope) == pytest.approx(float(told), abs=2e-3)


def test_scores_far_apart_stay_finite() -> None:
    rows = (1e4 * draw_rows([4, 2], seed=1)).flatten(1).float().requires_grad_()
    loss = chain_loss(
        rows, Target(torch.tensor([0, 1, 2, 0, 1, 2]), groups=torch.tensor([0] * 4 + [1] * 2))
    )
    loss.backward()
    assert loss.isfinite()
    assert rows.grad.isfinite().all()


def test_a_window_that_is_not_known_tells_nothing() -> None:
    rows, groups = draw_rows([2, 3], seed=3).flatten(1), torch.tensor([0, 0, 1, 1, 1])
    known = torch.tensor([1, 0, 2, 2, 0])
    whole = chain_loss(rows, Target(known, groups=groups))
    first = chain_loss(rows[:2], Target(known[:2], groups=groups[:2]))
    hidden = known.where(torch.tensor([True, True, True, False, True]), IGNORE)
    assert 0 < float(first) < float(whole)
    torch.testing.assert_close(chain_loss(rows, Target(hidden, groups=groups)), first)
    silent = chain_loss(rows, Target(torch.full((5,), IGNORE), groups=groups))
    assert float(silent) == 0
    nothing = Target(known[:0], groups=groups[:0])
    assert float(chain_loss(rows[:0], nothing)) == 0
