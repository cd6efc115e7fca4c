"""What stands between two matrix products, in one pass over memory where a GPU computes.

Each function is one line of plain torch on a CPU and one Triton kernel each way on a GPU; the
tests hold the two against each other.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.graph import increment_version
from torch.nn import functional

from bertworks.core.pieces import IGNORE

ACTIVATIONS = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}
PROGRAMS = 2112  # of a kernel that keeps sums: sixteen for each of the 132 processors of a H200
TILE = {"ROWS": 16, "COLUMNS": 128, "num_warps": 4}  # of activations
TILE_STEPS = 8  # tiles that one program of a tiled backward kernel walks down
ROW_TILE = 4096  # logits read at once


class Norm(nn.LayerNorm):
    """A layer norm that can add what it norms in the same pass.

    What it hands on beside the normed vectors, for the next sum: these again, as BERT does, or what
    they were before the norm (`keeps_total`).
    """

    def __init__(self, size: int, *, eps: float, bias: bool, keeps_total: bool = False) -> None:
        super().__init__(size, eps=eps, bias=bias)
        self.keeps_total = keeps_total

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the normed vectors, [T, D] -> [T, D]."""
        if is_fused(hidden):
            return _AddNorm.apply(hidden, None, self, 0.0, self.weight, self.bias)[1]
        return super().forward(hidden)

    def add(self, residual: Tensor, update: Tensor, *, dropout: float) -> tuple[Tensor, Tensor]:
        """Norm residual + dropout(update); return what the next sum begins with, and the normed."""
        if is_fused(update):
            return _AddNorm.apply(update, residual, self, dropout, self.weight, self.bias)
        total = residual + functional.dropout(update, dropout, training=dropout > 0)
        normed = super().forward(total)
        return total if self.keeps_total else normed, normed


def expand_and_bend(hidden: Tensor, expand: nn.Linear, activation: str, *, gated: bool) -> Tensor:
    """Return the inner vectors of a feed-forward, [T, D] -> [T, inner]."""
    if is_fused(hidden):
        expanded = functional.linear(hidden, expand.weight)
        return _Bend.apply(expanded, expand.bias, activation, gated)
    expanded = expand(hidden)
    if not gated:
        return ACTIVATIONS[activation](expanded)
    bent, gate = expanded.chunk(2, dim=-1)
    return ACTIVATIONS[activation](bent) * gate


def cross_entropy(logits: Tensor, values: Tensor, *, z_weight: float = 0.0) -> Tensor:
    """Return the summed cross-entropy of logit rows, and z_weight times their squared log-sums."""
    if is_fused(logits):
        return _CrossEntropy.apply(logits, values, z_weight)
    logits = logits.float()
    loss = functional.cross_entropy(logits, values, ignore_index=IGNORE, reduction="sum")
    if z_weight:
        asked = values != IGNORE
        loss = loss + z_weight * (logits.logsumexp(-1)[asked] ** 2).sum()
    return loss


def draw(logits: Tensor) -> Tensor:
    """Draw a piece from each row's softmax, [M, V] -> [M]; no gradient flows through it."""
    logits = logits.detach()
    if is_fused(logits) and len(logits) and logits.stride(1) == 1:
        from bertworks.model.row_kernels import draw_forward

        num_rows, num_pieces = logits.shape
        drawn = torch.empty(num_rows, dtype=torch.long, device=logits.device)
        numbers = num_pieces, logits.stride(0), _draw_seed()
        draw_forward[(num_rows,)](logits, drawn, *numbers, BLOCK=ROW_TILE, num_warps=8)
        return drawn
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_()
    return (logits.float() - noise.log()).argmax(-1)


def decode(vectors: Tensor, table: Tensor, bias: Tensor) -> Tensor:
    """Return the logits of every piece, [M, E] -> [M, V]."""
    if table.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise(vectors, table, bias, "none", [], "")
    if is_fused(vectors) and _dtype(vectors) != torch.float32:
        return _Decode.apply(vectors, table, bias)
    return functional.linear(vectors, table, bias)


def pack(table: Tensor) -> Tensor:
    """Return a table of pieces in the order in which a CPU reads it, where it knows a faster one.

    It is for many products with few vectors; gradients do not pass.
    """
    is_whole = table.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    if table.is_cuda or not is_whole or not torch.backends.mkldnn.is_available():
        return table
    return torch.ops.mkldnn._reorder_linear_weight(table.detach(), None)


