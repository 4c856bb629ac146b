"""Make a plan from the data files of earlier runs of a whole suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mncover.data.store import CoverageData
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.selection.allocation import Earlier, Outlook, outlook
from mncover.selection.budgets import Limit
from mncover.selection.cases import Cases, cases_of, reduced_suite
from mncover.selection.forecast import Forecast, forecast
from mncover.selection.planfile import Plan
from mncover.selection.strata import draw, strata_of
from mncover.suites.model import Outline, Suite


@dataclass(frozen=True)
class Planner:
    """A suite that was run as a whole, once or more often, and what to expect of its next run."""

    cases: Cases
    outline: Outline
    fingerprint: str
    models: tuple[str, ...]
    expected: Outlook

    @property
    def earlier(self) -> Earlier:
        """What the earlier runs said."""
        return self.expected.earlier

    def size(self, limit: Limit) -> int:
        """Return how many cases a budget takes; refuse one that leaves a test with too few."""
        n, tests = len(self.cases), self.earlier.sizes
        size, least = limit.size(n), int(np.minimum(tests, 2).sum())
        if size < least:
            raise SettingsError(
                f"a budget of {size:,} of {n:,} cases is too small: every test needs 2 cases, "
                f"which are {least:,} ({100 * least / n:.2g}%)."
            )
        return size

    def plan(self, size: int, seed: int = 0) -> tuple[Plan, Suite]:
        """Draw cases, and return the plan with the suite of the cases drawn, which carries it."""
        labels = self.cases.data.identity.labels
        drawn = draw(strata_of(self.expected, size), seed)
        plan = Plan(self.fingerprint, self.models, labels, seed, self.earlier, drawn)
        small = reduced_suite(self.cases, drawn.cases, self.outline)
        return plan, replace(small, plan=plan.to_json())


def planner_of(
    runs: Mapping[Path, CoverageData], advance: Callable[[int], object] = lambda done: None
) -> Planner:
    """Read what earlier runs of one suite say; the first of them is the one to compare with."""
    first: tuple[Path, Cases, Outline] | None = None
    forecasts: list[Forecast] = []
    for path, data in runs.items():
        cases, outline = _whole_suite(path, data)
        first = first or (path, cases, outline)
        if data.runs[0].suite_fingerprint != first[1].data.runs[0].suite_fingerprint:
            raise MismatchError(f"{first[0]} and {path}: they are runs of different suites.")
        rows = np.concatenate(cases.rows)
        suite = reduced_suite(cases, np.arange(len(cases)), outline)
        found = data.table.probabilities[rows]
        forecasts.append(forecast(suite, found, data.identity.labels, outline.classes, advance))
    assert first is not None  # the command line asks for a run
    _, cases, outline = first
    columns = [
        [getattr(one, name) for one in forecasts] for name in ("verdicts", "fails", "judged")
    ]
    earlier = Earlier(cases.tests, cases.test, *map(np.stack, columns))
    models = tuple(Path(data.identity.model).name for data in runs.values())
    fingerprint = cases.data.runs[0].suite_fingerprint
    return Planner(cases, outline, fingerprint, models, outlook(earlier))


def _whole_suite(path: Path, data: CoverageData) -> tuple[Cases, Outline]:
    """Return the cases of a run; refuse one that does not know all cases of a suite of tests."""
    try:
        cases = cases_of(data)
    except DataFileError as error:
        raise DataFileError(f"{path}: {error}.") from None
    if cases.outline is None:
        raise DataFileError(f"{path}: it is no run of a test suite; only tests can be planned.")
    if cases.outline.plan is not None:
        raise DataFileError(f"{path}: it is the run of a plan; plan from a run of the whole suite.")
    if data.table.answers:
        what = "the model answered in words; a plan needs the probabilities of classes"
        raise DataFileError(f"{path}: {what}.")
    if data.incomplete or len(cases) != len(cases.outline.sizes):
        raise DataFileError(f"{path}: it has not run every case; run the whole suite first.")
    return cases, cases.outline
