"""Triton kernels for attention over texts that lie end to end.

Imported only where a GPU computes; `gpu_attention.py` calls them. Queries, keys and values come
packed, [T, 3, H, K], and their gradients leave so; a program owns one head of one text, or of a
tile of it.
"""

import triton
import triton.language as tl

from bertworks.model.row_kernels import keeps, scramble

# fmt: off


@triton.jit(do_not_specialize=["num_rows", "longest", "sign"])
def turn_in_place(
    qkv, table, positions, num_rows, longest, num_heads, sign,
    ROWS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
):
    """Turn the queries and keys of a packed [T, 3, H, K] where they lie; back, if sign is -1."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = (rows < num_rows)[:, None, None]
    places = tl.load(positions + rows, mask=rows < num_rows, other=0)[:, None, None]
    heads = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[None, :, None]
    halves = tl.arange(0, HALF)[None, None, :]
    inside = is_row & (heads < 2 * num_heads) & (halves >= 0)
    at = qkv + rows.to(tl.int64)[:, None, None] * num_heads * HALF * 6 + heads * HALF * 2 + halves
    first = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    cosine = tl.load(table + places * HALF + halves)
    sine = tl.load(table + (longest + places) * HALF + halves) * sign
    tl.store(at, first * cosine - second * sine, mask=inside)
    tl.store(at + HALF, second * cosine + first * sine, mask=inside)


@triton.jit
def _load_turned(at, cosine, sine, inside, HALF: tl.constexpr, TURNS: tl.constexpr):
    """Load both halves of some vectors, turned to their places."""
    first = tl.load(at, mask=inside, other=0.0)
    second = tl.load(at + HALF, mask=inside, other=0.0)
    if TURNS:
        a, b = first.to(tl.float32), second.to(tl.float32)
        first = (a * cosine - b * sine).to(first.dtype)
        second = (b * cosine + a * sine).to(second.dtype)
    return first, second


@triton.jit
def _store_turned_back(
    at, first, second, cosine, sine, inside, HALF: tl.constexpr, TURNS: tl.constexpr,
):
    """Store the gradients of both halves of vectors that were turned."""
    if TURNS:
        back = first * cosine + second * sine
        second = second * cosine - first * sine
        first = back
    tl.store(at, first, mask=inside)
    tl.store(at + HALF, second, mask=inside)


@triton.jit
def _drop(numbers, is_kept, scale):
    """Return numbers with 0 where they are not kept.

    The zero is computed, for of a known one the compiler makes two slower steps per number.
    """
    return tl.where(is_kept, numbers, scale * 0.0)


@triton.jit
def _sees(queries, keys, left, right):
    """Tell which keys each query sees."""
    return (queries - keys <= left) & (keys - queries <= right)


@triton.jit
def _weigh(scores, places, length, scale, left, right, NEAR: tl.constexpr, BLOCK: tl.constexpr):
    """Turn products into weights: softmax over what a token sees.

    A row beyond the text may see nothing. Its scores are alike, but not to the last bit when
    product and difference are one step; so the top stays above what is unseen, which weighs 0.
    """
    if length < BLOCK:
        scores += tl.where(places < length, 0.0, -1e30)[None, :]
    if NEAR:
        scores = tl.where(_sees(places[:, None], places[None, :], left, right), scores, -1e30)
    top = tl.maximum(tl.max(scores, 1) * scale, -1e29)
    weights = tl.exp2(scores * scale - top[:, None])
    return weights * (1 / tl.maximum(tl.sum(weights, 1), 1e-9))[:, None]


@triton.jit
def _read_text(
    qkv, texts, starts, table, longest, num_heads, scale, left, right,
    TURNS: tl.constexpr, NEAR: tl.constexpr, BLOCK: tl.constexpr, SIZE: tl.constexpr,
):
    """Load what one head sees of a text; return its start, its angles, its vectors, its weights."""
    text, head = tl.load(texts + tl.program_id(0)), tl.program_id(1)
    start = tl.load(starts + text)
    length = tl.load(starts + text + 1) - start
    places, halves, columns = tl.arange(0, BLOCK), tl.arange(0, SIZE // 2), tl.arange(0, SIZE)
    is_half = (places < length)[:, None] & (halves >= 0)[None, :]
    inside = (places < length)[:, None] & (columns >= 0)[None, :]
    width = num_heads * SIZE
    cosine, sine = tl.full([1, 1], 1.0, tl.float32), tl.full([1, 1], 0.0, tl.float32)
    if TURNS:
        angle = table + places[:, None] * (SIZE // 2) + halves[None, :]
        cosine = tl.load(angle, mask=is_half, other=1.0)
        sine = tl.load(angle + longest * (SIZE // 2), mask=is_half, other=0.0)
    at = qkv + start.to(tl.int64) * (3 * width) + head * SIZE
    steps = places[:, None] * (3 * width)  # within a text 32 bits are enough
    q1, q2 = _load_turned(at + (steps + halves), cosine, sine, is_half, SIZE // 2, TURNS)
    k1, k2 = _load_turned(at + width + (steps + halves), cosine, sine, is_half, SIZE // 2, TURNS)
    v = tl.load(at + 2 * width + (steps + columns), mask=inside, other=0.0)
    scores = tl.dot(q2, tl.trans(k2), tl.dot(q1, tl.trans(k1)))
    weights = _weigh(scores, places, length, scale, left, right, NEAR, BLOCK)
    return start, places, inside, is_half, cosine, sine, q1, q2, k1, k2, v, weights


@triton.jit(do_not_specialize=["seed", "threshold", "left", "right", "longest"])
def attend_short_forward(
    qkv, texts, starts, table, out, longest,
    num_heads, scale, left, right, seed, threshold, keep_scale,
    TURNS: tl.constexpr, DROPS: tl.constexpr, NEAR: tl.constexpr, BLOCK: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Attend with one head of a text that fits into one tile."""
    start, places, inside, _, _, _, _, _, _, _, v, weights = _read_text(
        qkv, texts, starts, table, longest, num_heads, scale, left, right, TURNS, NEAR, BLOCK, SIZE,
    )
    head, width = tl.program_id(1), num_heads * SIZE
    columns = tl.arange(0, SIZE)
    if DROPS:
        row_bits = scramble((start + places) * num_heads + head, seed)[:, None]
        is_kept = keeps(row_bits, scramble(places, seed ^ 0x5BD1E995)[None, :], threshold)
        weights = _drop(weights, is_kept, scale)
    gathered = tl.dot(weights.to(v.dtype), v)
    if DROPS:
        gathered *= keep_scale
    to = out + start.to(tl.int64) * width + head * SIZE
    tl.store(to + (places[:, None] * width + columns), gathered, mask=inside)


