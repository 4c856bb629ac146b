"""From values to bins on a GPU: what the Triton programs do with the values in their registers.

With `TRITON_INTERPRET=1` in the environment the same code runs without a GPU, slowly.
"""

# Triton reads annotations when it compiles, so they must not be postponed to strings.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, I002, SIM102

import inspect

import triton
import triton.language as tl

WIDEN, HIT, ENCODE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # what is done
FLOAT32_MAX = tl.constexpr(3.4028234663852886e38)
NOBODY = tl.constexpr(2**31 - 1)

# Atomics of Triton's own would bring all values into the order of memory first, which takes longer
# than the model's attention. These take values where they are.
_IF = "{ .reg .pred p; setp.ne.s32 p, %s, 0; @p red.relaxed.gpu.global.%s; mov.u32 $0, 0; }"
OR = tl.constexpr(_IF % ("$2", "or.b32 [$1], $2"))
MIN = tl.constexpr(_IF % ("$3", "min.s32 [$1], $2"))
# Floats compare like integers, but for those below zero, which are the other way round.
_IF_FLOAT = (
    "{ .reg .pred p, n; setp.ne.s32 p, $3, 0; setp.lt.and.s32 n, $2, 0, p; "
    "setp.ge.and.s32 p, $2, 0, p; @p red.relaxed.gpu.global.%s.s32 [$1], $2; "
    "@n red.relaxed.gpu.global.%s.u32 [$1], $2; mov.u32 $0, 0; }"
)
LOWEST, HIGHEST = tl.constexpr(_IF_FLOAT % ("min", "max")), tl.constexpr(_IF_FLOAT % ("max", "min"))


STATES = ("query", "key", "value", "output")


def launched(program):
    """Compile a program for any sizes and addresses, but for those of a model's states.

    Triton would otherwise compile it anew for every combination of arguments that divide by 16.
    """
    parameters = inspect.signature(program).parameters
    constants = program.__annotations__
    anything = [name for name in parameters if name not in constants and name not in STATES]
    return triton.jit(do_not_specialize=anything)(program)


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
def code_of(value, ranges, bins, TIES: tl.constexpr):
    """Return the bin of each value, or -1.

    The definition is in double precision, which many GPUs are slow at. In its place, single
    precision names the nearest edge, and a sum of exact products says on which side of it the
    value is. A value exactly on an edge is where the definition puts it, for one bit of `TIES`.
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
    if TIES != 0:
        ties = tl.full(edge.shape, TIES, tl.int64) >> edge.to(tl.int64)
        below |= (side == 0) & ((ties & 1) != 0)
    code = edge.to(tl.int32) - below.to(tl.int32)
    return tl.where(inside, tl.minimum(code, bins - 1), -1)


@triton.jit
def or_at(at, got, PTX: tl.constexpr):
    """Set bits in memory."""
    if PTX and got.dtype == tl.int32:
        _ = tl.inline_asm_elementwise(
            OR, "=r,l,r", [at.to(tl.int64), got], tl.int32, is_pure=False, pack=1
        )
    else:
        tl.atomic_or(at, got, mask=got != 0, sem="relaxed")


@triton.jit
def min_at(at, value, wanted, PTX: tl.constexpr):
    """Lower numbers in memory, where wanted."""
    if PTX:
        _ = tl.inline_asm_elementwise(
            MIN,
            "=r,l,r,r",
            [at.to(tl.int64), value, wanted.to(tl.int32)],
            tl.int32,
            is_pure=False,
            pack=1,
        )
    else:
        tl.atomic_min(at, value, mask=wanted, sem="relaxed")


@triton.jit
def note_first(first, slot, slots, code, bit, seen, number, PTX: tl.constexpr):
    """Keep the smallest number of a text that hit a cell, unless the cell counts as hit already."""
    new = (bit & ~seen) != 0
    min_at(first + code.to(tl.int64) * slots + slot, number, new, PTX)
    return seen | bit


@triton.jit
def flush(
    bits, masked, current, slots, slot, got, got_masked, MASKED: tl.constexpr, PTX: tl.constexpr
):
    """Add what a program has got to the map of its texts."""
    at = current.to(tl.int64) * slots + slot
    or_at(bits + at, got, PTX)
    if MASKED:
        or_at(masked + at, got_masked, PTX)


@triton.jit
def take(
    code,
    kept,
    slot,
    place,
    state,
    bits,
    masked,
    first,
    first_masked,
    slots,
    MASKED: tl.constexpr,
    FIRST: tl.constexpr,
    PTX: tl.constexpr,
):
    """Add one text's codes to what a program has got so far, its `state`."""
    got, got_masked, seen, seen_masked, current = state
    number, mine = place
    if FIRST:  # known when compiling; the next is not
        if mine != current:
            flush(bits, masked, current, slots, slot, got, got_masked, MASKED, PTX)
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
        seen = note_first(first, slot, slots, code, bit, seen, number, PTX)
        if MASKED:
            seen_masked = note_first(
                first_masked, slot, slots, code, bit_masked, seen_masked, number, PTX
            )
    return got, got_masked, seen, seen_masked, current


@triton.jit
def place_of(row, numbers, which, FIRST: tl.constexpr):
    """Return a text's number and map; asked for early, they come while something else is done."""
    number = row
    mine = row
    if FIRST:
        number = tl.load(numbers + row)
        mine = tl.load(which + row)
    return number, mine


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
def end_at(at, value, wanted, HOW: tl.constexpr):
    """Move ends of ranges in memory, where wanted."""
    bits = value.to(tl.int32, bitcast=True)
    _ = tl.inline_asm_elementwise(
        HOW,
        "=r,l,r,r",
        [at.to(tl.int64), bits, wanted.to(tl.int32)],
        tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def stretch(low, high, slot, lo, hi, valid, PTX: tl.constexpr):
    """Stretch ranges in memory; the zero with a minus, which atomics take for very small, goes."""
    lo, hi = tl.where(lo == 0, 0.0, lo), tl.where(hi == 0, 0.0, hi)
    if PTX:
        end_at(low + slot, lo, valid, LOWEST)
        end_at(high + slot, hi, valid, HIGHEST)
    else:
        tl.atomic_min(low + slot, lo, mask=valid, sem="relaxed")
        tl.atomic_max(high + slot, hi, mask=valid, sem="relaxed")


@triton.jit
def odd_value(worst, row, values, valid):
    """Return the first text, per neuron, with a value that is not finite."""
    odd = valid & ~(tl.abs(values) <= FLOAT32_MAX)
    return tl.minimum(worst, tl.where(odd, row, NOBODY))


@triton.jit
def odd_row(worst, row, totals, valid):
    """Return the first text, per row of attention, with a weight that is not finite.

    One such weight, and the row's total is not finite either, or nothing.
    """
    odd = valid & ~((totals > 0) & (totals <= FLOAT32_MAX))
    return tl.minimum(worst, tl.where(odd, row, NOBODY))


@triton.jit
def report(faults, site, worst):
    """Remember the first text of a site with something odd."""
    tl.atomic_min(faults + site + tl.zeros_like(worst), worst, mask=worst < NOBODY, sem="relaxed")
