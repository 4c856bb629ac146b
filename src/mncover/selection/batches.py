"""Choose the next cases to judge: the likeliest to fail, and some to explore with.

Most of a batch is what a regression on outputs and inside, fitted to the verdicts so far, takes
for failures. The rest is drawn at random from clusters that were looked at least, each case with
a chance that is kept: so it finds failures of another kind, and `findings.py` can estimate
from it how many are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.journal import Asked
from mncover.selection.pool import Floats, Pool, require_sklearn, standardised

EXPLORE = 0.2
STRENGTH = 0.1  # of the regression: the inverse of its penalty


@dataclass(frozen=True, slots=True)
class Seen:
    """The positions of the cases that were asked about, and of those judged whether they fail."""

    asked: NDArray[np.int64]
    judged: NDArray[np.int64]
    fails: NDArray[np.bool_]


class Chooser:
    """Chooses batches from a pool; `clusters` has the cluster of each case."""

    def __init__(
        self, pool: Pool, clusters: NDArray[np.int64], explore: float = EXPLORE, seed: int = 0
    ) -> None:
        self.pool, self.clusters, self.explore, self.seed = pool, clusters, explore, seed
        self.features = standardised(np.concatenate([pool.outputs, pool.inside], axis=1))

    def predict(self, seen: Seen) -> Floats | None:
        """Return how likely each case is to fail; None before there are verdicts of both kinds."""
        if len(np.unique(seen.fails)) < 2:
            return None
        regression = require_sklearn("sklearn.linear_model").LogisticRegression
        model = regression(C=STRENGTH, max_iter=300, tol=1e-3)
        model.fit(self.features[seen.judged], seen.fails)
        return np.asarray(model.predict_proba(self.features)[:, 1], dtype=np.float64)

    def choose(self, n: int, seen: Seen, batch: int) -> list[Asked]:
        """Return the next n cases, by position; fewer if fewer are left."""
        left = np.ones(len(self.pool), dtype=bool)
        left[seen.asked] = False
        size = min(n, int(left.sum()))
        exploring = round(self.explore * size)
        predicted = self.predict(seen)
        rate = float(seen.fails.mean()) if len(seen.fails) else 0.5
        expected = np.full(len(self.pool), rate) if predicted is None else predicted
        looked = np.bincount(self.clusters[seen.asked], minlength=int(self.clusters.max()) + 1)
        if predicted is None:
            chosen = self._spread(left, looked, size - exploring)
        else:
            order = np.argsort(-np.where(left, predicted, -1.0), kind="stable")
            chosen = order[: size - exploring]
        why = "start" if predicted is None else "likely"
        found = [
            Asked(int(i), batch, why, int(self.clusters[i]), float(expected[i])) for i in chosen
        ]
        left[chosen] = False
        looked = looked + np.bincount(self.clusters[chosen], minlength=len(looked))
        return found + self._explore(left, looked, expected, exploring, batch)

    def _spread(
        self, left: NDArray[np.bool_], looked: NDArray[np.int64], n: int
    ) -> NDArray[np.int64]:
        """Return the most uncertain case of each cluster, the largest clusters first, in turns."""
        counts, chosen = looked.copy(), []
        sizes = np.bincount(self.clusters[left], minlength=len(looked))
        free = left.copy()
        for _ in range(n):
            sizes = np.bincount(self.clusters[free], minlength=len(looked))
            alive = np.flatnonzero(sizes)
            best = alive[np.lexsort((-sizes[alive], counts[alive]))[0]]
            members = np.flatnonzero(free & (self.clusters == best))
            pick = members[self.pool.uncertainty[members].argmax()]
            chosen.append(pick)
            free[pick] = False
            counts[best] += 1
        return np.array(chosen, dtype=np.int64)

    def _explore(
        self,
        left: NDArray[np.bool_],
        looked: NDArray[np.int64],
        expected: Floats,
        n: int,
        batch: int,
    ) -> list[Asked]:
        """Draw cases one after the other, each with a chance that is known."""
        rng = np.random.default_rng([self.seed, batch])
        free, counts, found = left.copy(), looked.copy(), []
        for _ in range(n):
            chances = self._chances(free, counts)
            pick = int(rng.choice(len(chances), p=chances))
            group, rest = int(self.clusters[pick]), float(expected[free].sum())
            about = group, float(expected[pick]), float(chances[pick]), rest
            found.append(Asked(pick, batch, "explore", *about))
            free[pick] = False
            counts[group] += 1
        return found

    def _chances(self, free: NDArray[np.bool_], counts: NDArray[np.int64]) -> Floats:
        """Return the probability with which each case is drawn next; 0 if it is not free."""
        sizes = np.bincount(self.clusters[free], minlength=len(counts))
        weight = np.where(sizes > 0, 1.0 / (1.0 + counts) ** 2, 0.0)
        each = np.where(sizes > 0, weight / np.maximum(sizes, 1), 0.0)[self.clusters]
        chances = np.where(free, each, 0.0)
        return np.asarray(chances / chances.sum())
