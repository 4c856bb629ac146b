"""The Triton program that looks up which tokens and pairs of a batch the masks let count."""

# Triton reads annotations when it compiles, so they must not be postponed to strings.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, I002

import triton.language as tl

from mncover.engine.kernels.triton_bins import launched

SPECIAL, KEPT = tl.constexpr(1), tl.constexpr(2)  # what a word's flags say


@launched
def look_up(
    ids,  # [texts, length]
    flags,  # [vocabulary]
    keys,  # [pairs], in order
    keep,  # [pairs] 1 or 0
    tokens,  # [texts, length], to be filled
    pairs,  # [texts, length, length], to be filled
    length,
    vocabulary,
    known,  # how many pairs there are
    steps,  # that a search among them takes
    unseen,  # whether a pair that is not among them counts
    BY_WORDS: tl.constexpr,  # it counts if both of its words do
    BLOCK: tl.constexpr,
):
    """Do what `MaskTable` does in a dozen torch operations, in one."""
    text = tl.program_id(0).to(tl.int64)
    x = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = x < length * length
    i, j = x // length, x % length
    a = tl.load(ids + text * length + i, mask=inside, other=0).to(tl.int64)
    b = tl.load(ids + text * length + j, mask=inside, other=0).to(tl.int64)
    about_a = tl.load(flags + a, mask=inside, other=0).to(tl.int32)
    about_b = tl.load(flags + b, mask=inside, other=0).to(tl.int32)
    key = tl.minimum(a, b) * vocabulary + tl.maximum(a, b)
    begin = tl.zeros([BLOCK], tl.int32)
    end = begin + known
    for _ in range(steps):
        searching = inside & (begin < end)
        middle = (begin + end) // 2
        higher = tl.load(keys + middle, mask=searching, other=0) < key
        begin = tl.where(searching & higher, middle + 1, begin)
        end = tl.where(searching & ~higher, middle, end)
    found = inside & (begin < known)
    found = found & (tl.load(keys + begin, mask=found, other=-1) == key)
    counts = tl.full([BLOCK], 0, tl.int32) + unseen
    if BY_WORDS:
        counts = (about_a & about_b & KEPT) // KEPT
    counts = tl.where(found, tl.load(keep + begin, mask=found, other=0).to(tl.int32), counts)
    always = (a == b) | (((about_a | about_b) & SPECIAL) != 0)
    counts = tl.where(always, 1, counts)
    tl.store(pairs + text * length * length + x, counts.to(tl.uint8), mask=inside)
    token = (about_a & KEPT) // KEPT
    tl.store(tokens + text * length + i, token.to(tl.uint8), mask=inside & (j == 0))
