"""Attention on the GPU, from packed queries, keys and values.

Three ways: texts of up to 128 tokens fit into one tile of a Triton kernel that keeps nothing for
its backward pass; longer ones are walked through in tiles; without Triton, or for odd head sizes,
torch's flash attention does it. All know rotary positions, windows, causal sight and dropout.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from bertworks.core.batch import LONGEST_TILE, Layout
from bertworks.model.fused import draw_chance, has_triton
from bertworks.model.positions import Turn, rotate

UNSEEN = 2**30  # a reach that no text has
# What measured best on a H200.
TURN = {"ROWS": 4, "HEADS": 16, "num_warps": 4}
SHORT_FORWARD = {"maxnreg": 128}  # two programs fit where one would, each waiting for memory
FORWARD = {"QUERIES": 64, "KEYS": 64, "num_warps": 4, "num_stages": 3}
BACKWARD_QUERIES = {"QUERIES": 64, "KEYS": 32, "num_warps": 4, "num_stages": 3}
BACKWARD_KEYS = {"QUERIES": 32, "KEYS": 64, "num_warps": 4, "num_stages": 2}


@dataclass(frozen=True)
class Look:
    """What the tokens of a batch see."""

    layout: Layout
    turn: Turn | None
    reach: tuple[int, int]  # tokens before and after

    @property
    def table(self) -> Tensor | None:
        """Cosine and sine at each place of the longest text."""
        return None if self.turn is None else self.turn.table


def attend_on_gpu(qkv: Tensor, look: Look, *, dropout: float) -> Tensor:
    """Let every token look at its own text, [T, 3, H, K] -> [T, H, K]; may overwrite qkv."""
    if has_triton() and qkv.shape[-1] in (32, 64, 128):
        qkv = qkv.contiguous()
        kind = _AttendShort if look.layout.longest <= LONGEST_TILE else _AttendLong
        return kind.apply(qkv, look, dropout)
    if look.turn is not None:
        q, k, v = qkv.unbind(1)
        by_token = look.turn.by_token
        qkv = torch.stack([rotate(q, by_token), rotate(k, by_token), v], dim=1)
    return _AttendFlash.apply(qkv, look, dropout)


def attend_across_on_gpu(
    q: Tensor,
    kv: Tensor,
    readers: Layout,
    read: Layout,
    *,
    is_causal: bool = False,
    dropout: float,
) -> Tensor:
    """Let the tokens of each text look at another, [T, H, K], [S, 2, H, K] -> [T, H, K].

    If causal, the last of each see all, the ones before them one less, and so on.
    """
    return _AttendAcross.apply(q, kv, readers, read, is_causal, dropout)


class _AttendShort(Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, look: Look, dropout: float) -> Tensor:
        from bertworks.model.attention_kernels import attend_short_forward

        out = _make_out(ctx, qkv, look, dropout)
        ctx.flags["TURNS"] = look.turn is not None
        chosen = SHORT_FORWARD if qkv.shape[-1] <= 64 else {}
        for tile, texts in look.layout.tiles:
            attend_short_forward[(len(texts), qkv.shape[2])](
                qkv, texts, look.layout.starts, look.table, out, look.layout.longest, *ctx.numbers,
                BLOCK=tile, num_warps=max(tile // 16, 1), **ctx.flags, **chosen,
            )  # fmt: skip
        ctx.save_for_backward(qkv)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from bertworks.model.attention_kernels import attend_short_backward

        (qkv,) = ctx.saved_tensors
        grad, qkv_grad = grad.contiguous(), torch.empty_like(qkv)
        layout, table = ctx.look.layout, ctx.look.table
        for tile, texts in layout.tiles:
            attend_short_backward[(len(texts), qkv.shape[2])](
                grad, qkv, texts, layout.starts, table, qkv_grad, layout.longest, *ctx.numbers,
                BLOCK=tile, num_warps=max(tile // 16, 1), **ctx.flags,
            )  # fmt: skip
        return qkv_grad, None, None


class _AttendLong(Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, look: Look, dropout: float) -> Tensor:
        from bertworks.model.attention_kernels import attend_long_forward

        _turn(qkv, look.turn, 1.0)  # the linear layer that made them does not need them again
        out = _make_out(ctx, qkv, look, dropout)
        log_sums = torch.empty(out.shape[:2], device=qkv.device)
        tiles = look.layout.strips(FORWARD["QUERIES"])
        attend_long_forward[(len(tiles), qkv.shape[2])](
            qkv, tiles, look.layout.starts, out, log_sums, *ctx.numbers, **ctx.flags, **FORWARD
        )
        ctx.save_for_backward(qkv, out, log_sums)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from bertworks.model import attention_kernels as kernels

        qkv, out, log_sums = ctx.saved_tensors
        layout, num_heads = ctx.look.layout, qkv.shape[2]
        qkv_grad, deltas = torch.empty_like(qkv), torch.empty_like(log_sums)
        grad = grad.contiguous()
        tiles = layout.strips(BACKWARD_QUERIES["QUERIES"])
        kernels.attend_long_backward_queries[(len(tiles), num_heads)](
            grad, qkv, tiles, layout.starts, out, log_sums, deltas, qkv_grad,
            *ctx.numbers, **ctx.flags, **BACKWARD_QUERIES,
        )  # fmt: skip
        tiles = layout.strips(BACKWARD_KEYS["KEYS"])
        kernels.attend_long_backward_keys[(len(tiles), num_heads)](
            grad, qkv, tiles, layout.starts, log_sums, deltas, qkv_grad,
            *ctx.numbers, **ctx.flags, **BACKWARD_KEYS,
        )  # fmt: skip
        return _turn(qkv_grad, ctx.look.turn, -1.0), None, None


class _AttendFlash(Function):
    """The kernel is the one under `torch.nn.attention.varlen_attn`, which drops nothing out."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, look: Look, dropout: float) -> Tensor:
        left, right = (None if side >= UNSEEN else side for side in look.reach)
        ctx.window = {"window_size_left": left, "window_size_right": right}
        starts, longest = look.layout.starts, look.layout.longest
        ctx.lengths = (starts, starts, longest, longest)
        out, log_sums, *chance, _ = torch.ops.aten._flash_attention_forward(
            *qkv.unbind(1), *ctx.lengths, dropout, False, return_debug_mask=False, **ctx.window
        )
        ctx.save_for_backward(qkv, out, log_sums, *chance)
        ctx.dropout = dropout
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        qkv, out, log_sums, *chance = ctx.saved_tensors
        grads = torch.ops.aten._flash_attention_backward(
            grad.contiguous(), *qkv.unbind(1), out, log_sums, *ctx.lengths, ctx.dropout, False,
            *chance, **ctx.window,
        )  # fmt: skip
        return torch.stack(grads, dim=1), None, None


