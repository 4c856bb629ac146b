"""Choose the next cases to judge: those likely to fail, and some to explore with.

Four fifths of a batch are what a forest of decision trees, fitted to the verdicts so far, takes for
failures. One fifth explores. Most of that are cases that do something new inside the model,
compared with all cases asked about before, and that the model is not sure of (`diverse.py`). The
rest is a survey: cases drawn at random, from which `findings.py` can estimate how many failures
are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.diverse import Cells
from mncover.selection.journal import Asked, Why
from mncover.selection.pool import Floats, Pool, require_sklearn

EXPLORE = 0.2  # of a batch
SURVEY = 0.3  # of what explores
TREES = 100

Ints = NDArray[np.int64]
Free = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Seen:
    """The positions of the cases that were asked about, and of those judged whether they fail."""

    asked: Ints
    judged: Ints
    fails: NDArray[np.bool_]


class Chooser:
    """Chooses batches from a pool; `clusters` has the cluster of each case.

    `cells` are those of the cases' signatures; without them it explores by clusters.
    """

    def __init__(
        self,
        pool: Pool,
        clusters: Ints,
        cells: Cells | None = None,
        explore: float = EXPLORE,
        seed: int = 0,
    ) -> None:
        self.pool, self.clusters, self.cells = pool, clusters, cells
        self.share, self.seed = explore, seed
        self.n_clusters = int(clusters.max()) + 1
        self.features = np.concatenate([pool.outputs, pool.inside], axis=1).astype(np.float32)

    def predict(self, seen: Seen) -> Floats | None:
        """Return how likely each case is to fail; None before there are verdicts of both kinds."""
        if len(np.unique(seen.fails)) < 2:
            return None
        trees = require_sklearn("sklearn.ensemble").ExtraTreesClassifier
        forest = trees(TREES, min_samples_leaf=2, random_state=self.seed)
        forest.fit(self.features[seen.judged], seen.fails)
        # Threads add up the trees in any order, and a last digit may decide between equal cases.
        predicted: Floats = forest.predict_proba(self.features)[:, 1].astype(np.float64).round(9)
        return predicted

    def choose(self, n: int, seen: Seen, batch: int) -> list[Asked]:
        """Return the next n cases, by position; fewer if fewer are left."""
        free = np.ones(len(self.pool), dtype=bool)
        free[seen.asked] = False
        size = min(n, int(free.sum()))
        exploring = round(self.share * size)
        predicted = self.predict(seen)
        # Before there is a prediction, every case is expected to fail as often as those judged.
        rate = float(seen.fails.mean()) if len(seen.fails) else 0.5
        expected = np.full(len(self.pool), rate) if predicted is None else predicted
        choice = _Choice(self, free, self._counts(seen.asked), expected, batch)
        if predicted is None:
            choice.spread(size - exploring, "start")
        else:
            choice.take_likely(size - exploring)
        survey = round(SURVEY * exploring)
        choice.explore(exploring - survey)
        choice.survey(survey, np.random.default_rng([self.seed, batch]))
        return choice.asked

    def _counts(self, positions: Ints) -> Ints:
        """Return how many of some cases are in each cluster."""
        return np.bincount(self.clusters[positions], minlength=self.n_clusters)


class _Choice:
    """A batch that is being put together, one case after the other.

    `free` says which cases may still be asked about, `counts` how many of each cluster were.
    """

    def __init__(
        self, chooser: Chooser, free: Free, counts: Ints, expected: Floats, batch: int
    ) -> None:
        self.pool, self.clusters, self.cells = chooser.pool, chooser.clusters, chooser.cells
        self.free, self.counts, self.expected, self.batch = free, counts.copy(), expected, batch
        self.asked: list[Asked] = []

    def spread(self, n: int, why: Why) -> None:
        """Take the most uncertain case of a cluster that was looked at least, largest first."""
        for _ in range(n):
            sizes = np.bincount(self.clusters[self.free], minlength=len(self.counts))
            alive = np.flatnonzero(sizes)
            cluster = alive[np.lexsort((-sizes[alive], self.counts[alive]))[0]]
            members = np.flatnonzero(self.free & (self.clusters == cluster))
            self._take(int(members[self.pool.uncertainty[members].argmax()]), why)

    def take_likely(self, n: int) -> None:
        """Take the cases that are likeliest to fail; of equal ones the most uncertain."""
        left = np.flatnonzero(self.free)
        order = np.lexsort((-self.pool.uncertainty[left], -self.expected[left]))
        for position in left[order[:n]]:
            self._take(int(position), "likely")

    def explore(self, n: int) -> None:
        """Take cases that are new inside the model and uncertain."""
        if self.cells is None:
            self.spread(n, "explore")
            return
        before = np.flatnonzero(~self.free)
        for position in self.cells.order(self.pool.weights, n, before):
            self._take(int(position), "explore")

    def survey(self, n: int, rng: np.random.Generator) -> None:
        """Draw cases at random, and keep the chance of each."""
        for _ in range(n):
            left = np.flatnonzero(self.free)
            rest = float(self.expected[left].sum())
            self._take(int(rng.choice(left)), "survey", 1 / len(left), rest)

    def _take(self, position: int, why: Why, *drawn: float) -> None:
        cluster = int(self.clusters[position])
        about = cluster, float(self.expected[position])
        self.asked.append(Asked(position, self.batch, why, *about, *drawn))
        self.free[position] = False
        self.counts[cluster] += 1
