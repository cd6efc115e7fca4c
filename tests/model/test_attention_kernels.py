"""The kernels of attention alone: what they write, and that their tiles leave no trace."""

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from bertworks.core.batch import Layout
from bertworks.model.positions import Turn, rotate

HEADS, SIZE = 2, 32
FAR = 2**30
SCALE = SIZE**-0.5 / 0.6931471805599453  # scores are powers of two
LENGTHS = (5, 1, 37)
# Queries beyond the end of a text may see nothing; what they divide by nothing is not stored.
empty_queries = pytest.mark.filterwarnings(
    "ignore:(invalid value|divide by zero) encountered in (divide|log2):RuntimeWarning"
)


@pytest.fixture
def kernels(place) -> ModuleType:
    return import_module("bertworks.model.attention_kernels")


def numbers(reach: tuple[int, int] = (FAR, FAR), rate: float = 0.0) -> tuple[Any, ...]:
    return HEADS, SCALE, *reach, 7, int(rate * 2**32), 1 / (1 - rate)


def flags(reach: tuple[int, int] = (FAR, FAR), rate: float = 0.0) -> dict[str, Any]:
    return {"DROPS": rate > 0, "NEAR": min(reach) < FAR, "SIZE": SIZE}


def nothing(*shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Make room in which everything that is not written shows."""
    return torch.full(shape, float("nan"), device=like.device, dtype=dtype or like.dtype)


def attend_long(
    kernels: ModuleType, qkv: Tensor, tile: dict[str, int], *, reach=(FAR, FAR), rate: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return what is gathered, and the logarithms of the sums of weights."""
    layout = Layout.of(LENGTHS).to(qkv.device)
    out = nothing(sum(LENGTHS) + 3, HEADS, SIZE, like=qkv)
    log_sums = nothing(sum(LENGTHS) + 3, HEADS, like=qkv, dtype=torch.float32)
    strips = layout.strips(tile["QUERIES"])
    kernels.attend_long_forward[(len(strips), HEADS)](
        qkv,
        strips,
        layout.starts,
        out,
        log_sums,
        *numbers(reach, rate),
        **flags(reach, rate),
        **tile,
    )
    return out, log_sums


def attend_short(
    kernels: ModuleType,
    qkv: Tensor,
    *,
    reach=(FAR, FAR),
    rate: float = 0.0,
    tile: int | None = None,
) -> Tensor:
    layout = Layout.of(LENGTHS).to(qkv.device)
    out = nothing(sum(LENGTHS) + 3, HEADS, SIZE, like=qkv)
    for least, texts in layout.tiles:
        kernels.attend_short_forward[(len(texts), HEADS)](
            qkv, texts, layout.starts, None, out, layout.longest, *numbers(reach, rate),
            TURNS=False, BLOCK=tile or least, **flags(reach, rate),
        )  # fmt: skip
    return out


def draw_qkv(place, seed: int = 1) -> Tensor:
    return place.draw(sum(LENGTHS), 3, HEADS, SIZE, seed=seed)


@pytest.mark.parametrize("num_heads", [1, 3, 9])
def test_turning_in_place_is_turning_and_turns_back(place, kernels, num_heads: int) -> None:
    layout = Layout.of(LENGTHS)
    positions = torch.cat([torch.arange(length) for length in LENGTHS]).to(place.device)
    turn = Turn.of(positions, layout.longest, head_size=SIZE, base=100.0)
    qkv = place.draw(sum(LENGTHS), 3, num_heads, SIZE, seed=1)
    turned = qkv.clone()

    def run(sign: float) -> None:
        grid = -(-len(qkv) // 4), -(-2 * num_heads // 16)
        kernels.turn_in_place[grid](
            turned, turn.table, positions, len(qkv), layout.longest, num_heads, sign,
            ROWS=4, HEADS=16, HALF=SIZE // 2,
        )  # fmt: skip

    run(1.0)
    for found, plain in zip(turned.unbind(1)[:2], qkv.unbind(1)[:2], strict=True):
        expected = rotate(plain.float(), turn.by_token)
        assert place.distance(found, expected) < place.tolerance
        assert place.distance(plain, expected) > 0.1
    assert torch.equal(turned[:, 2], qkv[:, 2])
    run(-1.0)
    assert place.distance(turned, qkv) < place.tolerance


@empty_queries
@pytest.mark.parametrize("reach", [(FAR, FAR), (7, 3), (0, 0)])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_tiles_of_all_sizes_gather_the_same(
    place, kernels, reach: tuple[int, int], rate: float
) -> None:
    qkv = draw_qkv(place)
    expected = attend_short(kernels, qkv, reach=reach, rate=rate)[: len(qkv)]
    found = [attend_short(kernels, qkv, reach=reach, rate=rate, tile=64)]
    for tile in ({"QUERIES": 16, "KEYS": 32}, {"QUERIES": 64, "KEYS": 16}):
        found.append(attend_long(kernels, qkv, tile, reach=reach, rate=rate)[0])
    for out in found:
        assert place.distance(out[: len(qkv)], expected) < place.tolerance


def test_a_token_that_sees_itself_alone_gathers_its_own_value(place, kernels) -> None:
    qkv = draw_qkv(place)
    out = attend_short(kernels, qkv, reach=(0, 0))
    assert place.distance(out[: len(qkv)], qkv[:, 2]) < place.tolerance


def test_every_token_is_written_and_nothing_beyond_the_last(place, kernels) -> None:
    qkv = draw_qkv(place)
    long, log_sums = attend_long(kernels, qkv, {"QUERIES": 32, "KEYS": 16})
    for written in (long, log_sums, attend_short(kernels, qkv)):
        assert written[: len(qkv)].isfinite().all()
        assert written[len(qkv) :].isnan().all()


def test_what_is_kept_of_a_row_is_the_logarithm_of_its_sum(place, kernels) -> None:
    qkv = draw_qkv(place)
    _, log_sums = attend_long(kernels, qkv, {"QUERIES": 32, "KEYS": 16})
    q, k, _ = qkv.float().unbind(1)
    expected = [
        (torch.einsum("qhk,phk->qhp", a, b) * SCALE * 0.6931471805599453).logsumexp(-1)
        for a, b in zip(q.split(LENGTHS), k.split(LENGTHS), strict=True)
    ]
    found = log_sums[: len(qkv)] * 0.6931471805599453
    assert place.distance(found, torch.cat(expected)) < place.tolerance


@empty_queries
@pytest.mark.parametrize("reach", [(FAR, FAR), (7, 3)])
def test_both_ways_back_make_the_same_gradient_of_every_token(
    place, kernels, reach: tuple[int, int]
) -> None:
    qkv, rate, layout = draw_qkv(place), 0.3, Layout.of(LENGTHS).to(place.device)
    grad = place.draw(len(qkv), HEADS, SIZE, seed=2)
    short = nothing(len(qkv) + 3, 3, HEADS, SIZE, like=qkv)
    for tile, texts in layout.tiles:
        kernels.attend_short_backward[(len(texts), HEADS)](
            grad, qkv, texts, layout.starts, None, short, layout.longest, *numbers(reach, rate),
            TURNS=False, BLOCK=tile, **flags(reach, rate),
        )  # fmt: skip
    tile = {"QUERIES": 16, "KEYS": 32}
    out, log_sums = attend_long(kernels, qkv, tile, reach=reach, rate=rate)
    long, deltas = nothing(*short.shape, like=qkv), torch.empty_like(log_sums)
    more = numbers(reach, rate)
    strips = layout.strips(tile["QUERIES"])
    kernels.attend_long_backward_queries[(len(strips), HEADS)](
        grad, qkv, strips, layout.starts, out, log_sums, deltas, long, *more,
        **flags(reach, rate), **tile,
    )  # fmt: skip
    assert long[: len(qkv), 0].isfinite().all()
    assert long[:, 1:].isnan().all()
    strips = layout.strips(tile["KEYS"])
    kernels.attend_long_backward_keys[(len(strips), HEADS)](
        grad, qkv, strips, layout.starts, log_sums, deltas, long, *more,
        **flags(reach, rate), **tile,
    )  # fmt: skip
    for gradient in (short, long):
        assert gradient[len(qkv) :].isnan().all()
    assert place.distance(long[: len(qkv)], short[: len(qkv)]) < place.tolerance


def test_a_broken_kernel_is_noticed(interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = import_module("bertworks.model.attention_kernels")
    qkv = draw_qkv(interpreter)
    expected = attend_short(kernels, qkv, reach=(7, 3))[: len(qkv)]
    plain = kernels._sees
    monkeypatch.setattr(
        kernels, "_sees", lambda queries, keys, *reach: plain(keys, queries, *reach)
    )
    found = attend_short(kernels, qkv, reach=(7, 3))[: len(qkv)]
    assert interpreter.distance(found, expected) > 0.1
