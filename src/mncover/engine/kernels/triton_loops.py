"""From values to bins on a GPU: Triton programs over blocks of neurons.

A program takes some neurons of one site and a part of a batch's texts. It holds the ranges of its
neurons in registers, goes through its texts, and writes to memory once, at the end. Attention
weights come from memory, or are computed on the spot (`attend`) and never written.

With `TRITON_INTERPRET=1` in the environment the same code runs without a GPU, slowly.
"""

# Triton reads annotations when it compiles, so they must not be postponed to strings.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, C901, D103, I002

import inspect

import triton
import triton.language as tl

WIDEN, HIT, ENCODE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # what is done
FLOAT32_MAX = tl.constexpr(3.4028234663852886e38)


STATES = ("query", "key", "value", "output")


def launched(program):
    """Compile a program for any sizes and addresses, but for those of a model's states.

    Triton would otherwise compile it anew for every combination of arguments that divide by 16.
    """
    parameters = inspect.signature(program).parameters
    given = [name for name in parameters if name not in program.__annotations__]
    anywhere = [name for name in given if name not in STATES]
    return triton.jit(do_not_specialize=given, do_not_specialize_on_alignment=anywhere)(program)


@triton.jit
def rest_of(a, b, difference):
    """Return what rounding took from the difference of a and b; the sum of both is exact."""
    about_b = a - difference
    return (a - (difference + about_b)) + (about_b - b)


@triton.jit
def halves_of(x):
    """Return the first twelve binary digits of numbers, and the rest: small products are exact."""
    first = (x.to(tl.int32, bitcast=True) & -4096).to(tl.float32, bitcast=True)
    return first, x - first


@triton.jit
def scaled(low, high, bins):
    """Return ranges as `code_of` takes them: low, high, bins per span, and a factor for all.

    The factor, a power of two, brings ranges so wide or so narrow that single precision would
    overflow to where it does not.
    """
    varied = high > low
    largest = tl.where(varied, tl.maximum(tl.abs(low), tl.abs(high)), 0.0)
    narrow = tl.where(varied, high - low, 1.0)
    widest = tl.max(tl.reshape(largest, [largest.numel]), 0)
    narrowest = tl.min(tl.reshape(narrow, [narrow.numel]), 0)
    factor = tl.where(widest > 1e30, 2.0**-40, tl.where(narrowest < 1e-30, 2.0**80, 1.0))
    low, high = low * factor, high * factor
    return low, high, tl.where(varied, bins / tl.where(varied, high - low, 1.0), 0.0), factor


@triton.jit
def code_of(value, ranges, bins, ties):
    """Return the bin of each value, or -1.

    The definition is in double precision, which many GPUs are slow at. In its place, single
    precision names the nearest edge, and a sum of exact products says on which side of it the
    value is. A value exactly on an edge is where the definition puts it, for one bit of `ties`.
    """
    low, high, scale, factor = ranges
    value, span = value * factor, tl.where(high > low, high - low, 0.0)
    inside = (value >= low) & (value <= high)
    away = tl.where(inside, value - low, 0.0)
    left = rest_of(value, low, away)  # unless double precision would not see it either
    left = tl.where(inside & (tl.abs(left) > tl.abs(away) * 2.0**-54), left, 0.0)
    span_left = rest_of(high, low, span)
    span_left = tl.where(tl.abs(span_left) > span * 2.0**-54, span_left, 0.0)
    edge = tl.minimum(tl.floor(away * scale + 0.5), bins)
    away_1, away_2 = halves_of(away)
    span_1, span_2 = halves_of(span)
    rest = (away_2 * bins - edge * span_2) + (left * bins - edge * span_left)
    side = (away_1 * bins - edge * span_1) + rest
    below = side < 0
    if ties != 0:
        below |= (side == 0) & (((ties >> edge.to(tl.int64)) & 1) != 0)
    code = edge.to(tl.int32) - below.to(tl.int32)
    return tl.where(inside, tl.minimum(code, bins - 1), -1)


@triton.jit
def flush(bits, slot, got):
    """Set the bits that a map lacks; most are there already, and reading is cheap."""
    before = tl.load(bits + slot, mask=got != 0, other=0)
    tl.atomic_or(bits + slot, got, mask=(got & ~before) != 0, sem="relaxed")


