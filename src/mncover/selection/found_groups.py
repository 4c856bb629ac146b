"""Groups of failures that are alike inside the model, with the most typical ones.

The finder explores many small clusters. People want to read about a few groups, so neighbouring
clusters with failures are put together: into at most `GROUPS` groups, with at least `FAILURES`
failures each on average.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.finder import Finder, Item
from mncover.selection.journal import Asked
from mncover.selection.pool import Floats, require_sklearn, standardised
from mncover.types import Text

GROUPS, FAILURES, TYPICAL = 12, 6, 3

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that are alike inside the model.

    `size` counts all of them, `judged` those with a verdict. `expected` is how many failures the
    regression predicts among the others; None before it can. `failing` has the failing cases in
    the order of asking, `typical` those nearest to their centre, no text twice.
    """

    size: int
    judged: int
    expected: float | None
    failing: tuple[Item, ...] = ()
    typical: tuple[Item, ...] = ()


def group_failures(finder: Finder) -> tuple[tuple[Group, ...], Group]:
    """Return the groups in which failures were found, most failures first, and all other cases."""
    seen = finder.seen()
    failing = _in_order(finder, seen.judged[seen.fails])
    judged = np.zeros(len(finder.rows), dtype=bool)
    judged[seen.judged] = True
    if not len(failing):  # before any failure there is nothing to compute
        return (), Group(len(judged), len(seen.judged), None)
    predicted, points = finder.chooser.predict(seen), _points(finder)
    of_case = _merged(points, finder.chooser.clusters, failing, finder.seed)

    def group(mine: Positions, bad: Positions) -> Group:
        known = judged[mine]
        expected = None if predicted is None else float(predicted[mine[~known]].sum())
        items = tuple(_items(finder, bad))
        return Group(len(mine), int(known.sum()), expected, items, _typical(items, points[bad]))

    numbers = np.unique(of_case[failing])
    found = [
        group(np.flatnonzero(of_case == number), failing[of_case[failing] == number])
        for number in numbers
    ]
    rest = group(np.flatnonzero(of_case < 0), failing[:0])
    return tuple(sorted(found, key=lambda one: -len(one.failing))), rest


def judged_in_order(finder: Finder) -> list[bool]:
    """Return of every judged case whether it fails, in the order of asking."""
    verdicts = finder.journal.verdicts
    order = dict.fromkeys([one.case for one in finder.journal.asked] + list(verdicts))
    return [verdicts[case] == "wrong" for case in order if case in verdicts]


def _in_order(finder: Finder, positions: Positions) -> Positions:
    """Return positions in the order in which their cases were asked about."""
    asked = {one.case: at for at, one in enumerate(finder.journal.asked)}
    places = [asked.get(int(case), len(asked)) for case in finder.numbers[positions]]
    return positions[np.argsort(places, kind="stable")]


def _points(finder: Finder) -> Floats:
    """Return where each case is: by its signature, or by the outputs without signatures.

    Signatures stay as they are: with all columns made equally wide, small groups fall apart.
    """
    pool = finder.chooser.pool
    return np.asarray(
        pool.inside if pool.inside.shape[1] else standardised(pool.outputs), dtype=np.float64
    )


def _merged(points: Floats, clusters: Positions, failing: Positions, seed: int) -> Positions:
    """Return the number of each case's group; -1 where no case of its cluster fails.

    Clusters with near centres are put together, by k-means in which failures weigh.
    """
    names, weights = np.unique(clusters[failing], return_counts=True)
    centres = np.stack([points[clusters == name].mean(axis=0) for name in names])
    k = min(GROUPS, max(1, len(failing) // FAILURES), len(np.unique(centres, axis=0)))
    kmeans = require_sklearn("sklearn.cluster").KMeans(k, n_init=10, random_state=seed)
    of_cluster = np.full(int(clusters.max()) + 1, -1, dtype=np.int64)
    of_cluster[names] = kmeans.fit_predict(centres, sample_weight=weights)
    return np.asarray(of_cluster[clusters])


def _items(finder: Finder, positions: Positions) -> Iterable[Item]:
    """Yield the cases at some positions; one that no batch had goes by its cluster alone."""
    asked = {one.case: one for one in finder.journal.asked}
    for position in positions.tolist():
        case, cluster = int(finder.numbers[position]), int(finder.chooser.clusters[position])
        yield finder.item(asked.get(case) or Asked(case, 0, "given", cluster))


def _typical(items: tuple[Item, ...], points: Floats) -> tuple[Item, ...]:
    if not items:
        return ()
    far = np.linalg.norm(points - points.mean(axis=0), axis=1)
    nearest: dict[tuple[Text, ...], Item] = {}
    for place in np.argsort(far, kind="stable").tolist():
        nearest.setdefault(items[place].texts, items[place])
    return tuple(nearest.values())[:TYPICAL]
