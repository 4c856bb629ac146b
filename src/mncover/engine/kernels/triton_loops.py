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
NOBODY = tl.constexpr(2**31 - 1)  # the number of no text: larger than that of any


def launched(program):
    """Compile a program for any sizes and addresses: what it may rely on is a constant of its own.

    Triton would otherwise compile it anew for every combination of arguments that divide by 16.
    """
    parameters = inspect.signature(program).parameters
    given = [name for name in parameters if name not in program.__annotations__]
    options = {"do_not_specialize": given, "do_not_specialize_on_alignment": given}
    return triton.jit(**options)(program)


@triton.jit
def any_of(flags):
    return tl.max(tl.reshape(flags.to(tl.int32), [flags.numel]), 0) > 0


@triton.jit
def scale_of(low, high, bins):
    """Return what turns a distance from `low` into a position among the bins, and where to doubt.

    Ranges so wide or so narrow that single precision overflows are always computed exactly.
    """
    span = high - low
    varied = high > low
    risky = varied & ~((span > 1e-30) & (span < 1e30))
    return tl.where(varied & ~risky, bins / tl.where(varied, span, 1.0), 0.0), risky


@triton.jit
def code_of(value, low, high, scale, risky, bins):
    """Return the bin of each value, or -1.

    The definition is in double precision, which many GPUs are slow at. Single precision errs by
    less than a millionth of the range, so only values that close to an edge are computed again.
    """
    inside = (value >= low) & (value <= high)
    position = tl.where(inside, (value - low) * scale, 0.0)
    edge = tl.floor(position + 0.5)
    near = (tl.abs(position - edge) < 1e-6 * bins) & (edge > 0) & (edge < bins)
    doubtful = inside & (near | risky)
    code = position.to(tl.int32)
    if any_of(doubtful):
        lo = low.to(tl.float64)
        span = tl.where(doubtful, high.to(tl.float64) - lo, 1.0)
        exact = (tl.where(doubtful, value, low).to(tl.float64) - lo) / span * bins
        code = tl.where(doubtful, exact.to(tl.int32), code)
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
def report(faults, site, bad):
    """Remember the first text of a site with a value that is not finite."""
    worst = tl.min(tl.reshape(bad, [bad.numel]), 0)
    tl.atomic_min(faults + site, worst, mask=worst != NOBODY, sem="relaxed")


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
    bad = tl.full([BLOCK], NOBODY, tl.int32)
    begin = tl.program_id(1) * part
    end = tl.minimum(begin + part, texts)
    wide = (begin * 0).to(tl.int64)  # what is added to it has 64 bits
    if MODE == WIDEN:
        for i in range(begin, end):
            v = tl.load(values + (i + wide) * neurons + x, mask=valid, other=0.0).to(tl.float32)
            odd = valid & ~(tl.abs(v) <= FLOAT32_MAX)
            bad = tl.where(odd, tl.minimum(bad, tl.load(index + i)), bad)
            lo = tl.where(v < lo, v, lo)
            hi = tl.where(v > hi, v, hi)
        stretch(low, high, slot, lo, hi, valid)
    else:
        scale, risky = scale_of(lo, hi, bins)
        kept_at = inner // per_keep
        kept_per_text = per_group // per_keep
        state = fresh_state(old, old_masked, which, index, begin, slot, valid, LONG, MASKED, FIRST)
        for i in range(begin, end):
            at = (i + wide) * neurons + x
            v = tl.load(values + at, mask=valid, other=0.0).to(tl.float32)
            row = tl.load(index + i)
            bad = tl.where(valid & ~(tl.abs(v) <= FLOAT32_MAX), tl.minimum(bad, row), bad)
            code = code_of(v, lo, hi, scale, risky, bins)
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
    report(faults, site, bad)


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
def states_of(states, rows, width, stride, length, D: tl.constexpr):
    """Return the states [rows, D] of some positions of one text's head; 0 where there are none."""
    d = tl.arange(0, D)
    inside = (rows < length)[:, None] & (d < width)[None, :]
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
    width,
    scale,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    """Go through the rows of long texts once: what `attend` needs to know of a whole row."""
    text, head = tl.program_id(1).to(tl.int64), tl.program_id(2)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    q = states_of(query + text * q_text + head * q_head, rows, width, q_row, length, D)
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    for begin in range(0, length, N):
        columns = begin + tl.arange(0, N)
        source = key + text * k_text + head // shared * k_head
        k = states_of(source, columns, width, k_row, length, D)
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
    width,
    scale,
    row_stride,
    group_stride,
    start,
    slots,
    bins,
    part,
    none,
    MODE: tl.constexpr,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
    LONG: tl.constexpr,
    CAUSAL: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNED: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    """Compute attention weights of a head, widen or bin them, and, if `WHOLE`, the output too.

    `WHOLE`: a tile has all columns. Otherwise `row_totals` went before, and only weights are read.
    """
    if ALIGNED:
        query, key, value = (
            tl.multiple_of(query, 16),
            tl.multiple_of(key, 16),
            tl.multiple_of(value, 16),
        )
        q_text, q_head, q_row = (
            tl.multiple_of(q_text, 16),
            tl.multiple_of(q_head, 16),
            tl.multiple_of(q_row, 16),
        )
        k_text, k_head, k_row = (
            tl.multiple_of(k_text, 16),
            tl.multiple_of(k_head, 16),
            tl.multiple_of(k_row, 16),
        )
        v_text, v_head, v_row = (
            tl.multiple_of(v_text, 16),
            tl.multiple_of(v_head, 16),
            tl.multiple_of(v_row, 16),
        )
        output, width = tl.multiple_of(output, 16), tl.multiple_of(width, 16)
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
    bad = tl.full([M, N], NOBODY, tl.int32)
    begin = tl.program_id(0) * part
    end = tl.minimum(begin + part, texts)
    wide = (begin * 0).to(tl.int64)  # what is added to it has 64 bits
    scaling, risky = scale_of(lo, hi, bins)
    state = fresh_state(old, old_masked, which, index, begin, slot, valid, LONG, MASKED, FIRST)
    for i in range(begin, end):
        text = i + wide
        row = tl.load(index + i)
        q = states_of(query + text * q_text + head * q_head, rows, width, q_row, length, D)
        source = key + text * k_text + head // shared * k_head
        k = states_of(source, columns, width, k_row, length, D)
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
            v = states_of(source, columns, width, v_row, length, D)
            mixed = tl.dot(weights, v, input_precision=PRECISION)
            d = tl.arange(0, D)
            target = output + (text * length + rows[:, None]) * heads * width + head * width
            inside = (rows < length)[:, None] & (d < width)[None, :]
            tl.store(target + d[None, :], mixed.to(q.dtype), mask=inside)
        w = weights.to(tl.float32)
        bad = tl.where(valid & ~(tl.abs(w) <= FLOAT32_MAX), tl.minimum(bad, row), bad)
        if MODE == WIDEN:
            lo = tl.where(w < lo, w, lo)
            hi = tl.where(w > hi, w, hi)
        else:
            code = code_of(w, lo, hi, scaling, risky, bins)
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
    report(faults, site, bad)
