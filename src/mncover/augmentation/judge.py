"""Judge texts: are they close to their seeds, and what would they add to the coverage?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.backend import Array
from mncover.embedding import Embedder
from mncover.engine import Engine
from mncover.metrics import Metric
from mncover.predicting import class_probabilities
from mncover.results import gain_share, weigh
from mncover.texts import Text
from mncover.windows import Window


@dataclass(slots=True)
class Judged:
    """What is known of a text: its closeness to the seed and, if close, its bins.

    `gain` is what it would have added when it was last asked, which is the most that it can add
    later.
    """

    similarity: float
    similar: bool
    prediction: int = -1
    length: int = 0
    codes: Array = None
    gain: float | None = None


class Judge:
    """Runs texts in batches, and keeps the map of what the search has covered."""

    def __init__(
        self,
        engine: Engine,
        embedder: Embedder,
        seeds: Sequence[Text],
        similarity: float,
        metric: Metric | None,
    ) -> None:
        self.engine = engine
        self.embedder = embedder
        self.similarity = similarity
        self.metric = metric
        self.texts_run = 0
        self._one_pass = metric is not None and embedder.encoder is engine.subject
        self._seeds: NDArray[np.float32] = embedder.embed(seeds)
        self.words: Array = None if metric is None else engine.backend.new_map()

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

    def judge(self, seeds: Sequence[int], texts: Sequence[Text]) -> list[Judged]:
        """Run texts that were made from seeds."""
        if not texts:
            return []
        if self._one_pass:
            return self._judge_in_one_pass(seeds, texts)
        judged = self._compare(seeds, self.embedder.embed(texts))
        close = [i for i, one in enumerate(judged) if one.similar]
        self.texts_run += len(close)
        if self.metric is None:
            self._ask([texts[i] for i in close], [judged[i] for i in close])
            return judged
        left = (judged[i] for i in close)
        for window in self._windows([texts[i] for i in close]):
            self._take(window, [next(left) for _ in window.texts])
        return judged

    def _judge_in_one_pass(self, seeds: Sequence[int], texts: Sequence[Text]) -> list[Judged]:
        """Do it where the subject compares texts itself: codes and embedding come together."""
        self.texts_run += len(texts)
        judged: list[Judged] = []
        for window in self._windows(texts, pool=True):
            rows = range(len(window.texts))
            empty = np.zeros(self._seeds.shape[1], dtype=np.float32)
            found = [window.mean(row) for row in rows]
            means = np.stack([empty if mean is None else mean for mean in found])
            here = self._compare(seeds[len(judged) :][: len(rows)], means)
            self._take(window, here)
            judged += here
        return judged

    def _compare(self, seeds: Sequence[int], found: NDArray[np.float32]) -> list[Judged]:
        cosines = np.einsum("ij,ij->i", found, self._seeds[list(seeds)])
        return [Judged(float(cosine), bool(cosine >= self.similarity)) for cosine in cosines]

    def _windows(self, texts: Sequence[Text], pool: bool = False) -> Iterator[Window]:
        return self.engine.windows([[text] for text in texts], lambda n: None, pool=pool)

    def _take(self, window: Window, judged: Sequence[Judged]) -> None:
        """Keep what is needed of the texts of a window: the codes of the similar ones."""
        assert self.metric is not None
        predictions = self.engine.subject.predictions(window.probabilities)
        for row, one in enumerate(judged):
            one.prediction = int(predictions[row])
            if one.similar:
                one.length = window.length(row)
                one.codes = window.codes(row, self.metric) if one.length else None
                self.gain(one)

    def _ask(self, texts: Sequence[Text], judged: Sequence[Judged]) -> None:
        """Ask for classes alone."""
        subject = self.engine.subject
        encodings = subject.encode(texts, self.engine.settings.max_length)
        probabilities = class_probabilities(subject, encodings, self.engine.batch_size)
        for one, prediction in zip(judged, subject.predictions(probabilities), strict=True):
            one.prediction = int(prediction)

    def gain(self, one: Judged, take: bool = False) -> float:
        """Return what a text adds now; `take` adds it."""
        new = self.engine.walk(one.codes, one.length, self.words, take) if one.length else (0, 0)
        one.gain = float(gain_share(self.engine.layout, self.engine.settings, *new))
        return one.gain
