"""Run a suite and traffic, and find the texts that exercise the model as no test does.

The suite's states are held; traffic passes by piece by piece, and of each text only a few numbers
stay. Equal texts are run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mncover.engine.spaces import Space, States
from mncover.errors import SettingsError, TextError
from mncover.selection.gap_groups import (
    Flagged,
    Gaps,
    Plane,
    Spot,
    TestVisits,
    group_texts,
    groups_of,
)
from mncover.selection.gaps import (
    Reference,
    Visits,
    benjamini_hochberg,
    share_within_reach,
    spread_over,
    unit_length,
)
from mncover.selection.uncertainty import entropy
from mncover.suites.rows import Rows
from mncover.suites.traffic import Traffic
from mncover.types import Text

MOST_TESTS, MOST_TRAINING = 10_000, 5_000  # texts that traffic is compared with
SKETCH = 64  # numbers that stay of each text's states, for groups and the map
MOST_SPOTS = 50_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tests:
    """The texts of a suite that traffic is compared with, and what they say is normal."""

    __test__ = False  # pytest would collect the class

    rows: Rows
    distinct: int  # texts of the whole suite
    reference: Reference
    sketches: NDArray[np.float16]


@dataclass
class Seen:
    """What stays of the traffic: numbers for each distinct text."""

    ratios: Floats
    nearest: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    sketches: NDArray[np.float16]
    trained: NDArray[np.bool_]
    visits: Visits = field(repr=False)


def find_gaps(
    space: Space,
    suite: Rows,
    traffic: Traffic,
    train: Sequence[Text] = (),
    fdr: float = 0.1,
    seed: int = 0,
) -> Gaps:
    """Compare traffic with the tests of a suite, and with training texts if given."""
    if not 0 < fdr < 1:
        raise SettingsError(f"`fdr` must be between 0 and 1, got {fdr}.")
    tests = run_tests(space, suite, seed)
    trained = _training(space, train, seed) if len(train) else None
    seen = pass_by(space, tests, traffic.texts, traffic.counts, trained, fdr)
    return summed_up(space, tests, traffic, seen, trained is not None, fdr, seed)


def summed_up(
    space: Space,
    tests: Tests,
    traffic: Traffic,
    seen: Seen,
    has_training: bool,
    fdr: float,
    seed: int,
) -> Gaps:
    """Flag texts, group them, and lay out the map, once all traffic has passed by."""
    reference = tests.reference
    p_values = reference.p_values(seen.ratios)
    places = np.flatnonzero(benjamini_hochberg(p_values, fdr))
    groups = group_texts(seen.sketches[places], seed)
    flagged = _flagged(space, tests, traffic, seen, p_values, places, groups, has_training)
    number = np.full(len(traffic.texts), -1)
    number[places] = groups
    order = np.argsort([one.p_value for one in flagged], kind="stable").tolist()
    return Gaps(
        model=space.engine.subject.name,
        space=space.name,
        suite=str(tests.rows.path or ""),
        suite_texts=tests.distinct,
        compared=len(tests.rows),
        traffic=traffic.source,
        lines=traffic.lines,
        drawn=traffic.drawn,
        texts=len(traffic.texts),
        fdr=fdr,
        within=share_within_reach(reference, seen.ratios, traffic.counts, seed),
        flagged=tuple(flagged[i] for i in order),
        groups=groups_of(flagged, seen.sketches[places], traffic.drawn),
        tests=_visited(tests, seen.visits),
        spots=_spots(tests, traffic, seen, number, seed),
    )


def run_tests(space: Space, suite: Rows, seed: int) -> Tests:
    """Run the tests' texts: each once, and of very many as many of every test."""
    first: dict[Text, int] = {}
    for row, text in enumerate(suite.texts):
        first.setdefault(text, row)
    distinct = suite.taken(list(first.values()))
    rows = distinct.taken(spread_over(distinct.contexts, MOST_TESTS, seed).tolist())
    states = space.states("Running the tests", rows.texts)
    known = np.flatnonzero(np.isfinite(states).all(axis=1))
    rows, states = rows.taken(known.tolist()), states[known]
    if not len(rows):
        raise TextError(f"{suite.path}: no text of the suite has any tokens.")
    given = np.array(rows.cases, dtype=np.int64)
    cases = np.where(given < 0, given.max(initial=0) + 1 + np.arange(len(given)), given)
    sketches = _sketch(states)
    return Tests(rows, len(distinct), Reference.of(states, cases), sketches)


def _training(space: Space, train: Sequence[Text], seed: int) -> Reference:
    texts = list(dict.fromkeys(train))
    places = spread_over([""] * len(texts), MOST_TRAINING, seed)
    states = space.states("Running training texts", [texts[i] for i in places.tolist()])
    states = states[np.isfinite(states).all(axis=1)]
    return Reference.of(states, np.arange(len(states)))


