"""What is said of gaps: flagged texts, their groups, tests, and a map of all. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.gaps import Share
from mncover.selection.pool import require_sklearn
from mncover.types import Text

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

MOST_GROUPS, SMALLEST = 12, 5  # groups, and the texts that a group has on average at least
CLEAR = 0.15  # silhouette, below which all flagged texts are one group
SAMPLE = 2000  # texts that groups are found from; the others join the nearest
TYPICAL = 5


@dataclass(frozen=True, slots=True)
class Flagged:
    """A text that exercises the model as no test does.

    `ratio` is how much farther it lies from its nearest tests than these from theirs, `near` the
    nearest test's text and `test` its name. `trained` says whether it lies within reach of the
    training texts; None if these are not known. `group` counts from 0. `chances` has the
    probability of each class by name.
    """

    text: Text
    count: int
    p_value: float
    ratio: float
    group: int
    answer: str
    confidence: float
    entropy: float
    near: Text
    test: str
    trained: bool | None
    chances: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Flagged texts that are alike: how many, how often they came, and what the model answers.

    `share` is that of the traffic, `answers` has the share of each answer, `entropy` is the mean;
    all count a text as often as it came. `typical` are the texts nearest to the centre.
    """

    texts: int
    lines: int
    share: float
    answers: dict[str, float]
    entropy: float
    trained: float | None
    typical: tuple[Flagged, ...]


@dataclass(frozen=True, slots=True)
class TestVisits:
    """A test: how many of its texts were compared with, how many traffic comes near.

    `lines` counts the traffic whose nearest test it is, within reach.
    """

    __test__ = False  # pytest would collect the class

    name: str
    texts: int
    near: int
    lines: int


@dataclass(frozen=True, slots=True)
class Spot:
    """A text on the map. `kind` is a test, traffic within reach or not, or flagged."""

    x: float
    y: float
    kind: str
    group: int
    text: Text


@dataclass(frozen=True, slots=True)
class Gaps:
    """Everything that a report of gaps shows.

    `lines` is how many the traffic has, `drawn` how many of them were looked at, `texts` how many
    of these differ. `tests` are in the order of the suite.
    """

    model: str
    space: str
    suite: str
    suite_texts: int
    compared: int
    traffic: str
    lines: int
    drawn: int
    texts: int
    fdr: float
    within: Share
    flagged: tuple[Flagged, ...]
    groups: tuple[Group, ...]
    tests: tuple[TestVisits, ...]
    spots: tuple[Spot, ...]

    @property
    def flagged_lines(self) -> int:
        """How many lines of the traffic are flagged."""
        return sum(one.count for one in self.flagged)

    @property
    def unvisited(self) -> tuple[TestVisits, ...]:
        """The tests that no traffic comes near."""
        return tuple(test for test in self.tests if not test.near)


def groups_of(
    flagged: Sequence[Flagged], points: NDArray[np.floating], lines: int
) -> tuple[Group, ...]:
    """Return the groups of flagged texts, whose points [texts, dimensions] say what is typical."""
    groups = np.array([one.group for one in flagged], dtype=np.int64)
    found = []
    for number in range(int(groups.max(initial=-1)) + 1):
        mine = np.flatnonzero(groups == number)
        found.append(_group([flagged[i] for i in mine.tolist()], points[mine], lines))
    return tuple(found)


def _group(mine: Sequence[Flagged], points: NDArray[np.floating], lines: int) -> Group:
    total = sum(one.count for one in mine)
    answers: Counter[str] = Counter()
    for one in mine:
        answers[one.answer] += one.count
    known = [one for one in mine if one.trained is not None]
    trained = sum(one.count for one in known if one.trained) / total if known else None
    return Group(
        texts=len(mine),
        lines=total,
        share=total / lines,
        answers={answer: n / total for answer, n in answers.most_common() if answer},
        entropy=sum(one.entropy * one.count for one in mine) / total,
        trained=trained,
        typical=tuple(mine[i] for i in typical(points, TYPICAL).tolist()),
    )


def group_texts(points: NDArray[np.floating], seed: int = 0) -> Places:
    """Return the number of each text's group, the largest group first.

    k-means with as many groups as tell the texts apart best, by the silhouette.
    """
    n = len(points)
    if n < 2 * SMALLEST:
        return np.zeros(n, dtype=np.int64)
    kmeans = require_sklearn("sklearn.cluster").KMeans
    silhouette = require_sklearn("sklearn.metrics").silhouette_score
    rng = np.random.default_rng(seed)
    some = points[np.sort(rng.choice(n, min(n, SAMPLE), replace=False))].astype(np.float64)
    most = min(MOST_GROUPS, n // SMALLEST, len(np.unique(some, axis=0)) - 1)
    best, found = CLEAR, np.zeros(n, dtype=np.int64)
    for k in range(2, most + 1):
        model = kmeans(k, n_init=4, random_state=seed).fit(some)
        score = float(silhouette(some, model.labels_))
        if score > best:
            best, found = score, model.predict(points.astype(np.float64))
    return _largest_first(found)


def _largest_first(groups: Places) -> Places:
    names, counts = np.unique(groups, return_counts=True)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    return np.asarray(rank[np.searchsorted(names, groups)])


def typical(points: NDArray[np.floating], number: int) -> Places:
    """Return the places of the texts nearest to the centre of all."""
    centre = points.astype(np.float64).mean(axis=0)
    far = np.linalg.norm(points - centre, axis=1)
    return np.argsort(far, kind="stable")[:number]


@dataclass(frozen=True)
class Plane:
    """The two directions in which some points differ most."""

    mean: Floats
    directions: Floats  # [2, dimensions]

    @classmethod
    def of(cls, *sets: NDArray[np.floating]) -> Plane:
        """Find the plane in which several sets differ, each weighing the same.

        A small gap would not be seen among much traffic if every text weighed the same.
        """
        given = [points.astype(np.float64) for points in sets if len(points)]
        mean = np.mean([points.mean(axis=0) for points in given], axis=0)
        spread = sum((points - mean).T @ (points - mean) / len(points) for points in given)
        _, vectors = np.linalg.eigh(spread)
        rows = vectors.T[::-1][:2]
        largest = np.abs(rows).argmax(axis=1)
        return cls(mean, rows * np.sign(rows[np.arange(len(rows)), largest])[:, None])

    def place(self, points: NDArray[np.floating]) -> Floats:
        """Return where points lie on the plane, [points, 2]."""
        return np.asarray((points.astype(np.float64) - self.mean) @ self.directions.T)