def is_fused(x: Tensor) -> bool:
    """Tell whether these tensors go through the kernels."""
    return x.is_cuda and has_triton()


@cache
def has_triton() -> bool:
    """Tell whether the kernels can be compiled here."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


class _AddNorm(Function):
    """Both outputs of a norm that keeps no total share their memory; their gradients are added."""

    @staticmethod
    def forward(
        ctx: Any,
        update: Tensor,
        residual: Tensor | None,
        norm: Norm,
        dropout: float,
        *weights: Tensor | None,
    ) -> tuple[Tensor | None, Tensor]:
        from bertworks.model.row_kernels import add_norm_forward

        dtype = _dtype(update)
        num_rows, size = update.shape
        update = update.contiguous()
        residual = None if residual is None else residual.contiguous()
        normed = torch.empty_like(update, dtype=dtype)
        total = update if residual is None else torch.empty_like(update, dtype=dtype)
        spread = torch.empty(num_rows, 2, device=update.device)
        ctx.chance, ctx.drops = draw_chance(dropout), dropout > 0
        ctx.block = {"BLOCK": _power_of_two(size), "num_warps": _warps(size)}
        add_norm_forward[(min(num_rows, 4 * PROGRAMS),)](
            update, residual, *weights, total, normed, spread,
            num_rows, size, norm.eps, *ctx.chance,
            HAS_RESIDUAL=residual is not None, HAS_BIAS=norm.bias is not None, DROPS=ctx.drops,
            **ctx.block,
        )  # fmt: skip
        ctx.save_for_backward(total, norm.weight, spread)
        ctx.has_bias, ctx.keeps = norm.bias is not None, "total" if norm.keeps_total else "normed"
        ctx.dtypes = update.dtype, None if residual is None else residual.dtype
        ctx.set_materialize_grads(False)
        if residual is None:
            return None, normed
        return total if norm.keeps_total else normed.detach(), normed

    @staticmethod
    def backward(ctx: Any, kept_grad: Tensor | None, normed_grad: Tensor | None) -> tuple[Any, ...]:
        from bertworks.model.row_kernels import add_norm_backward

        total, weight, spread = ctx.saved_tensors
        if normed_grad is None:
            normed_grad = torch.zeros_like(total)
        num_rows, size = total.shape
        num_programs = min(num_rows, PROGRAMS)
        residual_grad = torch.empty_like(total, dtype=normed_grad.dtype)
        update_grad = torch.empty_like(residual_grad) if ctx.drops else residual_grad
        gains = torch.empty(num_programs, size, device=total.device)
        shifts = torch.empty_like(gains) if ctx.has_bias else None
        add_norm_backward[(num_programs,)](
            normed_grad.contiguous(), None if kept_grad is None else kept_grad.contiguous(),
            total, weight, spread, update_grad, residual_grad, gains, shifts,
            num_rows, size, *ctx.chance,
            KEPT="nothing" if kept_grad is None else ctx.keeps, HAS_BIAS=ctx.has_bias,
            DROPS=ctx.drops, **ctx.block,
        )  # fmt: skip
        for_update, for_residual = ctx.dtypes
        return (
            update_grad.to(for_update),
            None if for_residual is None else residual_grad.to(for_residual),
            None,
            None,
            gains.sum(0),
            None if shifts is None else shifts.sum(0),
        )


class _Bend(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, kind: str, gated: bool) -> Tensor:
        from bertworks.model.row_kernels import bend_forward

        num_rows, width = x.shape
        inner = width // 2 if gated else width
        y = torch.empty(num_rows, inner, dtype=x.dtype, device=x.device)
        grid = -(-num_rows // TILE["ROWS"]), -(-inner // TILE["COLUMNS"])
        bend_forward[grid](
            x, bias, y, num_rows, inner,
            KIND=kind, GATED=gated, HAS_BIAS=bias is not None, **TILE,
        )  # fmt: skip
        ctx.save_for_backward(x, bias)
        ctx.kind, ctx.gated = kind, gated
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from bertworks.model.row_kernels import bend_backward

        x, bias = ctx.saved_tensors
        num_rows, inner = grad.shape
        num_walks = -(-num_rows // (TILE["ROWS"] * TILE_STEPS))
        x_grad = torch.empty_like(x)
        sums = None if bias is None else torch.empty(num_walks, x.shape[1], device=x.device)
        bend_backward[(num_walks, -(-inner // TILE["COLUMNS"]))](
            grad.contiguous(), x, bias, x_grad, sums, num_rows, inner,
            KIND=ctx.kind, GATED=ctx.gated, HAS_BIAS=bias is not None,
            STEPS=TILE_STEPS, **TILE,
        )  # fmt: skip
        return x_grad, None if sums is None else sums.sum(0), None, None


class _CrossEntropy(Function):
    """The backward pass writes the gradient over the logits and between their rows: once only."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, values: Tensor, z_weight: float) -> Tensor:
        from bertworks.model.row_kernels import cross_entropy_forward

        num_rows, num_pieces = logits.shape
        losses = torch.empty(num_rows, device=logits.device)
        log_sums = torch.empty_like(losses)
        if logits.stride(1) != 1 or logits.stride(0) < num_pieces:
            logits = logits.clone(memory_format=torch.contiguous_format)
        ctx.numbers = (num_pieces, logits.stride(0), IGNORE, z_weight)
        if num_rows:
            cross_entropy_forward[(num_rows,)](
                logits, values, losses, log_sums, *ctx.numbers, BLOCK=ROW_TILE, num_warps=8
            )
        ctx.save_for_backward(logits, values, log_sums)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from bertworks.model.row_kernels import cross_entropy_backward

        logits, values, log_sums = ctx.saved_tensors
        if len(logits):
            each = grad.float().expand(len(logits)).contiguous()
            cross_entropy_backward[(len(logits),)](
                logits, values, log_sums, each, *ctx.numbers, BLOCK=ROW_TILE, num_warps=8
            )
            increment_version(logits)  # whoever else reads them again is told
        return logits.detach(), None, None