@triton.jit
def note_first(first, slot, slots, code, bit, seen, number):
    """Keep the smallest number of a text that hit a cell, unless the cell counts as hit already."""
    new = (bit & ~seen) != 0
    tl.atomic_min(first + code.to(tl.int64) * slots + slot, number, mask=new, sem="relaxed")
    return seen | bit


@triton.jit
def flush_both(bits, masked, current, slots, slot, got, got_masked, MASKED: tl.constexpr):
    base = current.to(tl.int64) * slots
    flush(bits + base, slot, got)
    if MASKED:
        flush(masked + base, slot, got_masked)


@triton.jit
def take(
    code,
    kept,
    slot,
    row,
    state,
    bits,
    masked,
    first,
    first_masked,
    numbers,
    which,
    slots,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Add one text's codes to what a program has got so far, its `state`."""
    got, got_masked, seen, seen_masked, current = state
    if FIRST:
        mine = tl.load(which + row)
        if mine != current:
            flush_both(bits, masked, current, slots, slot, got, got_masked, MASKED)
            got = tl.zeros_like(got)
            got_masked = tl.zeros_like(got)
            current = mine
    bit = tl.where(code >= 0, tl.full(got.shape, 1, got.dtype) << tl.maximum(code, 0), 0)
    bit_masked = bit
    got |= bit
    if MASKED:
        bit_masked = tl.where(kept != 0, bit, 0)
        got_masked |= bit_masked
    if FIRST:
        number = tl.load(numbers + row)
        seen = note_first(first, slot, slots, code, bit, seen, number)
        if MASKED:
            seen_masked = note_first(
                first_masked, slot, slots, code, bit_masked, seen_masked, number
            )
    return got, got_masked, seen, seen_masked, current


@triton.jit
def fresh_state(
    old,
    old_masked,
    which,
    index,
    begin,
    slot,
    valid,
    LONG: tl.constexpr,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Return a program's state before its first text: nothing got, what was hit before seen."""
    got = tl.zeros(slot.shape, tl.int64 if LONG else tl.int32)
    seen = got
    seen_masked = got
    if FIRST:
        seen = tl.load(old + slot, mask=valid, other=0)
        if MASKED:
            seen_masked = tl.load(old_masked + slot, mask=valid, other=0)
    current = begin * 0
    if FIRST:
        current = tl.load(which + tl.load(index + begin))
    return got, got, seen, seen_masked, current


@triton.jit
def stretch(low, high, slot, lo, hi, valid):
    """Stretch ranges in memory; the zero with a minus, which atomics take for very small, goes."""
    tl.atomic_min(low + slot, tl.where(lo == 0, 0.0, lo), mask=valid, sem="relaxed")
    tl.atomic_max(high + slot, tl.where(hi == 0, 0.0, hi), mask=valid, sem="relaxed")


@triton.jit
def check(faults, site, row, values, valid):
    """Remember the first text of a site with a value that is not finite."""
    odd = valid & ~(tl.abs(values) <= FLOAT32_MAX)
    tl.atomic_min(faults + site + tl.zeros_like(odd.to(tl.int32)), row, mask=odd, sem="relaxed")


@launched
def read_values(
    values_0,  # addresses of [texts, neurons], one for each of several sites in a row
    values_1,
    values_2,
    values_3,
    values_4,
    values_5,
    values_6,
    values_7,
    keep,  # [texts, kept] 1 or 0
    low,
    high,
    bits,  # [maps, slots]
    masked,
    old,  # [slots] cells that count as hit before
    old_masked,
    first,  # [bins, slots]
    first_masked,
    codes,  # [texts, neurons]
    index,  # [texts] the row of each in `numbers` and `which`
    numbers,
    which,
    faults,
    site,
    texts,
    neurons,
    per_group,
    columns,
    row_stride,
    group_stride,
    neurons_per_site,
    start,
    slots,
    bins,
    ties,
    part,
    per_keep,
    none,
    MODE: tl.constexpr,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
    LONG: tl.constexpr,
    ALIGNED: tl.constexpr,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Widen ranges by, hit the bins of, or write the codes of values in memory."""
    which_site = tl.program_id(2)
    address = tl.where(which_site == 1, values_1, values_0)
    address = tl.where(which_site == 2, values_2, address)
    address = tl.where(which_site == 3, values_3, address)
    address = tl.where(which_site == 4, values_4, address)
    address = tl.where(which_site == 5, values_5, address)
    address = tl.where(which_site == 6, values_6, address)
    address = tl.where(which_site == 7, values_7, address)
    values = address.to(tl.pointer_type(KIND))
    site += which_site
    start += which_site * neurons_per_site
    if ALIGNED:
        values, neurons = tl.multiple_of(values, 16), tl.multiple_of(neurons, 16)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = x < neurons
    inner = x % per_group
    slot = start + x // per_group * group_stride + inner // columns * row_stride + inner % columns
    lo = tl.load(low + slot, mask=valid, other=float("inf"))
    hi = tl.load(high + slot, mask=valid, other=float("-inf"))
    begin = tl.program_id(1) * part
    end = tl.minimum(begin + part, texts)
    wide = (begin * 0).to(tl.int64)  # what is added to it has 64 bits
    if MODE == WIDEN:
        for i in range(begin, end):
            v = tl.load(values + (i + wide) * neurons + x, mask=valid, other=0.0).to(tl.float32)
            check(faults, site, tl.load(index + i), v, valid)
            lo = tl.where(v < lo, v, lo)
            hi = tl.where(v > hi, v, hi)
        stretch(low, high, slot, lo, hi, valid)
    else:
        ranges = scaled(lo, hi, bins)
        kept_at = inner // per_keep
        kept_per_text = per_group // per_keep
        state = fresh_state(old, old_masked, which, index, begin, slot, valid, LONG, MASKED, FIRST)
        for i in range(begin, end):
            at = (i + wide) * neurons + x
            v = tl.load(values + at, mask=valid, other=0.0).to(tl.float32)
            row = tl.load(index + i)
            check(faults, site, row, v, valid)
            code = code_of(v, ranges, bins, ties)
            if MODE == ENCODE:
                tl.store(codes + at, tl.where(code >= 0, code, none), mask=valid)
            else:
                kept = code
                if MASKED:
                    kept = tl.load(keep + (i + wide) * kept_per_text + kept_at, mask=valid, other=0)
                # fmt: off
                state = take(
                    code, kept, slot, row, state, bits, masked, first, first_masked,
                    numbers, which, slots, MASKED, FIRST,
                )
                # fmt: on
        if MODE == HIT:
            flush_both(bits, masked, state[4], slots, slot, state[0], state[1], MASKED)


@triton.jit
def scores_of(q, k, scale, rows, columns, length, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):
    """Return the scores of a tile, rounded where a model's own code would round, -inf outside."""
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
    low,
    high,
    bits,
    masked,
    old,
    old_masked,
    first,
    first_masked,
    codes,  # [texts, heads, length * length]
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
    site,
    texts,
    heads,
    shared,  # heads that share a key and a value
    length,
    scale,
    row_stride,
    group_stride,
    start,
    slots,
    bins,
    ties,
    part,
    none,
    MODE: tl.constexpr,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
    LONG: tl.constexpr,
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
    for i in range(begin, end):
        text = i + wide
        row = tl.load(index + i)
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
            mixed = tl.dot(weights, v, input_precision=PRECISION)
            d = tl.arange(0, D)
            target = output + ((text * length + rows[:, None]) * heads + head) * WIDTH
            inside = (rows < length)[:, None] & (d < WIDTH)[None, :]
            tl.store(target + d[None, :], mixed.to(q.dtype), mask=inside)
        w = weights.to(tl.float32)
        check(faults, site, row, w, valid)
        if MODE == WIDEN:
            lo = tl.where(w < lo, w, lo)
            hi = tl.where(w > hi, w, hi)
        else:
            code = code_of(w, ranges, bins, ties)
            if MODE == ENCODE:
                at = (text * heads + head) * length * length + inner
                inside = (rows < length)[:, None] & (columns < length)[None, :]
                tl.store(codes + at, tl.where(code >= 0, code, none), mask=inside)
            else:
                kept = code
                if MASKED:
                    kept = tl.load(keep + text * length * length + inner, mask=valid, other=0)
                # fmt: off
                state = take(
                    code, kept, slot, row, state, bits, masked, first, first_masked,
                    numbers, which, slots, MASKED, FIRST,
                )
                # fmt: on
    if MODE == WIDEN:
        stretch(low, high, slot, lo, hi, valid & (lo <= hi))
    if MODE == HIT:
        flush_both(bits, masked, state[4], slots, slot, state[0], state[1], MASKED)
