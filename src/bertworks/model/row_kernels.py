"""Triton kernels for the steps between matrix products: one pass over memory each.

Imported only where a GPU computes; `fused.py` calls them and knows when. Dropout masks are a
function of (seed, row, column), so that a backward pass makes them again instead of reading them.
"""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def scramble(number, seed):
    """Return 32 random bits for each number, the last of them set."""
    bits = tl.cast(number, tl.uint32) * 0x9E3779B1 + tl.cast(seed, tl.uint32)
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return (bits ^ (bits >> 16)) | 1


@triton.jit
def keeps(row_bits, column_bits, threshold):
    """Tell for each place whether dropout keeps it, from the scrambled row and column.

    Rows and columns are scrambled once each; a place costs one multiplication. Odd numbers have an
    inverse modulo 2**32, so that along every row and column all products are alike likely.
    """
    return row_bits * column_bits >= tl.cast(threshold, tl.uint32)


@triton.jit(do_not_specialize=["seed", "threshold", "num_rows"])
def add_norm_forward(
    update, residual, weight, bias, total, normed, spread, num_rows, size, epsilon, seed,
    threshold, scale,
    HAS_RESIDUAL: tl.constexpr, HAS_BIAS: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Norm the sum: total = residual + dropout(update); spread = mean and 1 / deviation."""
    columns = tl.arange(0, BLOCK)
    far = tl.zeros([BLOCK], tl.int64)  # makes places of 64 bits
    column_bits = scramble(columns, seed ^ 0x5BD1E995)
    inside = columns < size
    gain = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        shift = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        at = (row + far) * size + columns
        x = tl.load(update + at, mask=inside, other=0.0).to(tl.float32)
        if DROPS:
            x = tl.where(keeps(scramble(row, seed), column_bits, threshold), x * scale, 0.0)
        if HAS_RESIDUAL:
            x += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
            x = x.to(total.dtype.element_ty).to(tl.float32)  # what the backward pass will read
            tl.store(total + at, x, mask=inside)
        mean = tl.sum(x, 0) / size
        centered = tl.where(inside, x - mean, 0.0)
        inverse = 1 / tl.sqrt(tl.sum(centered * centered, 0) / size + epsilon)
        y = centered * inverse * gain
        if HAS_BIAS:
            y += shift
        tl.store(normed + at, y, mask=inside)
        tl.store(spread + 2 * row, mean)
        tl.store(spread + 2 * row + 1, inverse)


@triton.jit(do_not_specialize=["seed", "threshold", "num_rows"])
def add_norm_backward(
    normed_grad, kept_grad, total, weight, spread, update_grad, residual_grad, gains, shifts,
    num_rows, size, seed, threshold, scale,
    KEPT: tl.constexpr, HAS_BIAS: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Undo `add_norm_forward`; each program leaves one row of partial weight gradients."""
    columns = tl.arange(0, BLOCK)
    far = tl.zeros([BLOCK], tl.int64)  # makes places of 64 bits
    column_bits = scramble(columns, seed ^ 0x5BD1E995)
    inside = columns < size
    gain = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    gain_sum = tl.zeros([BLOCK], tl.float32)
    shift_sum = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        at = (row + far) * size + columns
        dy = tl.load(normed_grad + at, mask=inside, other=0.0).to(tl.float32)
        if KEPT == "normed":
            dy += tl.load(kept_grad + at, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(total + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(spread + 2 * row)
        inverse = tl.load(spread + 2 * row + 1)
        unit = tl.where(inside, (x - mean) * inverse, 0.0)
        gain_sum += dy * unit
        if HAS_BIAS:
            shift_sum += dy
        dy *= gain
        dx = (dy - tl.sum(dy, 0) / size - unit * (tl.sum(dy * unit, 0) / size)) * inverse
        if KEPT == "total":
            dx += tl.load(kept_grad + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(residual_grad + at, dx, mask=inside)
        if DROPS:
            dropped = tl.where(keeps(scramble(row, seed), column_bits, threshold), dx * scale, 0.0)
            tl.store(update_grad + at, dropped, mask=inside)
    row = tl.program_id(0) * size + columns
    tl.store(gains + row, gain_sum, mask=inside)
    if HAS_BIAS:
        tl.store(shifts + row, shift_sum, mask=inside)


@triton.jit
def _normal(x):
    """Return the standard normal's distribution and density at x, from one exponential.

    The polynomial is Abramowitz and Stegun's 7.1.26; it is off by at most 1e-7.
    """
    bell = tl.exp2(x * x * -0.7213475204444817)  # e ** (-x * x / 2)
    t = 1 / (1 + 0.23164189 * tl.abs(x))
    tail = (
        (((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592
    ) * t
    above = 0.5 * tail * bell
    return tl.where(x > 0, 1 - above, above), bell * 0.3989422804014327


@triton.jit
def _bend(x, KIND: tl.constexpr):
    """Return the activation of x."""
    if KIND == "gelu":
        below, _ = _normal(x)
        return x * below
    if KIND == "gelu_tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return x * tl.sigmoid(2 * inner)
    if KIND == "silu":
        return x * tl.sigmoid(x)
    return tl.maximum(x, 0.0)


@triton.jit
def _slope(x, KIND: tl.constexpr):
    """Return the derivative of the activation at x."""
    if KIND == "gelu":
        below, density = _normal(x)
        return below + x * density
    if KIND == "gelu_tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        below = tl.sigmoid(2 * inner)
        rise = 0.7978845608028654 * (1 + 0.134145 * x * x)
        return below + 2 * x * below * (1 - below) * rise
    if KIND == "silu":
        below = tl.sigmoid(x)
        return below * (1 + x * (1 - below))
    return tl.where(x > 0, 1.0, 0.0)


@triton.jit(do_not_specialize=["num_rows"])
def bend_forward(
    x, bias, y, num_rows, inner,
    KIND: tl.constexpr, GATED: tl.constexpr, HAS_BIAS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Bend: y = act(x + bias); gated, the first half of the columns is bent, the second scales."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    width = inner * 2 if GATED else inner
    inside = (rows < num_rows)[:, None] & (columns < inner)[None, :]
    at = rows.to(tl.int64)[:, None] * width + columns[None, :]
    first = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        first += tl.load(bias + columns, mask=columns < inner, other=0.0).to(tl.float32)[None, :]
    out = _bend(first, KIND)
    if GATED:
        gate = tl.load(x + at + inner, mask=inside, other=0.0).to(tl.float32)
        if HAS_BIAS:
            shift = tl.load(bias + inner + columns, mask=columns < inner, other=0.0)
            gate += shift.to(tl.float32)[None, :]
        out *= gate
    tl.store(y + rows.to(tl.int64)[:, None] * inner + columns[None, :], out, mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def bend_backward(
    grad, x, bias, x_grad, sums, num_rows, inner,
    KIND: tl.constexpr, GATED: tl.constexpr, HAS_BIAS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, STEPS: tl.constexpr,
):
    """Undo `bend_forward`; a program walks down STEPS tiles and leaves their sums for the bias."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < inner
    width = inner * 2 if GATED else inner
    first_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    gate_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    if HAS_BIAS:
        first_shift = tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
        if GATED:
            gate_shift = tl.load(bias + inner + columns, mask=is_column, other=0.0)
            gate_shift = gate_shift.to(tl.float32)[None, :]
    for step in range(STEPS):
        rows = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (rows < num_rows)[:, None] & is_column[None, :]
        at = rows.to(tl.int64)[:, None] * width + columns[None, :]
        dy = tl.load(
            grad + rows.to(tl.int64)[:, None] * inner + columns[None, :], mask=inside, other=0.0
        ).to(tl.float32)
        first = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_BIAS:
            first += first_shift
        if GATED:
            gate = tl.load(x + at + inner, mask=inside, other=0.0).to(tl.float32)
            if HAS_BIAS:
                gate += gate_shift
            gate_grad = dy * _bend(first, KIND)
            tl.store(x_grad + at + inner, gate_grad, mask=inside)
            dy *= gate
        first_grad = dy * _slope(first, KIND)
        tl.store(x_grad + at, first_grad, mask=inside)
        if HAS_BIAS:
            first_sum += first_grad
            if GATED:
                gate_sum += gate_grad
    if HAS_BIAS:
        at_sum = sums + tl.program_id(0) * width + columns
        tl.store(at_sum, tl.sum(first_sum, 0), mask=is_column)
        if GATED:
            tl.store(at_sum + inner, tl.sum(gate_sum, 0), mask=is_column)


@triton.jit
def cross_entropy_forward(
    logits, values, losses, log_sums, num_pieces, stride, ignored, z_weight, BLOCK: tl.constexpr
):
    """Read one row of logits once, for its loss and the logarithm of its sum of exponentials."""
    row = tl.program_id(0)
    start = logits + row.to(tl.int64) * stride
    value = tl.load(values + row)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, num_pieces, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        x = tl.load(start + columns, mask=columns < num_pieces, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, x)
        # A lane that saw nothing yet has -inf on both sides, and no sum to carry over.
        total = total * tl.where(higher == highest, 1.0, tl.exp(highest - higher))
        total += tl.where(x == float("-inf"), 0.0, tl.exp(x - higher))
        highest = higher
    top = tl.max(highest, 0)
    log_sum = top + tl.log(tl.sum(total * tl.exp(highest - top), 0))
    is_asked = value != ignored
    own = tl.load(start + tl.where(is_asked, value, 0)).to(tl.float32)
    tl.store(log_sums + row, log_sum)
    tl.store(losses + row, tl.where(is_asked, log_sum - own + z_weight * log_sum * log_sum, 0.0))


@triton.jit
def cross_entropy_backward(
    logits, values, log_sums, grad, num_pieces, stride, ignored, z_weight, BLOCK: tl.constexpr
):
    """Put the gradient of one row in the place of its logits, and 0 up to the next row."""
    row = tl.program_id(0)
    start = logits + row.to(tl.int64) * stride
    value = tl.load(values + row)
    log_sum = tl.load(log_sums + row)
    scale = tl.where(value != ignored, tl.load(grad + row).to(tl.float32), 0.0)
    steepness = 1 + 2 * z_weight * log_sum
    for first in range(0, stride, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        inside = columns < num_pieces
        x = tl.load(start + columns, mask=inside, other=float("-inf")).to(tl.float32)
        dx = tl.exp(x - log_sum) * steepness - tl.where(columns == value, 1.0, 0.0)
        tl.store(start + columns, dx * scale, mask=columns < stride)


@triton.jit(do_not_specialize=["seed"])
def draw_forward(logits, drawn, num_pieces, stride, seed, BLOCK: tl.constexpr):
    """Draw from the softmax of one row, read once: the highest of its logits with Gumbel's noise.

    The noise of a piece is -log(-log(chance)); of a chance of 0 it is never the highest, and one of
    1, which would always be, is taken for the number below.
    """
    row = tl.program_id(0)
    start = logits + row.to(tl.int64) * stride
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.zeros([BLOCK], tl.int32)
    for first in range(0, num_pieces, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        x = tl.load(start + columns, mask=columns < num_pieces, other=float("-inf")).to(tl.float32)
        chance = tl.minimum(tl.rand(seed + row, columns), 1 - 2.0**-24)
        noisy = x - tl.log(-tl.log(chance))
        place = tl.where(noisy > highest, columns, place)
        highest = tl.maximum(highest, noisy)
    top = tl.max(highest, 0)
    tl.store(drawn + row, tl.min(tl.where(highest == top, place, num_pieces), 0).to(tl.int64))