class _Decode(Function):
    """Vectors times the piece table, plus the bias, in shapes that the fast kernels take.

    The bias travels as one more column of the table, and the table is padded with pieces that do
    not exist, whose logits stand in memory between the rows of those that do.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, table: Tensor, bias: Tensor) -> Tensor:
        dtype = _dtype(vectors)
        num_pieces, size = table.shape
        wide = torch.zeros(_up(num_pieces, 64), size + 8, dtype=dtype, device=table.device)
        wide[:num_pieces, :size], wide[:num_pieces, size] = table, bias
        longer = torch.zeros(len(vectors), size + 8, dtype=dtype, device=table.device)
        longer[:, :size], longer[:, size] = vectors, 1.0
        ctx.save_for_backward(longer, wide)
        ctx.dtypes = vectors.dtype, table.dtype
        return torch.mm(longer, wide.t())[:, :num_pieces]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        longer, wide = ctx.saved_tensors
        size, (num_rows, num_pieces), stride = wide.shape[1] - 8, grad.shape, len(wide)
        if grad.stride() == (stride, 1):  # as the cross-entropy leaves it, 0 between the rows
            whole = grad.as_strided((num_rows, stride), (stride, 1))
        else:
            whole = functional.pad(grad, (0, stride - num_pieces))
        vectors_grad = torch.mm(whole, wide)[:, :size].to(ctx.dtypes[0])
        wide_grad = torch.mm(whole.t(), longer)[:num_pieces]
        table_grad, bias_grad = wide_grad[:, :size], wide_grad[:, size]
        return vectors_grad, table_grad.to(ctx.dtypes[1]), bias_grad.to(ctx.dtypes[1])


def _dtype(x: Tensor) -> torch.dtype:
    """Return the precision of what leaves a kernel: autocast's, where that is on."""
    if torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return x.dtype


def draw_chance(dropout: float) -> tuple[int, int, float]:
    """Return a fresh seed, the least bits of a place that is kept, and the scale of what is."""
    if not dropout:
        return 0, 0, 1.0
    return _draw_seed(), int(dropout * 2**32), 1 / (1 - dropout)


def _draw_seed() -> int:
    """Return a seed from torch's numbers on the CPU, so that no device is waited for."""
    return int(torch.randint(2**31, ()))


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _warps(size: int) -> int:
    return min(max(_power_of_two(size) // 256, 1), 8)
