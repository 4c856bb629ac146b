"""Which texts run together, and how batches run in parallel.

Texts of equal length go together: without padding a text's activations do not depend on its
neighbours. Batches run in parallel, one per thread, rather than all threads on one batch: the
small steps between matrix products overlap. It is also more exact: where threads share a product,
how it is split, and so rounded, may depend on the size of the batch (seen with MKL on Intel).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Item = TypeVar("Item")
Found = TypeVar("Found")
Rows = NDArray[np.int64]  # indices of texts

# A batch holds at most this many tokens, so that its activations stay small for long texts.
MAX_TOKENS = 2048
# A GPU needs many to be busy, and has the memory; a large one twice as many.
GPU_TOKENS, LARGE_GPU = 16384, 2**35
# On the CPU more texts in a batch gain nothing.
TEXTS = 32
# From 8 to 16 a small BERT gained 30 %, a larger one 60 %: Python's lock begins to weigh.
MOST = 16
# More gain little: 512 were 4 % faster on two cores, but took 16 MiB more with a small BERT.
WORKER_TOKENS = 352


@dataclass(frozen=True, slots=True)
class Tokens:
    """Texts as the tokenizer gave them: each of the model's inputs as one array of all texts.

    A text has the same number of tokens in all inputs. Its length is how many of them are read:
    all, or those behind the first few that `before` counts.
    """

    inputs: dict[str, NDArray[np.int32]]
    lengths: Rows
    truncated: NDArray[np.bool_]
    before: Rows | None = None

    @classmethod
    def of(
        cls,
        lists: Mapping[str, Iterable[Sequence[int]]],
        lengths: Iterable[int],
        truncated: Iterable[bool],
    ) -> Tokens:
        """Take each input as one list a text."""
        sizes = np.fromiter(lengths, np.int64)
        inputs = {
            name: np.fromiter(chain.from_iterable(rows), np.int32, int(sizes.sum()))
            for name, rows in lists.items()
        }
        return cls(inputs, sizes, np.fromiter(truncated, np.bool_))

    @classmethod
    def joined(cls, parts: Sequence[Tokens]) -> Tokens:
        """Put the texts of several behind each other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            {name: np.concatenate([p.inputs[name] for p in parts]) for name in parts[0].inputs},
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.truncated for part in parts]),
            None
            if parts[0].before is None
            else np.concatenate([p.spans - p.lengths for p in parts]),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> Rows:
        """Where each text starts in the arrays."""
        offsets: Rows = np.cumsum(self.spans) - self.spans
        return offsets

    @property
    def spans(self) -> Rows:
        """How many tokens of each text are run."""
        return self.lengths if self.before is None else self.lengths + self.before

    def take(self, rows: ArrayLike) -> Tokens:
        """Return some of the texts, in the order of their indices."""
        rows = np.asarray(rows, dtype=np.int64)
        spans = self.spans[rows]
        starts = np.cumsum(spans) - spans
        places = np.repeat(self.offsets[rows] - starts, spans) + np.arange(spans.sum())
        inputs = {name: values[places] for name, values in self.inputs.items()}
        before = None if self.before is None else self.before[rows]
        return Tokens(inputs, self.lengths[rows], self.truncated[rows], before)

    def with_tokens(self) -> Tokens:
        """Return the texts that have any tokens."""
        return self.take(np.flatnonzero(self.lengths))

    def replaced(self, rows: Rows, others: Tokens) -> Tokens:
        """Return all texts, with others in the place of some."""
        places = np.arange(len(self))
        places[rows] = len(self) + np.arange(len(rows))
        return Tokens.joined([self, others]).take(places)

    def emptied(self, where: NDArray[np.bool_]) -> Tokens:
        """Return all texts, some of them without their tokens."""
        left = np.repeat(~where, self.spans)
        inputs = {name: values[left] for name, values in self.inputs.items()}
        before = None if self.before is None else np.where(where, 0, self.before)
        return Tokens(inputs, np.where(where, 0, self.lengths), self.truncated, before)

    def ids(self) -> list[NDArray[np.int32]]:
        """Return the numbers of each text's tokens."""
        return np.split(self.inputs["input_ids"], self.offsets[1:]) if len(self) else []


def distinct(tokens: Tokens) -> tuple[Rows, Rows]:
    """Return the first index of each distinct text, and for every text which of them it is.

    Five texts a, b, a, c, b give [0, 1, 3] and [0, 1, 0, 2, 1].
    """
    every = np.stack(list(tokens.inputs.values()), axis=1)  # a text's inputs side by side
    raw, size = every.tobytes(), every.itemsize * every.shape[1]
    ends = np.cumsum(tokens.spans) * size
    seen: dict[bytes, int] = {}
    places = zip((ends - tokens.spans * size).tolist(), ends.tolist(), strict=True)
    numbers = (seen.setdefault(raw[start:end], len(seen)) for start, end in places)
    which = np.fromiter(numbers, np.int64, len(tokens))
    return np.unique(which, return_index=True)[1].astype(np.int64), which