@triton.jit(do_not_specialize=["seed", "threshold", "left", "right", "longest"])
def attend_short_backward(
    grad, qkv, texts, starts, table, qkv_grad, longest,
    num_heads, scale, left, right, seed, threshold, keep_scale,
    TURNS: tl.constexpr, DROPS: tl.constexpr, NEAR: tl.constexpr, BLOCK: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Undo `attend_short_forward`: the weights are computed again, nothing was kept."""
    start, places, inside, is_half, cosine, sine, q1, q2, k1, k2, v, weights = _read_text(
        qkv, texts, starts, table, longest, num_heads, scale, left, right, TURNS, NEAR, BLOCK, SIZE,
    )
    head, width = tl.program_id(1), num_heads * SIZE
    halves, columns = tl.arange(0, SIZE // 2), tl.arange(0, SIZE)
    near = grad + start.to(tl.int64) * width + head * SIZE
    do = tl.load(near + (places[:, None] * width + columns), mask=inside, other=0.0)
    dweights = tl.dot(do, tl.trans(v))
    dropped = weights
    if DROPS:
        row_bits = scramble((start + places) * num_heads + head, seed)[:, None]
        is_kept = keeps(row_bits, scramble(places, seed ^ 0x5BD1E995)[None, :], threshold)
        dropped = _drop(weights, is_kept, scale)
        dweights = _drop(dweights, is_kept, scale)
    to = qkv_grad + start.to(tl.int64) * (3 * width) + head * SIZE
    steps = places[:, None] * (3 * width)
    dv = tl.dot(tl.trans(dropped.to(do.dtype)), do)
    if DROPS:
        dv *= keep_scale
    tl.store(to + 2 * width + (steps + columns), dv, mask=inside)
    delta = tl.sum(dweights * weights, 1)
    # Scores are powers of two: scale holds the logarithm of e, which the gradient has not.
    slope = scale * 0.6931471805599453 * keep_scale
    dscores = (weights * (dweights - delta[:, None]) * slope).to(q1.dtype)
    dq1, dq2 = tl.dot(dscores, k1), tl.dot(dscores, k2)
    to += steps + halves
    _store_turned_back(to, dq1, dq2, cosine, sine, is_half, SIZE // 2, TURNS)
    flipped = tl.trans(dscores)
    dk1, dk2 = tl.dot(flipped, q1), tl.dot(flipped, q2)
    _store_turned_back(to + width, dk1, dk2, cosine, sine, is_half, SIZE // 2, TURNS)


@triton.jit(do_not_specialize=["seed", "threshold", "left", "right"])
def attend_long_forward(
    qkv, tiles, starts, out, log_sums, num_heads, scale, left, right, seed, threshold, keep_scale,
    DROPS: tl.constexpr, NEAR: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Attend with one head of one tile of queries, over tiles of keys."""
    text, head = tl.load(tiles + 2 * tl.program_id(0)), tl.program_id(1)
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    start = tl.load(starts + text)
    length = tl.load(starts + text + 1) - start
    columns = tl.arange(0, SIZE)
    width = num_heads * SIZE
    queries = first + tl.arange(0, QUERIES)
    is_query = (queries < length)[:, None] & (columns >= 0)[None, :]
    at = qkv + (start + queries).to(tl.int64)[:, None] * (3 * width) + head * SIZE + columns
    q = tl.load(at, mask=is_query, other=0.0)
    top = tl.full([QUERIES], -1e29, tl.float32)  # above what is unseen, which then weighs 0
    total = tl.zeros([QUERIES], tl.float32)
    gathered = tl.zeros([QUERIES, SIZE], tl.float32)
    row_bits = scramble((start + queries) * num_heads + head, seed)[:, None]
    low = tl.maximum(first - left, 0) // KEYS * KEYS
    high = tl.minimum(length, first + QUERIES + tl.minimum(right, length))
    for begin in range(low, high, KEYS):
        keys = begin + tl.arange(0, KEYS)
        is_key = (keys < length)[:, None] & (columns >= 0)[None, :]
        near = qkv + (start + keys).to(tl.int64)[:, None] * (3 * width) + head * SIZE + columns
        k = tl.load(near + width, mask=is_key, other=0.0)
        v = tl.load(near + 2 * width, mask=is_key, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        if begin + KEYS > length:
            scores += tl.where(keys < length, 0.0, -1e30)[None, :]
        if NEAR:
            scores = tl.where(_sees(queries[:, None], keys[None, :], left, right), scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - higher[:, None])
        fading = tl.exp2(top - higher)
        total = total * fading + tl.sum(weights, 1)
        top = higher
        if DROPS:
            is_kept = keeps(row_bits, scramble(keys, seed ^ 0x5BD1E995)[None, :], threshold)
            weights = _drop(weights, is_kept, scale)
        gathered = tl.dot(weights.to(v.dtype), v, gathered * fading[:, None])
    to = out + (start + queries).to(tl.int64)[:, None] * width + head * SIZE + columns
    tl.store(to, gathered / (total / keep_scale)[:, None], mask=is_query)
    tl.store(
        log_sums + (start + queries) * num_heads + head, top + tl.log2(total), mask=queries < length
    )


@triton.jit(do_not_specialize=["seed", "threshold", "left", "right"])
def attend_long_backward_queries(
    grad, qkv, tiles, starts, out, log_sums, deltas, qkv_grad, num_heads, scale, left, right,
    seed, threshold, keep_scale,
    DROPS: tl.constexpr, NEAR: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Make the gradient of a tile of queries, and leave each row's weighted sum for the keys."""
    text, head = tl.load(tiles + 2 * tl.program_id(0)), tl.program_id(1)
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    start = tl.load(starts + text)
    length = tl.load(starts + text + 1) - start
    columns = tl.arange(0, SIZE)
    width = num_heads * SIZE
    queries = first + tl.arange(0, QUERIES)
    is_query = (queries < length)[:, None] & (columns >= 0)[None, :]
    far = (start + queries).to(tl.int64)[:, None]
    q = tl.load(qkv + far * (3 * width) + head * SIZE + columns, mask=is_query, other=0.0)
    do = tl.load(grad + far * width + head * SIZE + columns, mask=is_query, other=0.0)
    o = tl.load(out + far * width + head * SIZE + columns, mask=is_query, other=0.0)
    rows = (start + queries) * num_heads + head
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) / keep_scale
    tl.store(deltas + rows, delta, mask=queries < length)
    log_sum = tl.load(log_sums + rows, mask=queries < length, other=0.0)
    dq = tl.zeros([QUERIES, SIZE], tl.float32)
    row_bits = scramble((start + queries) * num_heads + head, seed)[:, None]
    low = tl.maximum(first - left, 0) // KEYS * KEYS
    high = tl.minimum(length, first + QUERIES + tl.minimum(right, length))
    for begin in range(low, high, KEYS):
        keys = begin + tl.arange(0, KEYS)
        is_key = (keys < length)[:, None] & (columns >= 0)[None, :]
        near = qkv + (start + keys).to(tl.int64)[:, None] * (3 * width) + head * SIZE + columns
        k = tl.load(near + width, mask=is_key, other=0.0)
        v = tl.load(near + 2 * width, mask=is_key, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        if begin + KEYS > length:
            scores += tl.where(keys < length, 0.0, -1e30)[None, :]
        weights = tl.exp2(scores * scale - log_sum[:, None])
        if NEAR:
            weights = tl.where(_sees(queries[:, None], keys[None, :], left, right), weights, 0.0)
        dweights = tl.dot(do, tl.trans(v))
        if DROPS:
            is_kept = keeps(row_bits, scramble(keys, seed ^ 0x5BD1E995)[None, :], threshold)
            dweights = _drop(dweights, is_kept, scale)
        dscores = (weights * (dweights - delta[:, None])).to(k.dtype)
        dq = tl.dot(dscores, k, dq)
    to = qkv_grad + far * (3 * width) + head * SIZE + columns
    tl.store(to, dq * (scale * 0.6931471805599453 * keep_scale), mask=is_query)


@triton.jit(do_not_specialize=["seed", "threshold", "left", "right"])
def attend_long_backward_keys(
    grad, qkv, tiles, starts, log_sums, deltas, qkv_grad, num_heads, scale, left, right, seed,
    threshold, keep_scale,
    DROPS: tl.constexpr, NEAR: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Make the gradients of one tile of keys and values; the keys stand down the side."""
    text, head = tl.load(tiles + 2 * tl.program_id(0)), tl.program_id(1)
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    start = tl.load(starts + text)
    length = tl.load(starts + text + 1) - start
    columns = tl.arange(0, SIZE)
    width = num_heads * SIZE
    keys = first + tl.arange(0, KEYS)
    is_key = (keys < length)[:, None] & (columns >= 0)[None, :]
    far = (start + keys).to(tl.int64)[:, None]
    near = qkv + far * (3 * width) + head * SIZE + columns
    k = tl.load(near + width, mask=is_key, other=0.0)
    v = tl.load(near + 2 * width, mask=is_key, other=0.0)
    dk = tl.zeros([KEYS, SIZE], tl.float32)
    dv = tl.zeros([KEYS, SIZE], tl.float32)
    column_bits = scramble(keys, seed ^ 0x5BD1E995)[:, None]
    low = tl.maximum(first - tl.minimum(right, first), 0) // QUERIES * QUERIES
    high = tl.minimum(length, first + KEYS + tl.minimum(left, length))
    for begin in range(low, high, QUERIES):
        queries = begin + tl.arange(0, QUERIES)
        is_query = (queries < length)[:, None] & (columns >= 0)[None, :]
        there = (start + queries).to(tl.int64)[:, None]
        q = tl.load(qkv + there * (3 * width) + head * SIZE + columns, mask=is_query, other=0.0)
        do = tl.load(grad + there * width + head * SIZE + columns, mask=is_query, other=0.0)
        rows = (start + queries) * num_heads + head
        log_sum = tl.load(log_sums + rows, mask=queries < length, other=float("inf"))
        delta = tl.load(deltas + rows, mask=queries < length, other=0.0)
        scores = tl.dot(k, tl.trans(q)) * scale - log_sum[None, :]
        weights = tl.exp2(scores)  # 0 for queries beyond the text
        if NEAR:
            weights = tl.where(_sees(queries[None, :], keys[:, None], left, right), weights, 0.0)
        dweights = tl.dot(v, tl.trans(do))
        dropped = weights
        if DROPS:
            row_bits = scramble((start + queries) * num_heads + head, seed)[None, :]
            is_kept = keeps(row_bits, column_bits, threshold)
            dropped = _drop(weights, is_kept, scale)
            dweights = _drop(dweights, is_kept, scale)
        dv = tl.dot(dropped.to(do.dtype), do, dv)
        dk = tl.dot((weights * (dweights - delta[None, :])).to(q.dtype), q, dk)
    to = qkv_grad + far * (3 * width) + head * SIZE + columns
    tl.store(to + width, dk * (scale * 0.6931471805599453 * keep_scale), mask=is_key)
    tl.store(to + 2 * width, dv * keep_scale, mask=is_key)
