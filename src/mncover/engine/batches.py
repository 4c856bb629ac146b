"""Texts as token numbers, grouped so that no batch ever needs padding.

Texts of equal length go together; without padding a text's activations do not depend on its
neighbours, and no time is spent on tokens that do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A batch holds at most this many tokens, so that its activations stay small for long texts.
MAX_TOKENS = 2048


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
