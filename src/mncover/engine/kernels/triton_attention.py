"""The Triton programs that compute attention and read its weights, which are never written.

A program takes a tile of one head's attention and a part of a batch's texts.
"""

# Triton reads annotations when it compiles, so they must not be postponed to strings.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, C901, I002

import triton
import triton.language as tl

from mncover.engine.kernels.triton_bins import (
    ENCODE,
    HIT,
    NOBODY,
    WIDEN,
    code_of,
    flush,
    fresh_state,
    launched,
    odd_row,
    place_of,
    report,
    scaled,
    stretch,
    take,
)


@triton.jit
def rounded(x, PRECISION: tl.constexpr):
    """Round to the nearest number of ten binary digits, as torch's products do in TF32.

    The hardware drops the other digits, which is twice as far away.
    """
    if PRECISION == "tf32" and x.dtype == tl.float32:
        whole = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
        x = whole.to(tl.float32, bitcast=True)
    return x


@triton.jit
def scores_of(q, k, scale, rows, columns, length, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):
    """Return the scores of a tile, rounded where a model's own code would round, -inf outside."""
    q, k = rounded(q, PRECISION), rounded(k, PRECISION)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if q.dtype != tl.float32:
        scores = scores.to(q.dtype).to(tl.float32)
    scores = scores * scale
    if q.dtype != tl.float32:
        scores = scores.to(q.dtype).to(tl.float32)
    allowed = (rows < length)[:, None] & (columns < length)[None, :]
    if CAUSAL:
        allowed &= columns[None, :] <= rows[:, None]
    return tl.where(allowed, scores, float("-inf"))


@triton.jit
def states_of(states, rows, stride, length, WIDTH: tl.constexpr, D: tl.constexpr):
    """Return the states [rows, D] of some positions of one text's head; 0 where there are none."""
    d = tl.arange(0, D)
    inside = (rows < length)[:, None] & (d < WIDTH)[None, :]
    return tl.load(states + rows[:, None] * stride + d[None, :], mask=inside, other=0.0)


@launched
def row_totals(
    query,
    key,
    tops,  # [texts, heads, length] the largest score of each row
    totals,  # the sum of its exponentials
    q_text,
    q_head,
    q_row,
    k_text,
    k_head,
    k_row,
    heads,
    shared,
    length,
    scale,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    STEP: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    WIDTH: tl.constexpr,
    D: tl.constexpr,
):
    """Go through the rows of long texts once: what `attend` needs to know of a whole row."""
    q_text, q_head, q_row = q_text * STEP, q_head * STEP, q_row * STEP
    k_text, k_head, k_row = k_text * STEP, k_head * STEP, k_row * STEP
    text, head = tl.program_id(1).to(tl.int64), tl.program_id(2)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    q = states_of(query + text * q_text + head * q_head, rows, q_row, length, WIDTH, D)
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    for begin in range(0, length, N):
        columns = begin + tl.arange(0, N)
        source = key + text * k_text + head // shared * k_head
        k = states_of(source, columns, k_row, length, WIDTH, D)
        scores = scores_of(q, k, scale, rows, columns, length, CAUSAL, PRECISION)
        higher = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(scores - base[:, None]), 1)
        top = higher
    at = (text * heads + head) * length + rows
    tl.store(tops + at, top, mask=rows < length)
    tl.store(totals + at, total, mask=rows < length)


