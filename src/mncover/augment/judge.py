"""Sentence embeddings by any encoder, to tell whether a changed text still means the same.

Judge texts: are they close to their seeds, and what would they add to the coverage?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from mncover.criteria import Metric
from mncover.data.results import gain_share, weigh
from mncover.engine.batches import Encoding, batches_with_padding, distinct
from mncover.engine.engine import Engine
from mncover.engine.kernels.backend import Array
from mncover.engine.parallel import side_by_side
from mncover.engine.subject import PROBE_TEXT, Subject
from mncover.engine.windows import Window
from mncover.types import Text


class Embedder:
    """Turns a text into the mean of the last hidden states of its tokens, at length one.

    The cosine of two texts is then the product of their embeddings. The encoder may be the
    subject itself or a better one: a model that was trained to classify puts texts of one class
    close together, whatever they mean. Batches are padded: what that changes in the last digits
    is of no matter to a cosine.
    """

    def __init__(self, encoder: Subject, max_length: int, batch_size: int = 32) -> None:
        encoder.check_length(max_length)
        self.encoder = encoder
        self.max_length = max_length
        self.batch_size = batch_size

    def embed(
        self, texts: Sequence[Text], advance: Callable[[int], None] = lambda n: None
    ) -> NDArray[np.float32]:
        """Return the embeddings [texts, dimensions]; zeros for a text of no tokens."""
        encoder = self.encoder
        encodings = encoder.encode(texts, self.max_length)
        first, which = distinct(encodings)
        advance(len(encodings) - len(first))
        found: dict[int, NDArray[np.float32]] = {}
        lengths = [encodings[i].length for i in first]

        def run(rows: list[int]) -> tuple[list[int], NDArray[np.float32]]:
            return rows, self._means([encodings[first[row]] for row in rows]).cpu().numpy()

        n = encoder.lanes
        batches = batches_with_padding(lengths, self.batch_size, n)
        with encoder.evaluating(), side_by_side(min(n, len(batches))) as run_all:
            for rows, means in run_all(run, batches):
                found.update(zip(rows, means, strict=True))
                advance(len(rows))
        width = len(next(iter(found.values()))) if found else 0
        empty = np.zeros(width, dtype=np.float32)
        return np.stack([found.get(number, empty) for number in which])

    @torch.inference_mode()
    def _means(self, encodings: Sequence[Encoding]) -> Tensor:
        inputs = self.encoder.padded(encodings)
        hidden = self.encoder.call(self.encoder.traced, inputs).last_hidden_state.float()
        counts = inputs["attention_mask"].unsqueeze(-1)
        return normalize((hidden * counts).sum(1) / counts.sum(1), dim=-1)


# Codes wait in memory until their text's turn: so much of it, and so many texts, at most.
ROOM_BYTES, ROOM_TEXTS = 2**28, 512


@dataclass(slots=True)
class Judged:
    """What is known of a text: its closeness to the seed and, once it was measured, its bins.

    `gain` is what it would have added when it was last asked, which is the most that it can add
    later.
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

    Texts are embedded first, in padded batches, and only what comes close is run for its bins.
    If the subject itself is the encoder and its texts can be packed, one pass gives both.
    """

    def __init__(
        self,
        engine: Engine,
        embedder: Embedder,
        seeds: Sequence[Text],
        similarity: float,
        metric: Metric | None,
    ) -> None:
        self.engine = engine
        self.similarity = similarity
        self.metric = metric
        self.texts_run = 0
        self.words: Array = None if metric is None else engine.backend.new_map()
        self._embedder = embedder
        self._at_once = False  # whether a pass gives both embeddings and bins
        self._seeds = np.empty((0, 0), dtype=np.float32)
        encodings = engine.subject.encode(seeds, engine.settings.max_length)
        longest = max((encoding.length for encoding in encodings), default=1)
        touched = engine.layout.touched(longest) * engine.backend.code_type.itemsize
        self.room = max(1, min(ROOM_TEXTS, ROOM_BYTES // max(touched, 1)))

    def start(self, seeds: Sequence[Text]) -> None:
        """Embed the seeds, and add everything that they hit to the map."""
        self._at_once = self.metric is not None and _sees_the_same(self.engine, self._embedder)
        if self.metric is None or not self._at_once or not seeds:
            self._seeds = self._embedder.embed(seeds)
            self.cover(seeds)
            return
        means = []
        for window in self.engine.embed(seeds):
            for row in range(len(window.texts)):
                means.append(window.mean(row))
                self.engine.add(window, row, self.words, metric=self.metric)
        self._seeds = np.stack(means)

    def cover(self, texts: Sequence[Text]) -> None:
        """Add everything that texts hit to the map, whatever they are like."""
        if self.metric is None:
            return
        hits = self.engine.new_hits()
        for _ in self.engine.hit(texts, hits):
            pass
        self.words |= hits.of(self.metric)

    @property
    def coverage(self) -> float | None:
        """The guide's coverage now, as a share of all bins."""
        if self.metric is None:
            return None
        words = self.engine.backend.map_to_numpy(self.words)
        return weigh(self.engine.identity(), words)[0].cover

    def compare(self, seeds: Sequence[int], texts: Sequence[Text]) -> list[Judged]:
        """Tell how close texts are to the seeds they were made from."""
        if not texts:
            return []
        if self._at_once and self.engine.packing is not None and self.room >= len(texts):
            return list(self._compare_and_measure(seeds, texts))
        found = self._embedder.embed(texts)
        cosines = np.einsum("ij,ij->i", found, self._seeds[list(seeds)]).tolist()
        return [self._judged(text, cosine) for text, cosine in zip(texts, cosines, strict=True)]

    def _compare_and_measure(self, seeds: Sequence[int], texts: Sequence[Text]) -> Iterator[Judged]:
        """Do the same in one pass with the bins of what comes close."""
        self.texts_run += len(texts)
        left = iter(seeds)
        for window in self.engine.embed(texts):
            for row, text in enumerate(window.texts):
                one = self._judged(text, float(window.mean(row) @ self._seeds[next(left)]))
                if one.similar:
                    self._take_codes(one, window, row)
                yield one

    def _judged(self, text: Text, cosine: float) -> Judged:
        return Judged(text, cosine, cosine >= self.similarity)

    def measure(self, judged: Sequence[Judged]) -> None:
        """Run texts through the subject if they were not, and say what each would add now."""
        if self.metric is None:
            return
        new = [one for one in judged if not one.measured]
        self.texts_run += len(new)
        left = iter(new)
        for window in self.engine.windows([[one.text] for one in new], lambda n: None):
            for row in range(len(window.texts)):
                self._take_codes(next(left), window, row)
        for one in judged:
            if one.gain is None:
                self.gain(one)

    def _take_codes(self, one: Judged, window: Window, row: int) -> None:
        one.measured = True
        one.length = window.length(row)
        if one.length and self.metric is not None:
            one.codes = window.codes(row, self.metric)

    def gain(self, one: Judged, take: bool = False) -> float:
        """Return what a text that was measured adds now; `take` adds it."""
        new = self.engine.walk(one.codes, one.length, self.words, take) if one.length else (0, 0)
        one.gain = float(gain_share(self.engine.layout, self.engine.settings, *new))
        return one.gain


def _sees_the_same(engine: Engine, embedder: Embedder) -> bool:
    """Return whether the subject is the encoder, and its last hidden states are what that embeds.

    In a few models these are not the last that it returns.
    """
    if embedder.encoder is not engine.subject:
        return False
    window = next(engine.embed([PROBE_TEXT]))
    return bool(np.allclose(embedder.embed([PROBE_TEXT])[0], window.mean(0), atol=1e-4))
