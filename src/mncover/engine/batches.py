"""Texts as token numbers, grouped so that no batch ever needs padding.

Texts of equal length go together; without padding a text's activations do not depend on its
neighbours, and no time is spent on tokens that do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

# A batch holds at most this many tokens, so that its activations stay small for long texts.
MAX_TOKENS = 2048
# Starting a batch takes about as long as so many tokens (a small BERT on a CPU).
START = 40


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text as the tokenizer gave it: the model's inputs by name, all of one length."""

    inputs: dict[str, list[int]]
    truncated: bool

    @property
    def length(self) -> int:
        """How many tokens the text has."""
        return len(self.inputs["input_ids"])

    @property
    def key(self) -> tuple[tuple[int, ...], ...]:
        """What makes two texts the same to the model."""
        return tuple(tuple(values) for values in self.inputs.values())


def distinct(encodings: Sequence[Encoding]) -> tuple[list[int], list[int]]:
    """Return the first index of each distinct text, and for every text which of them it is.

    Five texts a, b, a, c, b give ([0, 1, 3], [0, 1, 0, 2, 1]).
    """
    seen: dict[tuple[tuple[int, ...], ...], int] = {}
    first: list[int] = []
    which: list[int] = []
    for index, encoding in enumerate(encodings):
        number = seen.setdefault(encoding.key, len(seen))
        if number == len(first):
            first.append(index)
        which.append(number)
    return first, which


def batches_by_length(
    lengths: Sequence[int], batch_size: int, most_tokens: int = MAX_TOKENS
) -> Iterator[list[int]]:
    """Yield lists of indices of equally long texts, the longest texts first.

    Longest first, because then a batch that does not fit into memory fails at once. Batches of
    one length are of nearly equal size, so that none is left with a single text. Texts of no
    tokens are left out: there is nothing to run.

    >>> list(batches_by_length([3, 5, 3, 0, 3, 3], batch_size=3))
    [[1], [0, 2], [4, 5]]
    """
    groups: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        if length:
            groups.setdefault(length, []).append(index)
    for length in sorted(groups, reverse=True):
        rows = groups[length]
        largest = max(1, min(batch_size, most_tokens // length))
        n = -(-len(rows) // largest)
        for k in range(n):
            yield rows[k * len(rows) // n : (k + 1) * len(rows) // n]


def batches_with_padding(
    lengths: Sequence[int], batch_size: int, at_a_time: int = 1
) -> list[list[int]]:
    """Return lists of indices of texts that are run together, filled up to their longest.

    For what is not counted, such as embeddings: there few texts of each length come at a time.
    Batches are cut so that filling up and starting anew cost least together; if several run at a
    time, so that the last of them ends soonest. Texts of no tokens are left out.

    >>> batches_with_padding([3, 90, 4, 0, 88, 3], batch_size=3)
    [[1, 4], [2, 0, 5]]
    >>> batches_with_padding([50, 50, 50, 50], batch_size=32, at_a_time=2)
    [[0, 1], [2, 3]]
    """
    order = sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i])
    shares = [-(-len(order) // parts) for parts in range(1, 2 * at_a_time + 1)]
    sizes = {min(batch_size, share) for share in shares} if at_a_time > 1 else {batch_size}
    ways = [_cheapest(order, lengths, size) for size in sorted(sizes, reverse=True)]
    return min(ways, key=lambda batches: end_of(batches, lengths, at_a_time))


def end_of(batches: Sequence[Sequence[int]], lengths: Sequence[int], at_a_time: int) -> float:
    """Return when the last batch ends, counted in tokens, if each starts as soon as it can."""
    free = [0.0] * at_a_time
    for rows in batches:
        first = heappop(free)
        heappush(free, first + START + len(rows) * max(lengths[row] for row in rows))
    return max(free)


def _cheapest(order: Sequence[int], lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Cut texts, the longest first, where filling up and starting anew cost least together."""
    costs, cuts = [0.0], [0]  # of the best way to run the first n texts, and where its last starts
    for end in range(1, len(order) + 1):
        starts = range(max(0, end - batch_size), end)
        ways = [costs[start] + START + (end - start) * lengths[order[start]] for start in starts]
        best = min(range(len(ways)), key=ways.__getitem__)
        costs.append(ways[best])
        cuts.append(starts[best])
    found: list[list[int]] = []
    end = len(order)
    while end:
        found.append(list(order[cuts[end] : end]))
        end = cuts[end]
    return found[::-1]
