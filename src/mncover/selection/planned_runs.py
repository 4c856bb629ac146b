"""What the runs in a data file say of a plan: one run, several of its parts, or an interrupted one.

A test is estimated once all cases drawn for it were run, whatever became of the others: the chances
of its cases are then those of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mncover.data.estimate import Estimate
from mncover.data.results import ADDS_LITTLE_AT, Result
from mncover.data.store import CoverageData
from mncover.selection.allocation import Earlier, Ints
from mncover.selection.estimates import estimate, folds_of
from mncover.selection.planfile import Plan, plan_of
from mncover.selection.strata import Drawn
from mncover.suites.judging import FAILS, NOT_JUDGED, judged_cases, outline_of, result_of
from mncover.suites.model import Case, Outline

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Answered:
    """Of the cases drawn, in their order: which were run, how they went, and their folds."""

    run: Mask
    verdicts: NDArray[np.int8]
    folds: Ints

    def taken(self, places: Mask) -> Answered:
        """Return some of the cases."""
        return Answered(self.run[places], self.verdicts[places], self.folds[places])


def full_result(data: CoverageData, adds_little_at: float = ADDS_LITTLE_AT) -> Result:
    """Return all numbers of a measurement, with what is estimated for whole tests."""
    return replace(result_of(data, adds_little_at), estimates=tuple(estimates_of(data)))


def estimates_of(data: CoverageData) -> list[Estimate]:
    """Return the estimates of every plan that was run, as a whole or in parts."""
    found: list[Estimate] = []
    for outline, runs in _plans(data):
        plan = plan_of(outline)
        assert plan is not None  # only outlines that have one come here
        found += estimates_so_far(plan, _answered(data, runs, len(plan.drawn.cases)))
    return found


def _plans(data: CoverageData) -> Iterator[tuple[Outline, list[int]]]:
    """Yield every suite with a plan, and the numbers of its runs: parts of it may have been run."""
    found: list[tuple[Outline, list[int]]] = []
    for number, run in enumerate(data.runs):
        outline = outline_of(data, run.id)
        if outline is None or outline.plan is None:
            continue
        same = [runs for known, runs in found if known == outline]
        if same:
            same[0].append(number)
        else:
            found.append((outline, [number]))
    yield from found


def _answered(data: CoverageData, runs: Sequence[int], cases: int) -> Answered:
    """Return how the cases of a plan went; of a case that was run twice, the last time counts."""
    run, verdicts = np.zeros(cases, dtype=bool), np.full(cases, NOT_JUDGED, dtype=np.int8)
    folds = np.zeros(cases, dtype=np.int64)
    for outline, outcome, _ in judged_cases(data, runs):
        start = outline.starts[[test.name for test in outline.tests].index(outcome.test.name)]
        mine: Sequence[Case] = outcome.test.cases
        places = start + np.array(outcome.places or range(len(mine)), dtype=np.int64)
        run[places], verdicts[places], folds[places] = True, outcome.verdicts, folds_of(mine)
    return Answered(run, verdicts, folds)


def estimates_so_far(plan: Plan, found: Answered) -> list[Estimate]:
    """Return the estimates of a plan; those of tests whose cases were not all run have no rate."""
    if found.run.all():
        return estimate(plan, found.verdicts, found.folds)
    earlier, test = plan.earlier, plan.earlier.test[plan.drawn.cases]
    ready = np.bincount(test[~found.run], minlength=len(earlier.tests)) == 0
    known: Iterator[Estimate] = iter(())
    if ready.any():
        part, mine = only(plan, ready), found.taken(ready[test])
        known = iter(estimate(part, mine.verdicts, mine.folds)[:-1])
    each = [
        next(known) if ready[t] else _unknown(plan, found, test == t, name, earlier.rates[t])
        for t, name in enumerate(earlier.tests)
    ]
    return [*each, _unknown(plan, found, np.ones(len(test), dtype=bool), "", earlier.rate)]


def _unknown(plan: Plan, found: Answered, mine: Mask, name: str, before: float | None) -> Estimate:
    part = found.taken(mine)
    judged, failing = (part.verdicts != NOT_JUDGED) & part.run, part.verdicts == FAILS
    cases = plan.drawn.weight[mine].sum()
    counts = (int(cases), int(part.run.sum()), int(judged.sum()), int(failing.sum()))
    return Estimate(name, *counts, None, 0.0, 1.0, before, int((~part.run).sum()))


def only(plan: Plan, tests: Mask) -> Plan:
    """Return the plan of some of the tests alone."""
    earlier, drawn = plan.earlier, plan.drawn
    kept = tests[earlier.test]
    number, place = np.cumsum(tests) - 1, np.cumsum(kept) - 1
    mine = kept[drawn.cases]
    names = tuple(name for name, take in zip(earlier.tests, tests, strict=True) if take)
    said = (earlier.verdicts[:, kept], earlier.fails[..., kept], earlier.judged[..., kept])
    return replace(
        plan,
        earlier=Earlier(names, number[earlier.test[kept]], *said),
        drawn=Drawn(place[drawn.cases[mine]], drawn.weight[mine], drawn.stratum[mine]),
    )