def pass_by(
    space: Space,
    tests: Tests,
    texts: Sequence[Text],
    counts: NDArray[np.int64],
    trained: Reference | None,
    fdr: float,
) -> Seen:
    """Run the distinct texts of traffic, which came so often, and compare each with the tests."""
    n = len(texts)
    seen = Seen(
        np.full(n, np.nan),
        np.zeros(n, dtype=np.int64),
        np.zeros((n, space.engine.subject.n_labels), dtype=np.float32),
        np.zeros((n, SKETCH), dtype=np.float16),
        np.zeros(n, dtype=bool),
        Visits(tests.reference),
    )
    for found in space.read("Running traffic", texts):
        part = found.part
        placed = tests.reference.place(found.states)
        seen.visits.add(placed, counts[part])
        seen.ratios[part], seen.nearest[part] = placed.ratios, placed.nearest[:, 0]
        seen.probabilities[part], seen.sketches[part] = found.probabilities, _sketch(found.states)
        if trained is not None:
            seen.trained[part] = _near_training(found, placed.ratios, tests, trained, fdr)
    return seen


def _near_training(
    found: States, ratios: Floats, tests: Tests, trained: Reference, fdr: float
) -> NDArray[np.bool_]:
    """Return which texts lie within reach of training texts, of those that may get flagged."""
    near = np.zeros(len(ratios), dtype=bool)
    asked = np.flatnonzero(tests.reference.p_values(ratios) <= fdr)  # no other is flagged
    if len(asked):
        near[asked] = trained.place(found.states[asked]).ratios <= trained.reach
    return near


def _sketch(states: NDArray[np.floating]) -> NDArray[np.float16]:
    """Return a random projection of states: small, and distances stay about what they are.

    Principal components of the tests would hide the very directions in which a gap lies.
    """
    width = states.shape[1]
    directions = np.random.default_rng(0).normal(size=(width, SKETCH)) / SKETCH**0.5
    found = np.nan_to_num(unit_length(states)) @ directions.astype(np.float32)
    return np.asarray(found, dtype=np.float16)


def _flagged(
    space: Space,
    tests: Tests,
    traffic: Traffic,
    seen: Seen,
    p_values: Floats,
    places: NDArray[np.int64],
    groups: NDArray[np.int64],
    has_training: bool,
) -> list[Flagged]:
    subject, chances = space.engine.subject, seen.probabilities[places]
    predicted, uncertain = subject.predictions(chances), entropy(chances.astype(np.float64))
    found = []
    for at, place in enumerate(places.tolist()):
        answer, near = int(predicted[at]), int(seen.nearest[place])
        found.append(
            Flagged(
                text=traffic.texts[place],
                count=int(traffic.counts[place]),
                p_value=float(p_values[place]),
                ratio=float(seen.ratios[place]),
                group=int(groups[at]),
                answer=subject.labels[answer] if answer >= 0 else "",
                confidence=float(chances[at, answer]) if answer >= 0 else 0.0,
                entropy=float(uncertain[at]),
                near=tests.rows.texts[near],
                test=tests.rows.contexts[near],
                trained=bool(seen.trained[place]) if has_training else None,
                chances=dict(zip(subject.labels, chances[at].tolist(), strict=True)),
            )
        )
    return found


def _visited(tests: Tests, visits: Visits) -> tuple[TestVisits, ...]:
    """Count for each test the texts that traffic comes near."""
    contexts = tests.rows.contexts
    names = list(dict.fromkeys(contexts))
    number = {name: place for place, name in enumerate(names)}
    which = np.array([number[name] for name in contexts])
    texts, near, lines = (
        np.bincount(which, weights=weights, minlength=len(names)).astype(np.int64)
        for weights in (None, visits.near, visits.lines)
    )
    columns = zip(names, texts.tolist(), near.tolist(), lines.tolist(), strict=True)
    return tuple(TestVisits(*row) for row in columns)


def _spots(
    tests: Tests, traffic: Traffic, seen: Seen, groups: NDArray[np.int64], seed: int
) -> tuple[Spot, ...]:
    """Lay out tests and traffic: all that is flagged first, the rest as far as there is room."""
    order = np.random.default_rng(seed).permutation(len(groups))
    order = order[np.argsort(groups[order] < 0, kind="stable")]
    order = order[~np.isnan(seen.ratios[order])][: MOST_SPOTS * 4 // 5]
    shown = np.random.default_rng(seed).permutation(len(tests.rows))[: MOST_SPOTS - len(order)]
    bad = seen.sketches[groups >= 0]
    plane = Plane.of(tests.sketches, seen.sketches[order], bad)
    reach, spots = tests.reference.reach, []
    for place, (x, y) in zip(shown.tolist(), plane.place(tests.sketches[shown]), strict=True):
        spots.append(Spot(float(x), float(y), "test", -1, tests.rows.texts[place]))
    for place, (x, y) in zip(order.tolist(), plane.place(seen.sketches[order]), strict=True):
        kind = "within" if seen.ratios[place] <= reach else "beyond"
        kind = "flagged" if groups[place] >= 0 else kind
        spots.append(Spot(float(x), float(y), kind, int(groups[place]), traffic.texts[place]))
    return tuple(spots)