@launched
def attend(
    query,
    key,
    value,
    output,  # [texts, length, heads, width]
    tops,
    totals,
    keep,  # [texts, length * length] 1 or 0
    codes,  # [texts, heads, length * length]
    site,
    start,
    low,
    high,
    bits,
    masked,
    old,
    old_masked,
    first,
    first_masked,
    index,
    numbers,
    which,
    faults,
    q_text,
    q_head,
    q_row,
    k_text,
    k_head,
    k_row,
    v_text,
    v_head,
    v_row,
    texts,
    heads,
    shared,  # heads that share a key and a value
    length,
    scale,
    row_stride,
    group_stride,
    slots,
    bins,
    part,
    none,
    MODE: tl.constexpr,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
    LONG: tl.constexpr,
    TIES: tl.constexpr,
    PTX: tl.constexpr,
    CAUSAL: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    STEP: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    WIDTH: tl.constexpr,
    D: tl.constexpr,
):
    """Compute attention weights of a head, widen or bin them, and, if `WHOLE`, the output too.

    `WHOLE`: a tile has all columns. Otherwise `row_totals` went before, and only weights are read.
    """
    # Multiplying tells the compiler what they divide by.
    q_text, q_head, q_row = q_text * STEP, q_head * STEP, q_row * STEP
    k_text, k_head, k_row = k_text * STEP, k_head * STEP, k_row * STEP
    v_text, v_head, v_row = v_text * STEP, v_head * STEP, v_row * STEP
    head = tl.program_id(1)
    across = tl.cdiv(length, N)
    rows = tl.program_id(2) // across * M + tl.arange(0, M)
    columns = tl.program_id(2) % across * N + tl.arange(0, N)
    valid = (rows < length)[:, None] & (columns < length)[None, :]
    if CAUSAL:
        valid &= columns[None, :] <= rows[:, None]
    slot = start + head * group_stride + rows[:, None] * row_stride + columns[None, :]
    inner = rows[:, None] * length + columns[None, :]
    lo = tl.load(low + slot, mask=valid, other=float("inf"))
    hi = tl.load(high + slot, mask=valid, other=float("-inf"))
    begin = tl.program_id(0) * part
    end = tl.minimum(begin + part, texts)
    wide = (begin * 0).to(tl.int64)  # what is added to it has 64 bits
    ranges = scaled(lo, hi, bins)
    state = fresh_state(old, old_masked, which, index, begin, slot, valid, LONG, MASKED, FIRST)
    next_row = tl.load(index + begin)
    worst = tl.full([M], NOBODY, tl.int32)
    for i in range(begin, end):
        text = i + wide
        # What is asked for here comes while attention is computed.
        row = next_row
        next_row = tl.load(index + i + 1, mask=i + 1 < end, other=0)
        place = place_of(row, numbers, which, FIRST)
        kept = slot
        if MASKED:
            kept = tl.load(keep + text * length * length + inner, mask=valid, other=0)
        q = states_of(query + text * q_text + head * q_head, rows, q_row, length, WIDTH, D)
        source = key + text * k_text + head // shared * k_head
        k = states_of(source, columns, k_row, length, WIDTH, D)
        scores = scores_of(q, k, scale, rows, columns, length, CAUSAL, PRECISION)
        if WHOLE:
            top = tl.max(scores, 1)
            weights = tl.exp(scores - tl.where(top == float("-inf"), 0.0, top)[:, None])
            total = tl.sum(weights, 1)
            weights = weights / tl.where(total == 0, 1.0, total)[:, None]
        else:
            at = (text * heads + head) * length + rows
            top = tl.load(tops + at, mask=rows < length, other=0.0)
            total = tl.load(totals + at, mask=rows < length, other=1.0)
            weights = tl.exp(scores - top[:, None]) / total[:, None]
        weights = weights.to(q.dtype)
        if WHOLE:
            source = value + text * v_text + head // shared * v_head
            v = states_of(source, columns, v_row, length, WIDTH, D)
            mixed = tl.dot(
                rounded(weights, PRECISION), rounded(v, PRECISION), input_precision=PRECISION
            )
            d = tl.arange(0, D)
            target = output + ((text * length + rows[:, None]) * heads + head) * WIDTH
            inside = (rows < length)[:, None] & (d < WIDTH)[None, :]
            tl.store(target + d[None, :], mixed.to(q.dtype), mask=inside)
        w = weights.to(tl.float32)
        worst = odd_row(worst, row, total, rows < length)
        if MODE == WIDEN:
            lo = tl.where(w < lo, w, lo)
            hi = tl.where(w > hi, w, hi)
        else:
            code = code_of(w, ranges, bins, TIES)
            if MODE == ENCODE:
                at = (text * heads + head) * length * length + inner
                inside = (rows < length)[:, None] & (columns < length)[None, :]
                tl.store(codes + at, tl.where(code >= 0, code, none), mask=inside)
            else:
                # fmt: off
                state = take(
                    code, kept, slot, place, state, bits, masked, first, first_masked,
                    slots, MASKED, FIRST, PTX,
                )
                # fmt: on
    report(faults, site, worst)
    if MODE == WIDEN:
        stretch(low, high, slot, lo, hi, valid & (lo <= hi), PTX)
    if MODE == HIT:
        flush(bits, masked, state[4], slots, slot, state[0], state[1], MASKED, PTX)
