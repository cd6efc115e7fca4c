"""What stands between two matrix products: kernels against one line of plain torch each."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.pieces import IGNORE
from bertworks.data.packing import flatten
from bertworks.model import fused
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.model.encoder import Encoder, initialize
from bertworks.model.fused import (
    ACTIVATIONS,
    Norm,
    cross_entropy,
    decode,
    draw,
    draw_chance,
    expand_and_bend,
    has_triton,
    pack,
)

EPSILON = 1e-5
# Vectors and their size: odd, one, beyond the rows and columns of one program.
SHAPES = [(13, 24), (1, 7), (37, 5), (3, 300)]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every program several rows, and every row several tiles."""
    monkeypatch.setattr(fused, "PROGRAMS", 2)
    monkeypatch.setattr(fused, "ROW_TILE", 16)


# Norms


def norm_of(weight: Tensor, bias: Tensor | None, *, keeps_total: bool = False) -> Norm:
    norm = Norm(len(weight), eps=EPSILON, bias=bias is not None, keeps_total=keeps_total)
    del norm.weight, norm.bias
    norm.weight, norm.bias = weight, bias
    return norm


def add(keeps_total: bool, **more: float) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(
        residual: Tensor, update: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        norm = norm_of(weight, bias, keeps_total=keeps_total)
        return norm.add(residual, update, **{"dropout": 0.0, **more})

    return run


def add_plainly(keeps_total: bool, mask: Tensor | float = 1.0) -> Callable[..., Any]:
    def run(
        residual: Tensor, update: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        total = residual + update * mask
        normed = functional.layer_norm(total, (len(weight),), weight, bias, EPSILON)
        return total if keeps_total else normed, normed

    return run


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_norm_equals_the_plain_formula(place, shape: tuple[int, int], has_bias: bool) -> None:
    weights = [place.draw(shape[1], seed=n) for n in (2, 3)[: 1 + has_bias]]

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.layer_norm(hidden, shape[1:], weight, bias, EPSILON)

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return norm_of(weight, bias)(hidden)

    assert place.gap(ours, plain, place.draw(*shape, seed=1), *weights) < place.tolerance


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keeps_total", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_sum_normed_equals_the_plain_formula(
    place, shape: tuple[int, int], keeps_total: bool, has_bias: bool
) -> None:
    read = [place.draw(*shape, seed=1), place.draw(*shape, seed=2)]
    read += [place.draw(shape[1], seed=n) for n in (3, 4)[: 1 + has_bias]]
    assert place.gap(add(keeps_total), add_plainly(keeps_total), *read) < place.tolerance


@pytest.mark.parametrize("keeps_total", [True, False])
@pytest.mark.parametrize("used", [0, 1])
def test_one_output_of_a_normed_sum_may_go_unused(place, keeps_total: bool, used: int) -> None:
    read = [place.draw(*shape, seed=n) for n, shape in enumerate([(13, 24), (13, 24), (24,)])]
    gap = place.gap(
        lambda *x: add(keeps_total)(*x)[used], lambda *x: add_plainly(keeps_total)(*x)[used], *read
    )
    assert gap < place.tolerance


def test_vectors_that_do_not_lie_in_order_are_summed_all_the_same(place) -> None:
    read = [place.draw(*shape, seed=n) for n, shape in enumerate([(24, 13), (13, 48), (24,)])]
    gap = place.gap(
        lambda residual, update, weight: add(True)(residual.t(), update[:, ::2], weight),
        lambda residual, update, weight: add_plainly(True)(residual.t(), update[:, ::2], weight),
        *read,
    )
    assert gap < place.tolerance


def test_no_vectors_give_no_vectors_and_no_gradient(place) -> None:
    read = [place.draw(*shape, seed=n) for n, shape in enumerate([(0, 7), (0, 7), (7,), (7,)])]
    assert place.gap(add(True), add_plainly(True), *read) == 0


@pytest.mark.parametrize("keeps_total", [True, False])
def test_what_is_dropped_of_a_sum_is_dropped_of_its_gradient(place, keeps_total: bool) -> None:
    rate, shape = 0.3, (13, 24)
    read = [place.draw(*s, seed=n) for n, s in enumerate([shape, shape, (24,), (24,)])]

    def ours(*x: Tensor) -> tuple[Tensor, Tensor]:
        torch.manual_seed(5)
        return add(keeps_total, dropout=rate)(*x)

    mask = mask_of(place, shape, rate, seed=5)
    assert 0.5 < float((mask > 0).float().mean()) < 0.9
    torch.testing.assert_close(
        mask.max().float().cpu(), torch.tensor(1 / (1 - rate)), rtol=1e-2, atol=0
    )
    assert place.gap(ours, add_plainly(keeps_total, mask), *read) < place.tolerance
    other = mask_of(place, shape, rate, seed=6)
    assert place.gap(ours, add_plainly(keeps_total, other), *read) > 10 * place.tolerance


def mask_of(place, shape: tuple[int, int], rate: float, *, seed: int) -> Tensor:
    ones, weight = torch.ones(shape).to(place.device, place.dtype), place.draw(shape[1], seed=1)
    torch.manual_seed(seed)
    return add(True, dropout=rate)(torch.zeros_like(ones), ones, weight)[0]


def test_what_is_dropped_follows_the_seed(place) -> None:
    masks = [mask_of(place, (13, 24), 0.3, seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    torch.manual_seed(1)
    assert draw_chance(0.3) != draw_chance(0.3)
    assert draw_chance(0.0) == (0, 0, 1.0)


@pytest.mark.parametrize("keeps_total", [True, False])
def test_a_norm_on_a_cpu_is_the_plain_formula(keeps_total: bool) -> None:
    random = torch.Generator().manual_seed(1)
    read = [torch.randn(*shape, generator=random) for shape in ((5, 7), (5, 7), (7,), (7,))]
    for found, expected in zip(
        add(keeps_total)(*read), add_plainly(keeps_total)(*read), strict=True
    ):
        assert torch.equal(found, expected)
    torch.manual_seed(3)
    total, _ = add(True, dropout=0.5)(*read)
    assert 0 < int((total == read[0]).sum()) < total.numel()


# Feed-forwards


# Far below zero a sigmoid divides by infinity, which makes it the 0 that it should be.
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_bend_equals_the_plain_formula(
    place, activation: str, gated: bool, has_bias: bool
) -> None:
    shapes = [(13, 5), (38, 5), (38,)][: 2 + has_bias]
    read = [2 * place.draw(*shape, seed=n) for n, shape in enumerate(shapes)]
    gap = place.gap(bend(activation, gated), bend_plainly(activation, gated), *read)
    assert gap < place.tolerance


@pytest.mark.parametrize("shape", [(1, 2), (150, 6), (17, 262), (0, 6)])
@pytest.mark.parametrize("gated", [True, False])
def test_a_bend_takes_any_number_of_rows_and_columns(
    place, shape: tuple[int, int], gated: bool
) -> None:
    num_rows, width = shape
    read = [place.draw(*s, seed=n) for n, s in enumerate([(num_rows, 3), (width, 3), (width,)])]
    assert place.gap(bend("gelu", gated), bend_plainly("gelu", gated), *read) < place.tolerance


def test_a_kernel_with_a_wrong_slope_is_noticed(
    interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = sys.modules["bertworks.model.row_kernels"]
    monkeypatch.setattr(kernels, "_slope", kernels._bend)
    read = [interpreter.draw(*shape, seed=n) for n, shape in enumerate([(13, 5), (38, 5), (38,)])]
    gap = interpreter.gap(bend("silu", True), bend_plainly("silu", True), *read)
    assert gap > 0.1


def bend(activation: str, gated: bool) -> Callable[..., Tensor]:
    def run(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        expand = nn.Linear(1, 1)
        del expand.weight, expand.bias
        expand.weight, expand.bias = weight, bias
        return expand_and_bend(hidden, expand, activation, gated=gated)

    return run


def bend_plainly(activation: str, gated: bool) -> Callable[..., Tensor]:
    def run(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        expanded = functional.linear(hidden, weight, bias)
        if not gated:
            return ACTIVATIONS[activation](expanded)
        first, second = expanded.chunk(2, dim=-1)
        return ACTIVATIONS[activation](first) * second

    return run


# Losses

# Lanes that saw nothing yet take -inf from -inf; the kernel then puts another number there.
unseen_lanes = pytest.mark.filterwarnings(
    "ignore:invalid value encountered in subtract:RuntimeWarning"
)


def draw_values(place, num_rows: int, num_pieces: int) -> Tensor:
    values = torch.randint(num_pieces, (num_rows,), generator=torch.Generator().manual_seed(7))
    values[3::5] = IGNORE
    return values.to(place.device)


def lose(values: Tensor, z_weight: float = 0.0) -> Callable[[Tensor], Tensor]:
    return lambda logits: cross_entropy(logits.clone(), values, z_weight=z_weight)


def lose_plainly(values: Tensor, z_weight: float = 0.0) -> Callable[[Tensor], Tensor]:
    def run(logits: Tensor) -> Tensor:
        rows = torch.arange(len(values), device=values.device)[values != IGNORE]
        log_sums = logits[rows].logsumexp(-1)
        return (log_sums - logits[rows, values[rows]] + z_weight * log_sums**2).sum()

    return run


@unseen_lanes
@pytest.mark.parametrize("shape", [(13, 50), (1, 3), (7, 16), (6, 33), (0, 5)])
@pytest.mark.parametrize("z_weight", [0.0, 0.1])
def test_a_loss_equals_the_plain_formula(place, shape: tuple[int, int], z_weight: float) -> None:
    values = draw_values(place, *shape)
    logits = 3 * place.draw(*shape, seed=1)
    gap = place.gap(lose(values, z_weight), lose_plainly(values, z_weight), logits)
    assert gap < place.tolerance


@unseen_lanes
def test_that_check_notices_another_weight_and_another_value(place) -> None:
    values, logits = draw_values(place, 13, 50), place.draw(13, 50, seed=1)
    assert place.gap(lose(values, 0.1), lose_plainly(values, 0.2), logits) > 10 * place.tolerance
    others = values.clone()
    others[0] = (others[0] + 1) % 50
    assert place.gap(lose(values), lose_plainly(others), logits) > 10 * place.tolerance


@unseen_lanes
def test_a_batch_that_asks_nothing_has_no_loss_and_no_gradient(place) -> None:
    values = torch.full((5,), IGNORE, device=place.device)
    logits = place.draw(5, 21, seed=1).requires_grad_()
    loss = lose(values, 0.1)(logits)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert float(loss.detach()) == 0
    assert not gradient.any()


@unseen_lanes
def test_a_loss_of_large_and_of_impossible_logits_stays_finite(place) -> None:
    values, logits = torch.tensor([3, 0], device=place.device), place.draw(2, 37, seed=1)
    logits[0] *= 1e4
    logits[1, 1:9] = float("-inf")
    assert place.gap(lose(values), lose_plainly(values), logits) < place.tolerance
    assert lose(values)(logits).isfinite()


@unseen_lanes
@pytest.mark.parametrize(
    "lay",
    [
        pytest.param(lambda x: functional.pad(x, (0, 27))[:, : x.shape[1]], id="padded"),
        pytest.param(lambda x: x.t().contiguous().t(), id="transposed"),
        pytest.param(lambda x: x[0].unsqueeze(1).t(), id="one row transposed"),
        pytest.param(lambda x: x[:1].clone().expand(6, -1), id="expanded"),
    ],
)
def test_logits_may_lie_in_memory_as_they_like(place, lay: Callable[[Tensor], Tensor]) -> None:
    logits = place.draw(6, 37, seed=1)
    values = draw_values(place, len(lay(logits)), 37)
    gap = place.gap(
        lambda x: cross_entropy(lay(x.clone()), values),
        lambda x: lose_plainly(values)(lay(x)),
        logits,
    )
    assert gap < place.tolerance


@unseen_lanes
def test_a_loss_leaves_nothing_but_zeros_between_the_rows_of_its_gradient(place) -> None:
    logits = place.draw(6, 64, seed=1)[:, :37].requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(logits, draw_values(place, 6, 37)), logits)
    assert not gradient.requires_grad
    assert gradient.stride() == (64, 1)
    assert not gradient.as_strided((6, 64), (64, 1))[:, 37:].any()


@unseen_lanes
def test_a_loss_whose_logits_were_overwritten_refuses_a_second_backward_pass(place) -> None:
    logits = place.draw(6, 37, seed=1).requires_grad_()
    loss = lose(draw_values(place, 6, 37))(logits)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("z_weight", [0.0, 0.1])
def test_a_loss_on_a_cpu_is_the_plain_formula(z_weight: float) -> None:
    logits = torch.randn(13, 50, generator=torch.Generator().manual_seed(1))
    values = torch.arange(13)
    values[::3] = IGNORE
    found = cross_entropy(logits, values, z_weight=z_weight)
    torch.testing.assert_close(found, lose_plainly(values, z_weight)(logits))


# Logits


def precise(place) -> torch.dtype:
    """Name what the padded product takes at a place: anything but single precision."""
    return torch.float64 if place.dtype == torch.float32 else place.dtype


@pytest.mark.parametrize("shape", [(11, 16, 37), (1, 8, 64), (5, 3, 65), (0, 4, 9)])
def test_decoding_equals_the_plain_formula(place, shape: tuple[int, int, int]) -> None:
    num_rows, size, num_pieces = shape
    shapes = [(num_rows, size), (num_pieces, size), (num_pieces,)]
    read = [place.draw(*s, seed=n).to(precise(place)) for n, s in enumerate(shapes)]
    assert place.gap(decode, functional.linear, *read) < place.tolerance
    assert decode(*read).shape == (num_rows, num_pieces)
    assert decode(*read).stride(0) % 64 == 0


@unseen_lanes
@pytest.mark.parametrize("through", [lambda x: x, lambda x: x * 1.0], ids=["strided", "contiguous"])
def test_decoding_takes_the_gradient_as_the_loss_leaves_it(
    place, through: Callable[[Tensor], Tensor]
) -> None:
    values = draw_values(place, 11, 37)
    shapes = [(11, 16), (37, 16), (37,)]
    read = [place.draw(*s, seed=n).to(precise(place)) for n, s in enumerate(shapes)]
    gap = place.gap(
        lambda *x: cross_entropy(through(decode(*x)), values, z_weight=0.1),
        lambda *x: lose_plainly(values, 0.1)(functional.linear(*x)),
        *read,
    )
    assert gap < place.tolerance


@pytest.mark.parametrize("num_rows", [1, 4, 13])
def test_a_packed_table_decodes_as_a_plain_one(num_rows: int) -> None:
    random = torch.Generator().manual_seed(5)
    vectors, table, bias = (
        torch.randn(shape, generator=random) for shape in ((num_rows, 21), (97, 21), (97,))
    )
    packed = pack(nn.Parameter(table))
    assert packed.is_mkldnn == torch.backends.mkldnn.is_available()
    with torch.no_grad():
        found = decode(vectors, packed, bias)
    torch.testing.assert_close(found, functional.linear(vectors, table, bias), atol=1e-5, rtol=0)


def test_a_table_is_packed_only_where_it_is_multiplied_as_it_is() -> None:
    table = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    half = table.bfloat16()
    assert pack(half) is half
    with torch.autocast("cpu", torch.bfloat16):
        assert pack(table) is table


def test_single_precision_is_decoded_as_it_is(interpreter) -> None:
    read = [interpreter.draw(*s, seed=n) for n, s in enumerate([(11, 16), (37, 16), (37,)])]
    assert torch.equal(decode(*read), functional.linear(*read))


# Pieces that are drawn


def shares_of(logits: Tensor, *, seed: int, count: int = 500) -> Tensor:
    """Return how often each piece was drawn of one row of logits."""
    torch.manual_seed(seed)
    drawn = draw(logits.repeat(count, 1)).cpu()
    return torch.bincount(drawn, minlength=len(logits)) / count


def test_pieces_are_drawn_as_often_as_the_softmax_says(place) -> None:
    logits = torch.linspace(-3, 1, 37)[torch.randperm(37)]  # beyond one tile, and not its multiple
    logits[[5, 30]] = torch.tensor([-torch.inf, 2.5])
    expected = logits.softmax(0)
    found = shares_of(logits.to(place.device, place.dtype), seed=1)
    assert float((found - expected).abs().max()) < 4 * 0.5 / 500**0.5
    assert found[5] == 0
    even = torch.full((37,), 1 / 37)
    assert float((found - even).abs().max()) > 0.1  # what that would notice


def test_what_is_drawn_follows_the_seed_and_differs_from_row_to_row(place) -> None:
    logits = torch.zeros(64, 50, device=place.device, dtype=place.dtype)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(draw(logits).tolist())
    first, again, other = drawn
    assert first == again != other
    assert len(set(first)) > 20
    assert sum(a == b for a, b in zip(first[1:], first, strict=False)) < 10  # neighbours


def test_pieces_that_do_not_exist_are_never_drawn(place) -> None:
    whole = torch.zeros(50, 24, device=place.device, dtype=place.dtype)
    whole[:, 19:] = 100.0  # what stands in memory between the rows
    assert int(draw(whole[:, :19]).max()) < 19
    assert draw(whole[:0, :19]).shape == (0,)
    across = torch.zeros(19, 50, device=place.device, dtype=place.dtype).t()
    assert int(draw(across).max()) < 19


def test_no_gradient_flows_through_what_is_drawn(place) -> None:
    logits = torch.zeros(3, 5, device=place.device, dtype=place.dtype, requires_grad=True)
    assert not draw(logits).requires_grad


# All together


@unseen_lanes
@pytest.mark.parametrize("family", ["bert", "albert", "modernbert"])
def test_a_network_computes_the_same_through_kernels(
    interpreter, make_texts, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    config = small(family)
    batch = flatten(make_texts([5, 1, 9], vocab_size=43, seed=2))
    runs = []
    for is_fused in (True, False):
        monkeypatch.setattr(fused, "is_fused", lambda _, answer=is_fused: answer)
        network = Encoder(config)
        initialize(network, seed=1, deviation=0.2)
        hidden = network(batch)
        upstream = interpreter.draw(*hidden.shape, seed=3)
        named = dict(network.named_parameters())
        gradients = torch.autograd.grad(hidden, named.values(), upstream, allow_unused=True)
        runs.append([hidden.detach(), *gradients])
    gaps = [interpreter.distance(*pair) for pair in zip(*runs, strict=True) if pair != (None, None)]
    assert max(gaps) < 1e-4
    assert not torch.equal(runs[0][0], runs[1][0])  # they went different ways


def small(family: str) -> EncoderConfig:
    narrow = {"embedding_size": 6} if family == "albert" else {}
    shape = {"vocab_size": 43, "hidden_size": 12, "num_layers": 3, "num_heads": 2}
    sizes = {"feed_forward_size": 19, "max_positions": 31, "dropout": 0.0, "attention_dropout": 0.0}
    return EncoderConfig(**{**STYLES[family], **shape, **sizes, **narrow})


def test_a_cpu_needs_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not fused.is_fused(torch.ones(1))
    assert has_triton()
    monkeypatch.setitem(sys.modules, "triton", None)
    assert not has_triton.__wrapped__()
