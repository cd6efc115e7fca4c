"""Attention over flat batches: every kernel against the published formula."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertworks.core.batch import Layout
from bertworks.model.attention import attend, attend_by_run, attend_plainly, attend_varlen

HEADS, HEAD_SIZE = 3, 7

# Runs of neighbours of equal length, text by text.
lengths_in_runs = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 5, 8, 13, 31])), min_size=1, max_size=5
).map(lambda runs: tuple(length for count, length in runs for _ in range(count)))
seeds = st.integers(0, 2**31)


def draw_qkv(lengths: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(sum(lengths), 3, HEADS, HEAD_SIZE, generator=random, dtype=dtype)


@given(lengths_in_runs, seeds)
def test_attention_by_run_equals_the_plain_formula(lengths: tuple[int, ...], seed: int) -> None:
    qkv, layout = draw_qkv(lengths, seed), Layout.of(lengths)
    torch.testing.assert_close(
        attend_by_run(qkv, layout), attend_plainly(qkv, layout), atol=1e-5, rtol=0
    )


@given(lengths_in_runs, seeds)
def test_gradients_by_run_equal_those_of_the_plain_formula(
    lengths: tuple[int, ...], seed: int
) -> None:
    layout = Layout.of(lengths)
    upstream = draw_qkv(lengths, seed + 1)[:, 0]
    gradients = []
    for kernel in (attend_by_run, attend_plainly):
        qkv = draw_qkv(lengths, seed).requires_grad_()
        gradients += torch.autograd.grad(kernel(qkv, layout), qkv, upstream)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [attend_by_run, attend_plainly])
def test_gradients_agree_with_finite_differences(kernel) -> None:
    lengths = (1, 2, 2, 3)
    qkv = draw_qkv(lengths, seed=3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: kernel(x, Layout.of(lengths)), qkv)


@given(lengths_in_runs, seeds)
def test_the_order_of_texts_does_not_matter(lengths: tuple[int, ...], seed: int) -> None:
    texts = draw_qkv(lengths, seed).split(lengths)
    order = np.random.default_rng(seed).permutation(len(lengths))
    shuffled = tuple(lengths[i] for i in order)
    straight = attend(torch.cat(texts), Layout.of(lengths)).split(lengths)
    mixed = attend(torch.cat([texts[i] for i in order]), Layout.of(shuffled)).split(shuffled)
    for place, i in enumerate(order):
        torch.testing.assert_close(mixed[place], straight[i], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [attend, attend_by_run, attend_plainly])
def test_a_text_never_looks_at_its_neighbour(kernel) -> None:
    lengths = (5, 1, 5, 7)
    qkv, layout = draw_qkv(lengths, seed=5), Layout.of(lengths)
    disturbed = qkv.clone()
    disturbed[:5] += 10.0
    before, after = kernel(qkv, layout), kernel(disturbed, layout)
    assert torch.equal(before[5:], after[5:])
    # The same disturbance is seen when the layout puts both texts into one.
    merged = Layout.of((6, 5, 7))
    assert (kernel(qkv, merged)[5] - kernel(disturbed, merged)[5]).abs().max() > 1e-2


def test_a_text_of_one_token_gathers_its_own_value() -> None:
    qkv = draw_qkv((1,), seed=6)
    assert torch.equal(attend(qkv, Layout.of((1,))), qkv[:, 2])


def test_large_scores_stay_finite() -> None:
    lengths = (3, 5)
    qkv = draw_qkv(lengths, seed=7) * 1e4
    assert attend(qkv, Layout.of(lengths)).isfinite().all()


def test_dropout_inside_attention_follows_the_seed() -> None:
    lengths = (5, 5, 3)
    qkv, layout = draw_qkv(lengths, seed=8), Layout.of(lengths)

    def drop(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return attend(qkv, layout, dropout=0.5)

    assert torch.equal(drop(1), drop(1))
    assert not torch.equal(drop(1), drop(2))
    assert not torch.allclose(drop(1), attend(qkv, layout))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_flat_cuda_kernel_equals_the_plain_formula() -> None:
    lengths = (1, 5, 5, 31, 130)
    layout = Layout.of(lengths).to(torch.device("cuda"))
    random = torch.Generator().manual_seed(9)
    drawn = torch.randn(sum(lengths), 3, HEADS, 64, generator=random)
    results = []
    for kernel, dtype in ((attend_varlen, torch.bfloat16), (attend_plainly, torch.float32)):
        qkv = drawn.to("cuda", dtype).requires_grad_()
        out = kernel(qkv, layout)
        out.float().square().sum().backward()
        results.append((out.detach().float(), qkv.grad.float()))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=5e-2, rtol=5e-2)
