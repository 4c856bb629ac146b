"""The Triton program that reads values from memory: hidden states, or attention weights.

A program takes some neurons of one site and a part of a batch's texts. It holds the ranges of its
neurons in registers, goes through its texts, and writes to memory once, at the end.
"""

# Triton reads annotations when it compiles, so they must not be postponed to strings.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, I002

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
    odd_value,
    place_of,
    report,
    scaled,
    stretch,
    take,
)


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
    codes,  # [texts, neurons]
    low,
    high,
    bits,  # [maps, slots]
    masked,
    old,  # [slots] cells that count as hit before
    old_masked,
    first,  # [bins, slots]
    first_masked,
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
    TIES: tl.constexpr,
    PTX: tl.constexpr,
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
    worst = tl.full([BLOCK], NOBODY, tl.int32)
    if MODE == WIDEN:
        for i in range(begin, end):
            v = tl.load(values + (i + wide) * neurons + x, mask=valid, other=0.0).to(tl.float32)
            worst = odd_value(worst, tl.load(index + i), v, valid)
            lo = tl.where(v < lo, v, lo)
            hi = tl.where(v > hi, v, hi)
        stretch(low, high, slot, lo, hi, valid, PTX)
    else:
        ranges = scaled(lo, hi, bins)
        kept_at = inner // per_keep
        kept_per_text = per_group // per_keep
        state = fresh_state(old, old_masked, which, index, begin, slot, valid, LONG, MASKED, FIRST)
        for i in range(begin, end):
            at = (i + wide) * neurons + x
            row = tl.load(index + i)
            place = place_of(row, numbers, which, FIRST)
            v = tl.load(values + at, mask=valid, other=0.0).to(tl.float32)
            worst = odd_value(worst, row, v, valid)
            code = code_of(v, ranges, bins, TIES)
            if MODE == ENCODE:
                tl.store(codes + at, tl.where(code >= 0, code, none), mask=valid)
            else:
                kept = code
                if MASKED:
                    kept = tl.load(keep + (i + wide) * kept_per_text + kept_at, mask=valid, other=0)
                # fmt: off
                state = take(
                    code, kept, slot, place, state, bits, masked, first, first_masked,
                    slots, MASKED, FIRST, PTX,
                )
                # fmt: on
        if MODE == HIT:
            flush(bits, masked, state[4], slots, slot, state[0], state[1], MASKED, PTX)
    report(faults, site, worst)