class Batch(NamedTuple):
    """Texts that run together: their indices, also on the model's device, and tokens [n, T].

    `start` is how many tokens are run before those that are read.
    """

    rows: Rows
    places: Tensor  # int32
    ids: Tensor
    start: int = 0


def on_device(values: NDArray[np.integer[Any]], device: torch.device) -> Tensor:
    """Put numbers on a device; the CPU does not wait until they have arrived."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def fetched(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as NumPy; from a GPU through pinned memory, which is several times faster."""
    if tensor.device.type == "cuda":
        tensor = torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor)
    found: NDArray[Any] = tensor.numpy()
    return found


def staged(
    tokens: Tokens, batches: Sequence[Rows], device: torch.device
) -> Iterator[tuple[Batch, dict[str, Tensor]]]:
    """Put the texts of all batches on a device at once; yield each batch with its inputs [n, T]."""
    if not batches:
        return
    rows = np.concatenate(batches)
    ordered = tokens.take(rows)
    index = on_device(rows.astype(np.int32), device)
    inputs = {name: on_device(flat, device).long() for name, flat in ordered.inputs.items()}
    first = start = 0
    for batch in batches:
        shape = len(batch), int(ordered.spans[first])
        skipped = shape[1] - int(ordered.lengths[first])
        stop = start + shape[0] * shape[1]
        mine = {name: flat[start:stop].view(shape) for name, flat in inputs.items()}
        ids, places = mine["input_ids"][:, skipped:], index[first : first + len(batch)]
        yield Batch(batch, places, ids, skipped), mine
        first, start = first + len(batch), stop


def batches_by_length(
    lengths: ArrayLike, batch_size: int, most_tokens: int = MAX_TOKENS
) -> list[Rows]:
    """Return the indices of equally long texts, batch by batch, the longest texts first.

    Longest first, because then a batch that does not fit into memory fails at once. Batches of
    one length are of nearly equal size, so that none is left with a single text. Texts of no
    tokens are left out: there is nothing to run.

    >>> [rows.tolist() for rows in batches_by_length([3, 5, 3, 0, 3, 3], batch_size=3)]
    [[1], [0, 2], [4, 5]]
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    kinds, counts = np.unique(lengths[lengths > 0], return_counts=True)
    batches: list[Rows] = []
    start = 0
    for length, count in zip(kinds[::-1].tolist(), counts[::-1].tolist(), strict=True):
        n = -(-count // max(1, min(batch_size, most_tokens // length)))
        cuts = [start + k * count // n for k in range(n + 1)]
        batches += [order[a:b] for a, b in pairwise(cuts)]
        start += count
    return batches


def batches_of(tokens: Tokens, batch_size: int, most_tokens: int = MAX_TOKENS) -> list[Rows]:
    """Do the same with tokens; the texts of a batch are also read from the same place on."""
    if tokens.before is None:
        return batches_by_length(tokens.lengths, batch_size, most_tokens)
    batches: list[Rows] = []
    for start in np.unique(tokens.before):
        mine = np.flatnonzero((tokens.before == start) & (tokens.lengths > 0))
        found = batches_by_length(tokens.spans[mine], batch_size, most_tokens)
        batches += [mine[rows] for rows in found]
    return batches


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
    """Return how many tokens a batch may have on the CPU if `n` run at a time."""
    return MAX_TOKENS if n == 1 else WORKER_TOKENS


def batch_limits(device: torch.device, n: int, batch_size: int | None) -> tuple[int, int]:
    """Return how many texts and how many tokens a batch may have if `n` run at a time."""
    if device.type == "cpu":
        return batch_size or TEXTS, batch_tokens(n)
    tokens = GPU_TOKENS * (2 if _is_large(device) else 1)
    return batch_size or tokens, tokens


def _is_large(device: torch.device) -> bool:
    if device.type != "cuda" or not torch.cuda.is_available():
        return False
    return bool(torch.cuda.get_device_properties(device).total_memory > LARGE_GPU)


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


@contextmanager
def ahead(items: int) -> Iterator[Map]:
    """Yield a `map` for so many items that works in threads, ahead of what was asked for.

    Of two threads one can do what needs Python's lock while the other does what does not. One item
    is no reason for a thread. When the block ends, however it ends, no call is running.
    """
    if items <= 1:
        yield lambda work, items: map(work, items)
        return
    pool = ThreadPoolExecutor(2, "mncover-ahead")
    try:
        yield _Pooled(pool, 2)
    finally:
        pool.shutdown(cancel_futures=True)


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