class _AttendAcross(Function):
    """The same kernel, where queries and keys are of different texts."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor, readers: Layout, read: Layout, *how: Any
    ) -> Tensor:
        is_causal, dropout = how
        lengths = (readers.starts, read.starts, readers.longest, read.longest)
        ctx.how = (*lengths, dropout, is_causal)
        out, log_sums, *chance, _ = torch.ops.aten._flash_attention_forward(
            q, *kv.unbind(1), *ctx.how, return_debug_mask=False
        )
        ctx.save_for_backward(q, kv, out, log_sums, *chance)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        q, kv, out, log_sums, *chance = ctx.saved_tensors
        q_grad, *grads = torch.ops.aten._flash_attention_backward(
            grad.contiguous(), q, *kv.unbind(1), out, log_sums, *ctx.how, *chance
        )
        return q_grad, torch.stack(grads, dim=1), None, None, None, None


def _make_out(ctx: Any, qkv: Tensor, look: Look, dropout: float) -> Tensor:
    """Note what every kernel is told, and make room for the result."""
    num_rows, _, num_heads, size = qkv.shape
    # exp2 is the fast exponential, so scores are taken in powers of two.
    ctx.look = look
    ctx.numbers = (num_heads, size**-0.5 * 1.4426950408889634, *look.reach, *draw_chance(dropout))
    ctx.flags = {"DROPS": dropout > 0, "NEAR": min(look.reach) < UNSEEN, "SIZE": size}
    return torch.empty(num_rows, num_heads, size, dtype=qkv.dtype, device=qkv.device)


def _turn(qkv: Tensor, turn: Turn | None, sign: float) -> Tensor:
    """Turn queries and keys to their places where they lie, or back."""
    if turn is None:
        return qkv
    from bertworks.model.attention_kernels import turn_in_place

    num_rows, _, num_heads, size = qkv.shape
    turn_in_place[(-(-num_rows // TURN["ROWS"]), -(-2 * num_heads // TURN["HEADS"]))](
        qkv, turn.table, turn.positions, num_rows, turn.table.shape[1], num_heads, sign,
        HALF=size // 2, **TURN,
    )  # fmt: skip
    return qkv
