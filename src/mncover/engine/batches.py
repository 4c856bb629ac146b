"""Which texts run together, and how batches run in parallel.

Texts of equal length go together: without padding a text's activations do not depend on its
neighbours. Batches run in parallel, one per thread, rather than all threads on one batch: the
small steps between matrix products overlap. It is also more exact: where threads share a product,
how it is split, and so rounded, may depend on the size of the batch (seen with MKL on Intel).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch

Item = TypeVar("Item")
Found = TypeVar("Found")

# A batch holds at most this many tokens, so that its activations stay small for long texts.
MAX_TOKENS = 2048
# From 8 to 16 a small BERT gained 30 %, a larger one 60 %: Python's lock begins to weigh.
MOST = 16
# More gain little: 512 were 4 % faster on two cores, but took 16 MiB more with a small BERT.
WORKER_TOKENS = 352


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


class Map(Protocol):
    """Like the built-in `map` for one list: what `work` gives for every item, in their order."""

    def __call__(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        """Yield what `work` gives, or raise what it raised."""


def workers_on(device: torch.device) -> int:
    """Return how many batches are to run at a time.

    One on a GPU, which is shared by its own scheduler; one if torch was told to use one thread
    (`torch.set_num_threads(1)`); and one under autocast, which other threads would not see.
    """
    if device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return 1
    return min(MOST, torch.get_num_threads())


def batch_tokens(n: int) -> int:
    """Return how many tokens a batch may have if `n` run at a time."""
    return MAX_TOKENS if n == 1 else WORKER_TOKENS


@contextmanager
def parallel(n: int) -> Iterator[Map]:
    """Yield a `map` whose calls run in `n` threads, in each of which torch uses one.

    It takes few items ahead of what was asked for. When the block ends, however it ends, no call
    is running, and torch has its threads back.
    """
    if n <= 1:
        yield lambda work, items: map(work, items)
        return
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(n, "mncover")
    torch.set_num_threads(1)
    try:
        yield _Pooled(pool, 2 * n)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


class _Pooled:
    """A `map` over a pool of threads."""

    def __init__(self, pool: ThreadPoolExecutor, ahead: int) -> None:
        self.pool, self.ahead = pool, ahead

    def __call__(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        waiting: deque[Future[Found]] = deque()
        for item in items:
            waiting.append(self.pool.submit(copy_context().run, work, item))
            if len(waiting) > self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
