"""Judge texts: do they still mean the same as their seeds, and what would they add to the coverage?

Texts are embedded first, in padded batches, and only those close to their seeds are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from mncover.augment.packing import MeanReader, Packing, find_packing
from mncover.data.results import weigh
from mncover.engine.batches import TEXTS, Tokens, distinct, parallel
from mncover.engine.engine import Engine
from mncover.engine.kernels.base import Array
from mncover.engine.measure import measure
from mncover.engine.readers import Reader
from mncover.engine.subject import PROBE_TEXT, Subject
from mncover.engine.switching import evaluating
from mncover.engine.windows import Window
from mncover.types import Text

Found = TypeVar("Found")
Batches = list[list[int]]

# Starting a batch takes about as long as running this many tokens (a small BERT on a CPU).
START = 40
# Limits on the codes that wait in memory until it is their text's turn.
MOST_BYTES, MOST_TEXTS = 2**28, 512


def run_padded(
    subject: Subject, tokens: Tokens, size: int, run: Callable[[list[int]], Found]
) -> Iterator[tuple[list[int], Found]]:
    """Run texts in padded batches; yield the indices of each batch with what `run` returns."""
    n = subject.workers
    batches = batches_with_padding(tokens.lengths.tolist(), size, n)
    with evaluating(subject.model), parallel(min(n, len(batches))) as run_all:
        yield from zip(batches, run_all(run, batches), strict=True)


def batches_with_padding(lengths: Sequence[int], batch_size: int, at_a_time: int = 1) -> Batches:
    """Return batches of text indices, to be padded to their longest text.

    Padding costs time and changes last digits, so this is for embeddings and guesses, where few
    texts of each length come at a time. The cuts minimise the time for padding and for starting
    batches or, if several run at a time, when the last one ends. Texts without tokens are left out.

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
    """Return when the last batch ends, in tokens, if each starts as soon as it can."""
    free = [0.0] * at_a_time
    for rows in batches:
        first = heappop(free)
        heappush(free, first + START + len(rows) * max(lengths[row] for row in rows))
    return max(free)


def _cheapest(order: Sequence[int], lengths: Sequence[int], batch_size: int) -> Batches:
    """Cut texts, longest first, where padding and starting batches cost least together."""
    ways = [(0.0, 0)]  # the least cost of the first n texts, and where their last batch starts
    for end in range(1, len(order) + 1):
        starts = range(max(0, end - batch_size), end)
        costs = (ways[i][0] + START + (end - i) * lengths[order[i]] for i in starts)
        ways.append(min(zip(costs, starts, strict=True)))
    found: Batches = []
    end = len(order)
    while end:
        start = ways[end][1]
        found.append(list(order[start:end]))
        end = start
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Embedder:
    """Embeds a text as the mean of its last hidden states, normalised to length one.

    The cosine of two texts is then the product of their embeddings. The encoder may be the
    subject itself, but a sentence encoder is better: a classifier puts texts of one class close
    together, whatever they mean.
    """

    encoder: Subject
    max_length: int
    batch_size: int | None = None

    def __post_init__(self) -> None:
        self.encoder.check_length(self.max_length)

    def embed(self, texts: Sequence[Text]) -> NDArray[np.float32]:
        """Return the embeddings [texts, dimensions]; zeros for a text without tokens."""
        tokens = self.encoder.encode(texts, self.max_length)
        first, which = distinct(tokens)
        chosen = tokens.take(first)

        @torch.inference_mode()
        def run(rows: list[int]) -> NDArray[np.float32]:
            inputs = self.encoder.padded(chosen.take(rows))
            hidden = self.encoder.call(self.encoder.traced, inputs).last_hidden_state.float()
            counts = inputs["attention_mask"].unsqueeze(-1)
            return normalize((hidden * counts).sum(1) / counts.sum(1), dim=-1).cpu().numpy()

        batches = run_padded(self.encoder, chosen, self.batch_size or TEXTS, run)
        found = {i: mean for rows, means in batches for i, mean in zip(rows, means, strict=True)}
        empty = np.zeros(len(next(iter(found.values()), ())), dtype=np.float32)
        each = [found.get(number, empty) for number in which.tolist()]
        return np.array(each, dtype=np.float32).reshape(len(each), len(empty))


def embedded(
    engine: Engine, packing: Packing | None, texts: Sequence[Text]
) -> Iterator[tuple[Window, list[NDArray[np.float32]]]]:
    """Measure texts and yield window after window, with the embedding of each of its texts.

    If the subject is the encoder, one pass gives both. With `packing` the windows have no
    probabilities.
    """
    means: dict[int, NDArray[np.float32]] = {}
    zeros = np.zeros(engine.taps.width[-1], dtype=np.float32)  # for a text without tokens

    def wrap(reader: Reader, texts: int) -> Reader:
        means.clear()
        return MeanReader(reader, engine.taps.n_hidden - 1, means)

    run = measure if packing is None else packing.measure
    for window in engine.windows([[text] for text in texts], lambda n: None, run=run, wrap=wrap):
        yield window, [means.get(number, zeros) for number in window.which.tolist()]


@dataclass(slots=True)
class Judged:
    """What is known about a text: its similarity to the seed and, once measured, its bins.

    `gain` is what it would have added when it was last asked, an upper bound on what it adds later.
    """

    text: Text
    similarity: float
    similar: bool
    measured: bool = False
    length: int = 0
    codes: Array = None
    gain: float | None = None


