"""Run batches in parallel: a batch for every thread, not every thread on one batch.

Between the large matrix products of a model are small steps, and Python, that keep one thread
busy and the others waiting; with a batch on each thread these overlap. It is also more exact:
where threads share a product, how it is split, and so rounded, may depend on the size of the
batch (seen with MKL on an Intel machine, not on an AMD one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Protocol, TypeVar

import torch

from mncover.engine.batches import MAX_TOKENS

Item = TypeVar("Item")
Found = TypeVar("Found")

# From 8 to 16 a small BERT gained 30 %, a larger one 60 %: Python's lock begins to weigh.
MOST = 16
# More gain little: 512 were 4 % faster on two cores, but took 16 MiB more with a small BERT.
WORKER_TOKENS = 352


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
        yield _one_by_one
        return
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(n, "mncover")
    torch.set_num_threads(1)
    try:
        yield _Pooled(pool, 2 * n)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def _one_by_one(work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    return map(work, items)


class _Pooled:
    """A `map` over a pool of threads."""

    def __init__(self, pool: ThreadPoolExecutor, ahead: int) -> None:
        self.pool = pool
        self.ahead = ahead

    def __call__(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        waiting: deque[Future[Found]] = deque()
        for item in items:
            waiting.append(self.pool.submit(copy_context().run, work, item))
            if len(waiting) > self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
