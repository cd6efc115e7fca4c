"""Attention over texts that lie end to end: the only module that knows kernels."""

import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout


def attend(qkv: Tensor, layout: Layout, *, dropout: float = 0.0) -> Tensor:
    """Let every token look at all tokens of its own text, [T, 3, H, K] -> [T, H, K]."""
    if qkv.is_cuda and qkv.dtype in (torch.bfloat16, torch.float16) and not dropout:
        return attend_varlen(qkv, layout)
    return attend_by_run(qkv, layout, dropout=dropout)


def attend_by_run(qkv: Tensor, layout: Layout, *, dropout: float = 0.0) -> Tensor:
    """Attend text by text; neighbours of equal length go together as one rectangle.

    `split` and `cat` have cheap backward passes; gathering rows into padded rectangles has not.
    """
    pieces = []
    sizes = [count * length for count, length in layout.runs]
    for (count, length), part in zip(layout.runs, qkv.split(sizes), strict=True):
        q, k, v = part.unflatten(0, (count, length)).permute(2, 0, 3, 1, 4)  # [n, H, length, K]
        if dropout:
            out = _attend_forgetting(q, k, v, dropout)
        else:
            out = functional.scaled_dot_product_attention(q, k, v)
        pieces.append(out.transpose(1, 2).flatten(0, 1))  # [n * length, H, K]
    return torch.cat(pieces)


def _attend_forgetting(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
    """Attend with dropout on the weights, [n, H, length, K].

    The library's own way looks for rows that are masked whole, which a text never has.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    return functional.dropout(scores.softmax(-1), dropout) @ v


def attend_varlen(qkv: Tensor, layout: Layout) -> Tensor:
    """Attend with the CUDA kernel that reads flat batches as they are."""
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = qkv.unbind(1)
    starts, longest = layout.starts, layout.longest
    out: Tensor = varlen_attn(q, k, v, starts, starts, longest, longest)  # type: ignore[assignment]
    return out


def attend_plainly(qkv: Tensor, layout: Layout) -> Tensor:
    """Attend by the published formula, one text at a time: what every kernel is checked against."""
    pieces = []
    for text in qkv.split(list(layout.lengths)):
        q, k, v = text.permute(1, 2, 0, 3)  # [H, length, K]
        scores = q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5
        pieces.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(pieces)