class Judge:
    """Runs texts in batches, and keeps the map of what the search has covered.

    If the subject itself is the encoder and its texts can be packed, one pass gives both their
    embeddings and their bins. `capacity` is how many measured texts may wait for their turn.
    """

    def __init__(
        self,
        engine: Engine,
        embedder: Embedder,
        seeds: Sequence[Text],
        similarity: float,
        criterion: str | None,
    ) -> None:
        self.engine = engine
        self.similarity = similarity
        self.criterion = criterion
        self.texts_run = 0
        self.bits: Array = None if criterion is None else engine.new_bits(criterion)
        self._embedder = embedder
        self._at_once = False  # whether one pass gives both embeddings and bins
        self._packing: Packing | None = None
        tokens = engine.subject.encode(seeds, engine.settings.max_length)
        longest = max(tokens.lengths.tolist(), default=1)
        touched = engine.setups.code_bytes(longest)
        self.capacity = max(1, min(MOST_TEXTS, MOST_BYTES // max(touched, 1)))

    def start(self, seeds: Sequence[Text]) -> None:
        """Embed the seeds, and add everything they hit to the map."""
        if self.criterion is not None and self._embedder.encoder is self.engine.subject:
            self._packing = find_packing(self.engine.taps, self.engine.settings.max_length)
            # In a few models the last of the hidden states is not what the encoder returns.
            _, means = next(embedded(self.engine, self._packing, [PROBE_TEXT]))
            alone = self._embedder.embed([PROBE_TEXT])
            self._at_once = bool(np.allclose(alone[0], means[0], atol=1e-4))
        if self.criterion is None or not self._at_once or not seeds:
            self._seeds = self._embedder.embed(seeds)
            self.cover(seeds)
            return
        means = []
        for window, found in embedded(self.engine, self._packing, seeds):
            means += found
            every = np.arange(len(window.cases))
            self.engine.unite(window, every, self.bits, self.criterion)
        self._seeds = np.stack(means)

    def cover(self, texts: Sequence[Text]) -> None:
        """Add everything that texts hit to the map."""
        if self.criterion is not None:
            maps = self.engine.new_maps()
            for _ in self.engine.hit(texts, maps):
                pass
            self.bits |= maps[self.criterion]

    @property
    def coverage(self) -> float | None:
        """The guiding coverage so far, as a share of all bins."""
        if self.criterion is None:
            return None
        identity = self.engine.identity()
        measured = identity.criterion(self.criterion)
        bits = self.engine.setups.bits_to_numpy(self.bits, self.criterion)
        return weigh(identity, bits, measured)[0].share

    def compare(self, seeds: Sequence[int], texts: Sequence[Text]) -> list[Judged]:
        """Judge how similar texts are to the seeds they were made from."""
        if not texts:
            return []
        if self._at_once and self._packing is not None and self.capacity >= len(texts):
            return list(self._compare_and_measure(seeds, texts))
        found = self._embedder.embed(texts)
        cosines = np.einsum("ij,ij->i", found, self._seeds[list(seeds)]).tolist()
        return [Judged(t, c, c >= self.similarity) for t, c in zip(texts, cosines, strict=True)]

    def _compare_and_measure(self, seeds: Sequence[int], texts: Sequence[Text]) -> Iterator[Judged]:
        """Do the same, and keep the bins of the similar texts, in one pass."""
        self.texts_run += len(texts)
        left = iter(seeds)
        for window, means in embedded(self.engine, self._packing, texts):
            for row, (text, mean) in enumerate(zip(window.texts, means, strict=True)):
                cosine = float(mean @ self._seeds[next(left)])
                one = Judged(text, cosine, cosine >= self.similarity)
                if one.similar:
                    self._take_codes(one, window, row)
                yield one

    def measure(self, judged: Sequence[Judged]) -> None:
        """Measure the texts that were not measured yet, and find what each would add now."""
        if self.criterion is None:
            return
        new = [one for one in judged if not one.measured]
        self.texts_run += len(new)
        left = iter(new)
        for window in self.engine.windows([[one.text] for one in new], lambda n: None):
            some = [next(left) for _ in window.texts]
            for row, one in enumerate(some):
                self._take_codes(one, window, row)
            ordered = self.engine.ordered(window, self.criterion)
            if ordered is not None:
                gains = self.engine.gain(self.criterion, *ordered.new_to(self.bits)).tolist()
                for one, gain in zip(some, gains, strict=True):
                    one.gain = gain
        for one in judged:
            if one.gain is None:
                self.gain(one)

    def _take_codes(self, one: Judged, window: Window, row: int) -> None:
        one.measured = True
        one.length = window.length(row)
        if one.length and self.criterion is not None:
            one.codes = self.engine.codes(window, row, self.criterion)

    def gain(self, one: Judged, take: bool = False) -> float:
        """Return what a measured text adds now; with `take`, add it.

        One text at a time, also on a GPU: whether it is taken decides which texts come next.
        """
        assert self.criterion is not None
        new = (0, 0)
        if one.length:
            new = self.engine.walk(one.codes, one.length, self.bits, self.criterion, take)
        one.gain = float(self.engine.gain(self.criterion, *new))
        return one.gain
