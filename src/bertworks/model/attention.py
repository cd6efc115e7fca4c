"""Attention over texts that lie end to end: the only module that knows kernels."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.model.gpu_attention import UNSEEN, Look, attend_across_on_gpu, attend_on_gpu
from bertworks.model.positions import Turn, rotate
from bertworks.model.recall import Recall

# Tokens of texts that a CPU learns quickly in half precision: products of shorter ones are too
# small, and the weights of longer ones take much memory, which the library's own way does not.
LONG_ENOUGH, TOO_LONG = 96, 2048


@dataclass(frozen=True)
class Sight:
    """What a layer may see of a batch, and how it learns of places."""

    layout: Layout
    window: int | None = None  # tokens seen to each side; None: the whole text
    turn: Turn | None = None  # by rotary positions
    scores: Tensor | None = None  # [H, longest, longest] added by distance
    is_causal: bool = False  # whether a token sees only itself and what stands before it
    prefixes: tuple[int, ...] | None = None  # of each text, how many tokens all of them see anyway
    kept: Recall | None = None  # what remembers the keys and values, if anything does

    def __post_init__(self) -> None:
        # In strips nothing is hidden that stands ahead.
        assert self.window is None or not (self.is_causal or self.prefixes)

    @cached_property
    def before(self) -> Tensor:
        """How many tokens stand before each one in its text, [T, 1]."""
        places = torch.cat([torch.arange(length) for length in self.layout.lengths])
        return places.unsqueeze(-1).to(self.layout.starts.device)

    @cached_property
    def after(self) -> Tensor:
        """How many tokens stand behind each one in its text, [T, 1]."""
        lengths = torch.tensor(self.layout.lengths)
        total = lengths.repeat_interleave(lengths).unsqueeze(-1).to(self.layout.starts.device)
        return total - 1 - self.before

    @cached_property
    def halves(self) -> "tuple[Half, Half]":
        """The tokens that all others of their text see, and those behind them."""
        assert self.prefixes is not None
        lengths, prefixes = self.layout.lengths, torch.tensor(self.prefixes)
        is_seen = self.before.squeeze(-1).cpu() < prefixes.repeat_interleave(torch.tensor(lengths))
        rest = tuple(n - prefix for n, prefix in zip(lengths, self.prefixes, strict=True))
        device = self.layout.starts.device
        return (
            Half(is_seen.nonzero().squeeze(-1).to(device), Layout.of(self.prefixes).to(device)),
            Half((~is_seen).nonzero().squeeze(-1).to(device), Layout.of(rest).to(device)),
        )

    @cached_property
    def steps(self) -> "Steps":
        """The texts read side by side, a token of each at a time."""
        lengths, places = torch.tensor(self.layout.lengths), self.before.squeeze(-1).cpu()
        rank = torch.argsort(lengths, descending=True, stable=True).argsort()
        order = torch.argsort(places * len(lengths) + rank.repeat_interleave(lengths))
        device = self.layout.starts.device
        return Steps(order.to(device), order.argsort().to(device), torch.bincount(places))


@dataclass(frozen=True)
class Half:
    """Some tokens of each text."""

    rows: Tensor  # where they stand in the batch
    layout: Layout


@dataclass(frozen=True)
class Steps:
    """All first tokens, then all second ones, …, those of the longest text in front."""

    order: Tensor  # [T] where each token of the steps stands in the batch
    back: Tensor  # [T] where each token of the batch stands in the steps
    sizes: Tensor  # how many texts are left at each step


def attend(qkv: Tensor, sight: Sight | Recall, *, dropout: float = 0.0) -> Tensor:
    """Let every token look at the tokens of its own text, [T, 3, H, K] -> [T, H, K]."""
    if isinstance(sight, Recall):
        return sight.attend(qkv)
    is_half = qkv.is_cuda and qkv.dtype in (torch.bfloat16, torch.float16)
    is_plain = sight.scores is None and sight.prefixes is None and sight.kept is None
    if is_half and is_plain:
        reach = UNSEEN if sight.window is None else sight.window
        look = Look(sight.layout, sight.turn, (reach, 0 if sight.is_causal else reach))
        return attend_on_gpu(qkv, look, dropout=dropout)
    q, k, v = qkv.unbind(1)
    if sight.turn is not None:
        q, k = rotate(q, sight.turn.by_token), rotate(k, sight.turn.by_token)
    if sight.kept is not None:
        sight.kept.begin(k, v, sight.layout)
    if is_half and sight.prefixes is not None and sight.scores is None:
        return attend_by_halves(q, torch.stack([k, v], dim=1), sight, dropout=dropout)
    return attend_by_run(q, k, v, sight, dropout=dropout)


@dataclass(frozen=True)
class Across:
    """Texts whose tokens look at those of others, one of which belongs to each."""

    kv: Tensor  # [S, 2, H, K] of the texts that are read
    readers: Layout
    read: Layout

    def attend(self, q: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Let every token look at the text that is read, [T, H, K] -> [T, H, K]."""
        if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
            return attend_across_on_gpu(q, self.kv, self.readers, self.read, dropout=dropout)
        own, others = ([n * pair[side] for n, *pair in self._runs] for side in (0, 1))
        parts = zip(q.split(own), *(x.split(others) for x in self.kv.unbind(1)), strict=True)
        gathered = []
        for (count, length, other), part in zip(self._runs, parts, strict=True):
            # [n * length, H, K] -> [n, H, length, K]
            texts = (
                x.unflatten(0, (count, size)).transpose(1, 2)
                for x, size in zip(part, (length, other, other), strict=True)
            )
            out = _attend_rectangle(*texts, scores=None, dropout=dropout)
            gathered.append(out.transpose(1, 2).flatten(0, 1))
        return torch.cat(gathered)

    @cached_property
    def _runs(self) -> list[tuple[int, int, int]]:
        """Neighbours of equal lengths as (number of texts, length, length of what is read)."""
        pairs = zip(self.readers.lengths, self.read.lengths, strict=True)
        return [(len(list(same)), *pair) for pair, same in groupby(pairs)]


