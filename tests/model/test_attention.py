"""Attention over flat batches: every kernel against the published formula."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.model import attention
from bertworks.model.attention import (
    LONG_ENOUGH,
    Across,
    Sight,
    attend,
    attend_banded,
    attend_by_run,
    attend_plainly,
)
from bertworks.model.positions import Turn, rotate

HEADS, HEAD_SIZE = 3, 7
TINY_RATE = 1e-12  # takes the way with dropout, and drops nothing

# Runs of neighbours of equal length, text by text.
lengths_in_runs = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 5, 8, 13, 31])), min_size=1, max_size=5
).map(lambda runs: tuple(length for count, length in runs for _ in range(count)))
windows = st.none() | st.integers(1, 33)
seeds = st.integers(0, 2**31)
Kernel = Callable[..., Tensor]


def draw_qkv(
    lengths: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(sum(lengths), HEADS, HEAD_SIZE, generator=random, dtype=dtype) for _ in range(3)
    )


def attend_packed(q: Tensor, k: Tensor, v: Tensor, sight: Sight, **more: float) -> Tensor:
    return attend(torch.stack([q, k, v], dim=1), sight, **more)


def draw_scores(longest: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(HEADS, longest, longest, generator=random)


def with_gradients(kernel: Kernel, drawn: tuple[Tensor, ...], sight: Sight, **more) -> list[Tensor]:
    """Return what a kernel gathers, and the gradients of what it reads."""
    read = [x.clone().requires_grad_() for x in drawn]
    if sight.scores is not None:
        read.append(sight.scores.clone().requires_grad_())
        sight = replace(sight, scores=read[-1])
    gathered = kernel(*read[:3], sight, **more)
    upstream = torch.randn(gathered.shape, generator=torch.Generator().manual_seed(17))
    return [gathered.detach(), *torch.autograd.grad(gathered, read, upstream)]


@given(lengths_in_runs, windows, seeds)
def test_attention_by_run_equals_the_plain_formula_forward_and_backward(
    lengths: tuple[int, ...], window: int | None, seed: int
) -> None:
    drawn, sight = draw_qkv(lengths, seed), Sight(Layout.of(lengths), window=window)
    expected = with_gradients(attend_plainly, drawn, sight)
    for rate in (0.0, TINY_RATE):
        found = with_gradients(attend_by_run, drawn, sight, dropout=rate)
        for ours, plain in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


@given(lengths_in_runs, st.booleans(), seeds)
def test_causal_attention_by_run_equals_the_plain_formula_forward_and_backward(
    lengths: tuple[int, ...], has_scores: bool, seed: int
) -> None:
    scores = draw_scores(max(lengths), seed) if has_scores else None
    drawn, sight = draw_qkv(lengths, seed), Sight(Layout.of(lengths), scores=scores, is_causal=True)
    expected = with_gradients(attend_plainly, drawn, sight)
    for rate in (0.0, TINY_RATE):
        found = with_gradients(attend_by_run, drawn, sight, dropout=rate)
        for ours, plain in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [attend_by_run, attend_plainly])
@pytest.mark.parametrize("is_causal", [True, False])
def test_what_follows_is_seen_unless_attention_is_causal(kernel: Kernel, is_causal: bool) -> None:
    lengths = (5, 5, 9)
    q, k, v = draw_qkv(lengths, seed=2)
    sight = Sight(Layout.of(lengths), is_causal=is_causal)
    before = kernel(q, k, v, sight)
    k[3], v[3] = 2.0, -1.0  # the fourth token of the first text
    after = kernel(q, k, v, sight)
    changed = [not torch.equal(a, b) for a, b in zip(before, after, strict=True)]
    assert changed == [not is_causal] * 3 + [True] * 2 + [False] * 14


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.0, TINY_RATE])
def test_banded_attention_equals_the_plain_formula_around_its_window(
    window: int, rate: float
) -> None:
    for length in (1, window, window + 1, window + 2, 2 * window, 3 * window + 5):
        lengths = (length,) * 2
        drawn, sight = draw_qkv(lengths, seed=length), Sight(Layout.of(lengths), window=window)

        def banded(*qkv: Tensor, window: int = window, length: int = length) -> Tensor:
            texts = (x.unflatten(0, (2, length)).transpose(1, 2) for x in qkv[:3])
            found = attend_banded(*texts, window=window, dropout=rate)
            return found.transpose(1, 2).flatten(0, 1)

        expected = with_gradients(attend_plainly, drawn, sight)
        by_run = with_gradients(attend_by_run, drawn, sight, dropout=rate)
        only = with_gradients(lambda q, k, v, _, kernel=banded: kernel(q, k, v), drawn, sight)
        for ours, other, plain in zip(by_run, only, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)
            torch.testing.assert_close(other, plain, atol=1e-5, rtol=0)


def test_a_token_sees_as_far_as_its_window_and_no_farther() -> None:
    q, k, v = draw_qkv((31,), seed=4)
    v.requires_grad_()
    sight = Sight(Layout.of((31,)), window=3)
    for place in (0, 2, 3, 15, 28, 30):
        (gradient,) = torch.autograd.grad(attend_by_run(q, k, v, sight)[place].sum(), v)
        seen = gradient.abs().sum((1, 2)).nonzero().flatten().tolist()
        assert seen == list(range(max(0, place - 3), min(31, place + 4)))


@pytest.mark.parametrize("rate", [0.0, TINY_RATE])
def test_the_memory_of_banded_attention_grows_with_the_length_and_not_its_square(
    rate: float,
) -> None:
    def largest(length: int, window: int | None) -> int:
        sizes = [0]

        def keep(tensor: Tensor) -> Tensor:
            sizes.append(tensor.untyped_storage().nbytes())
            return tensor

        drawn = [x.requires_grad_() for x in draw_qkv((length,), seed=5)]
        sight = Sight(Layout.of((length,)), window=window)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            attend_by_run(*drawn, sight, dropout=rate)
        return max(sizes)

    assert largest(640, window=4) <= 4 * largest(160, window=4)
    if rate:  # without dropout the library keeps no weights of whole texts
        assert largest(640, window=None) == 16 * largest(160, window=None)


@given(lengths_in_runs, seeds)
def test_scores_by_distance_are_added_in_every_kernel(lengths: tuple[int, ...], seed: int) -> None:
    drawn = draw_qkv(lengths, seed)
    sight = Sight(Layout.of(lengths), scores=draw_scores(max(lengths), seed))
    expected = with_gradients(attend_plainly, drawn, sight)
    for rate in (0.0, TINY_RATE):
        found = with_gradients(attend_by_run, drawn, sight, dropout=rate)
        for ours, plain in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


def test_scores_by_distance_change_what_is_gathered() -> None:
    drawn, layout = draw_qkv((5, 8), seed=6), Layout.of((5, 8))
    plain = attend_packed(*drawn, Sight(layout))
    assert (
        attend_packed(*drawn, Sight(layout, scores=draw_scores(8, 1))) - plain
    ).abs().max() > 1e-2
    even = torch.ones(HEADS, 8, 8)  # the same for every distance
    torch.testing.assert_close(attend_packed(*drawn, Sight(layout, scores=even)), plain)


@pytest.mark.parametrize("kernel", [attend_by_run, attend_plainly])
@pytest.mark.parametrize("window", [None, 1])
def test_gradients_agree_with_finite_differences(kernel: Kernel, window: int | None) -> None:
    lengths = (1, 2, 2, 5)
    qkv = [x.requires_grad_() for x in draw_qkv(lengths, seed=3, dtype=torch.float64)]
    sight = Sight(Layout.of(lengths), window=window)
    assert torch.autograd.gradcheck(lambda *x: kernel(*x, sight), qkv)


@given(lengths_in_runs, windows, seeds)
def test_the_order_of_texts_does_not_matter(
    lengths: tuple[int, ...], window: int | None, seed: int
) -> None:
    drawn = draw_qkv(lengths, seed)
    order = np.random.default_rng(seed).permutation(len(lengths))
    shuffled = tuple(lengths[i] for i in order)
    turned = [torch.cat([x.split(lengths)[i] for i in order]) for x in drawn]
    straight = attend_packed(*drawn, Sight(Layout.of(lengths), window=window)).split(lengths)
    mixed = attend_packed(*turned, Sight(Layout.of(shuffled), window=window)).split(shuffled)
    for place, i in enumerate(order):
        torch.testing.assert_close(mixed[place], straight[i], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [attend_packed, attend_by_run, attend_plainly])
@pytest.mark.parametrize("window", [None, 2])
def test_a_text_never_looks_at_its_neighbour(kernel: Kernel, window: int | None) -> None:
    lengths = (5, 1, 5, 7)
    drawn, sight = draw_qkv(lengths, seed=5), Sight(Layout.of(lengths), window=window)
    disturbed = [x.clone() for x in drawn]
    for x in disturbed:
        x[:5] += 10.0
    before, after = kernel(*drawn, sight), kernel(*disturbed, sight)
    assert torch.equal(before[5:], after[5:])
    # The same disturbance is seen when the layout puts both texts into one.
    merged = Sight(Layout.of((6, 5, 7)), window=window)
    assert (kernel(*drawn, merged)[5] - kernel(*disturbed, merged)[5]).abs().max() > 1e-2


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("rate", [0.0, TINY_RATE])
def test_attention_turns_queries_and_keys_but_no_values(window: int | None, rate: float) -> None:
    lengths, size = (5, 1, 9), 8
    random = torch.Generator().manual_seed(9)
    qkv = torch.randn(sum(lengths), 3, HEADS, size, generator=random).requires_grad_()
    sight = Sight(Layout.of(lengths), window=window)
    turn = Turn.of(sight.before.squeeze(-1), 9, head_size=size, base=100.0)
    found = attend(qkv, replace(sight, turn=turn), dropout=rate)
    q, k, v = qkv.unbind(1)
    expected = attend_plainly(rotate(q, turn.by_token), rotate(k, turn.by_token), v, sight)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    gradients = [torch.autograd.grad(x.square().sum(), qkv)[0] for x in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=0)
    assert (found - attend(qkv, sight)).abs().max() > 1e-2


@pytest.mark.parametrize("window", [None, 1])
def test_a_text_of_one_token_gathers_its_own_value(window: int | None) -> None:
    drawn = draw_qkv((1,), seed=6)
    assert torch.equal(attend_packed(*drawn, Sight(Layout.of((1,)), window=window)), drawn[2])


@pytest.mark.parametrize("window", [None, 1])
def test_large_scores_stay_finite(window: int | None) -> None:
    lengths = (3, 5)
    drawn = [x * 1e4 for x in draw_qkv(lengths, seed=7)]
    assert attend_packed(*drawn, Sight(Layout.of(lengths), window=window)).isfinite().all()


@pytest.mark.parametrize("window", [None, 1])
def test_dropout_inside_attention_follows_the_seed(window: int | None) -> None:
    lengths = (5, 5, 3)
    drawn, sight = draw_qkv(lengths, seed=8), Sight(Layout.of(lengths), window=window)

    def drop(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return attend_packed(*drawn, sight, dropout=0.5)

    assert torch.equal(drop(1), drop(1))
    assert not torch.equal(drop(1), drop(2))
    assert not torch.allclose(drop(1), attend_packed(*drawn, sight))


# What other mixers see


@given(lengths_in_runs)
def test_each_token_knows_how_many_stand_before_and_behind_it(lengths: tuple[int, ...]) -> None:
    sight = Sight(Layout.of(lengths))
    before = [place for length in lengths for place in range(length)]
    after = [length - 1 - place for length in lengths for place in range(length)]
    assert sight.before.squeeze(-1).tolist() == before
    assert sight.after.squeeze(-1).tolist() == after


@given(lengths_in_runs)
def test_steps_take_a_token_of_each_text_at_a_time_and_lead_back(lengths: tuple[int, ...]) -> None:
    sight = Sight(Layout.of(lengths))
    steps, numbers = sight.steps, torch.arange(sum(lengths))
    places = sight.before.squeeze(-1)[steps.order]
    assert places.tolist() == sorted(places.tolist())
    assert steps.sizes.tolist() == [
        sum(length > place for length in lengths) for place in range(max(lengths))
    ]
    assert torch.equal(numbers[steps.order][steps.back], numbers)


def test_what_mixers_see_is_worked_out_once_for_all_layers() -> None:
    sight = Sight(Layout.of((5, 3)))
    assert sight.before is sight.before
    assert sight.after is sight.after
    assert sight.steps is sight.steps


# What is seen of the text that is answered, and of what was written before


@given(lengths_in_runs, st.booleans(), seeds, st.data())
def test_a_prefix_is_seen_by_all_as_the_plain_formula_says(
    lengths: tuple[int, ...], has_scores: bool, seed: int, data: st.DataObject
) -> None:
    prefixes = tuple(data.draw(st.integers(0, length)) for length in lengths)
    scores = draw_scores(max(lengths), seed) if has_scores else None
    sight = Sight(Layout.of(lengths), scores=scores, is_causal=True, prefixes=prefixes)
    drawn = draw_qkv(lengths, seed)
    expected = with_gradients(attend_plainly, drawn, sight)
    for rate in (0.0, TINY_RATE):
        found = with_gradients(attend_packed, drawn, sight, dropout=rate)
        for ours, plain in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [attend_by_run, attend_plainly])
def test_no_prefix_is_causal_and_a_whole_one_hides_nothing(kernel: Kernel) -> None:
    lengths = (4, 4, 1, 9)
    drawn, layout = draw_qkv(lengths, seed=3), Layout.of(lengths)
    for prefixes, same in (
        ((0,) * 4, Sight(layout, is_causal=True)),
        ((1,) * 4, Sight(layout, is_causal=True)),  # the first token is seen by all anyway
        (lengths, Sight(layout)),
    ):
        found = kernel(*drawn, Sight(layout, is_causal=True, prefixes=prefixes))
        torch.testing.assert_close(found, kernel(*drawn, same), atol=1e-6, rtol=0)


def test_a_token_sees_the_prefix_and_what_stands_before_it() -> None:
    q, k, v = draw_qkv((7,), seed=5)
    v.requires_grad_()
    sight = Sight(Layout.of((7,)), is_causal=True, prefixes=(3,))
    for place in range(7):
        (gradient,) = torch.autograd.grad(attend_by_run(q, k, v, sight)[place].sum(), v)
        seen = gradient.abs().sum((1, 2)).nonzero().flatten().tolist()
        assert seen == list(range(max(3, place + 1)))


def look_across(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend by the published formula to another text, [L, H, K], [S, H, K] twice."""
    weights = torch.einsum("lhk,shk->hls", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hls,shk->lhk", weights.softmax(-1), v)


@given(lengths_in_runs, seeds)
def test_looking_across_equals_the_plain_formula_forward_and_backward(
    lengths: tuple[int, ...], seed: int
) -> None:
    random = np.random.default_rng(seed)
    others = tuple(int(random.integers(1, 9)) for _ in lengths)
    q, (_, k, v) = draw_qkv(lengths, seed)[0], draw_qkv(others, seed + 1)

    def plainly(q: Tensor, k: Tensor, v: Tensor, _: Sight) -> Tensor:
        texts = zip(q.split(lengths), k.split(others), v.split(others), strict=True)
        return torch.cat([look_across(*text) for text in texts])

    def across(q: Tensor, k: Tensor, v: Tensor, _: Sight, **more: float) -> Tensor:
        kv = torch.stack([k, v], dim=1)
        return Across(kv, Layout.of(lengths), Layout.of(others)).attend(q, **more)

    sight = Sight(Layout.of(lengths))
    expected = with_gradients(plainly, (q, k, v), sight)
    for rate in (0.0, TINY_RATE):
        found = with_gradients(across, (q, k, v), sight, dropout=rate)
        for ours, plain in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_on_a_cpu_short_texts_of_half_precision_are_learned_in_whole(rate: float) -> None:
    lengths, others = (5, 3, 3), (4, 7, 2)
    sight = Sight(Layout.of(lengths))

    def learn(dtype: torch.dtype) -> list[Tensor]:
        qkv, kv = (
            torch.stack(draw_qkv(texts, seed), dim=1).bfloat16().to(dtype).requires_grad_()
            for seed, texts in enumerate((lengths, others))
        )
        q = qkv[:, 0].detach().requires_grad_()
        across = Across(kv[:, 1:], Layout.of(lengths), Layout.of(others))
        torch.manual_seed(5)
        # Half precision is what autocast makes of the vectors, and would make of their products.
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            gathered = [attend(qkv, sight, dropout=rate), across.attend(q, dropout=rate)]
        assert all(one.dtype == dtype for one in gathered)
        torch.cat(gathered).float().sum().backward()
        return [*gathered, qkv.grad, q.grad, kv.grad]

    for half, whole in zip(learn(torch.bfloat16), learn(torch.float32), strict=True):
        torch.testing.assert_close(half, whole.bfloat16(), atol=0, rtol=2**-7)


@pytest.mark.parametrize("window", [None, 40])
def test_on_a_cpu_long_texts_of_half_precision_are_learned_by_the_formula(
    window: int | None, half_precision: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = (LONG_ENOUGH + 31, LONG_ENOUGH + 31, LONG_ENOUGH)
    sight = Sight(Layout.of(lengths), window=window)

    def learn(dtype: torch.dtype) -> list[Tensor]:
        qkv = torch.stack(draw_qkv(lengths, 1), dim=1).bfloat16().to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            gathered = attend(qkv, sight)
        assert gathered.dtype == dtype
        gathered.float().square().sum().backward()
        return [gathered, qkv.grad]

    expected = learn(torch.float32)
    # The library goes back slowly through half precision; nothing is left for it to do.
    monkeypatch.setattr(functional, "scaled_dot_product_attention", None)
    for half, whole in zip(learn(torch.bfloat16), expected, strict=True):
        far = (half.float() - whole).norm() / whole.norm()
        assert 0 < far < 0.02
    # It keeps no weights, though, which of very long texts are too many.
    monkeypatch.undo()
    monkeypatch.setattr(attention, "TOO_LONG", LONG_ENOUGH - 1)
    for half, whole in zip(learn(torch.bfloat16), expected, strict=True):
        torch.testing.assert_close(half, whole.bfloat16(), atol=2**-8, rtol=2**-6)