def attend_by_halves(q: Tensor, kv: Tensor, sight: Sight, *, dropout: float = 0.0) -> Tensor:
    """Let the tokens of prefixes look at each other, and those behind them at all before them."""
    seen, rest = sight.halves
    layouts = (seen.layout, seen.layout)
    first = attend_across_on_gpu(q[seen.rows], kv[seen.rows], *layouts, dropout=dropout)
    layouts = (rest.layout, sight.layout)
    last = attend_across_on_gpu(q[rest.rows], kv, *layouts, is_causal=True, dropout=dropout)
    return torch.cat([first, last])[torch.cat([seen.rows, rest.rows]).argsort()]


def attend_by_run(q: Tensor, k: Tensor, v: Tensor, sight: Sight, *, dropout: float = 0.0) -> Tensor:
    """Attend text by text; neighbours of equal length go together as one rectangle.

    `split` and `cat` have cheap backward passes; gathering rows into padded rectangles has not.
    """
    runs = sight.layout.runs
    sizes = [count * length for count, length in runs]
    gathered, first = [], 0
    for (count, length), *parts in zip(runs, *(x.split(sizes) for x in (q, k, v)), strict=True):
        # [n * length, H, K] -> [n, H, length, K]
        texts = (part.unflatten(0, (count, length)).transpose(1, 2) for part in parts)
        if sight.window is not None and length > sight.window + 1:
            out = attend_banded(*texts, window=sight.window, dropout=dropout)
        else:
            scores = _scores(sight, slice(first, first + count), length, like=q)
            out = _attend_rectangle(*texts, scores=scores, dropout=dropout)
        first += count
        gathered.append(out.transpose(1, 2).flatten(0, 1))  # [n * length, H, K]
    return torch.cat(gathered)


def attend_banded(q: Tensor, k: Tensor, v: Tensor, *, window: int, dropout: float = 0.0) -> Tensor:
    """Attend within a window only, [n, H, length, K]; memory grows with the length, not its square.

    A text is cut into strips as wide as the window; a strip of queries needs the keys of its own
    strip and of the two beside it.
    """
    length = q.shape[-2]
    num_strips = -(-length // window)
    rest = num_strips * window - length
    queries = functional.pad(q, (0, 0, 0, rest)).unflatten(-2, (num_strips, window))
    keys, values = (
        functional.pad(x, (0, 0, window, rest + window))
        .unfold(-2, 3 * window, window)
        .transpose(-1, -2)
        for x in (k, v)
    )
    # [n, H, strips, width, K] -> [strips, n * H, width, K]
    strips = (x.flatten(0, 1).transpose(0, 1) for x in (queries, keys, values))
    out = _attend_rectangle(*strips, scores=_band(length, window, like=q), dropout=dropout)
    out = out.transpose(0, 1).flatten(1, 2)[:, :length]  # [n * H, length, K]
    return out.unflatten(0, q.shape[:2])


def attend_plainly(q: Tensor, k: Tensor, v: Tensor, sight: Sight) -> Tensor:
    """Attend by the published formula, one text at a time: what every kernel is checked against."""
    values = v.split(list(sight.layout.lengths))
    gathered = [
        (weights @ value.transpose(0, 1)).transpose(0, 1)
        for weights, value in zip(plain_weights(q, k, sight), values, strict=True)
    ]
    return torch.cat(gathered)


def look_plainly(qkv: Tensor, sight: Sight) -> list[Tensor]:
    """Return how much tokens look at each other, [T, 3, H, K] -> [H, L, L] for each text."""
    q, k, _ = qkv.unbind(1)
    if sight.turn is not None:
        q, k = rotate(q, sight.turn.by_token), rotate(k, sight.turn.by_token)
    return plain_weights(q, k, sight)


def plain_weights(q: Tensor, k: Tensor, sight: Sight) -> list[Tensor]:
    """Return the weights of the published formula for each text, [H, L, L]."""
    found = []
    lengths = list(sight.layout.lengths)
    prefixes = sight.prefixes or [0] * len(lengths)
    for prefix, *texts in zip(prefixes, *(x.split(lengths) for x in (q, k)), strict=True):
        query, key = (text.transpose(0, 1) for text in texts)  # [H, length, K]
        weights = query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
        length = weights.shape[-1]
        if sight.scores is not None:
            weights = weights + sight.scores[:, :length, :length]
        if sight.window is not None:
            places = torch.arange(length, device=q.device)
            is_far = (places - places.unsqueeze(1)).abs() > sight.window
            weights = weights.masked_fill(is_far, float("-inf"))
        if sight.is_causal:
            is_ahead = torch.ones_like(weights[0], dtype=torch.bool).triu(1)
            is_ahead[:, :prefix] = False
            weights = weights.masked_fill(is_ahead, float("-inf"))
        found.append(weights.softmax(-1))
    return found


def _scores(sight: Sight, texts: slice, length: int, *, like: Tensor) -> Tensor | None:
    """Return what is added to the scores of texts of a length, -inf where a token may not look."""
    scores = None if sight.scores is None else sight.scores[:, :length, :length]
    if not sight.is_causal:
        return scores
    places = torch.arange(length, device=like.device)
    is_ahead = places > places.unsqueeze(1)
    if sight.prefixes is not None:
        prefixes = torch.tensor(sight.prefixes[texts], device=like.device)
        is_ahead = is_ahead & (places >= prefixes[:, None, None, None])  # [n, 1, length, length]
    ahead = torch.zeros(is_ahead.shape, dtype=like.dtype, device=like.device)
    ahead = ahead.masked_fill_(is_ahead, float("-inf"))
    return ahead if scores is None else scores + ahead


def _attend_rectangle(
    q: Tensor, k: Tensor, v: Tensor, *, scores: Tensor | None, dropout: float
) -> Tensor:
    """Attend within rectangles, [..., length, K].

    With dropout the library's own way looks for rows that are masked whole, which a text never has.
    On a CPU that learns in half precision it goes back slowly; the formula is quick there, but for
    texts that are better learned in single precision.
    """
    is_slow = q.requires_grad and q.dtype == torch.bfloat16 and not q.is_cuda
    if is_slow and not LONG_ENOUGH <= k.shape[-2] <= (math.inf if dropout else TOO_LONG):
        with torch.autocast("cpu", enabled=False):
            whole = (x.float() for x in (q, k, v))
            scores = None if scores is None else scores.float()
            return _attend_rectangle(*whole, scores=scores, dropout=dropout).to(q.dtype)
    if not dropout and not is_slow:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=scores)
    weights = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if scores is not None:
        weights = weights + scores
    return functional.dropout(weights.softmax(-1), dropout) @ v


def _band(length: int, window: int, *, like: Tensor) -> Tensor:
    """Return 0 where a query sees a key and -inf elsewhere, [strips, 1, window, 3 * window].

    Queries that fill up the last strip see the end of the text, so that no row is empty.
    """
    queries = torch.arange(-(-length // window) * window, device=like.device).view(-1, window, 1)
    keys = queries[:, :1] + torch.arange(-window, 2 * window, device=like.device)
    is_seen = ((queries - keys).abs() <= window) & (keys >= 0) & (keys < length)
    hidden = torch.zeros(is_seen.shape, dtype=like.dtype, device=like.device)
    return hidden.masked_fill_(~is_seen, float("-inf")).unsqueeze(1)
