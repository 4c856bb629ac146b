"""The gates of `run`, `report` and `json`: what was asked for, what is checked, the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from mncover.cli import options as o
from mncover.cli.options import Config, flag, option
from mncover.data import datafile
from mncover.data.counts import Tally
from mncover.data.results import Result, below
from mncover.data.store import CoverageData
from mncover.errors import DataFileError, SettingsError
from mncover.report.columns import View
from mncover.report.failures import changes_in_words, listed_failures
from mncover.selection.cases import Cases, cases_by_run
from mncover.selection.changes import Changes, changes_since
from mncover.selection.gates import (
    Check,
    MaxFailing,
    check_failing,
    max_failing_by_test,
    not_run,
    parse_by_test,
)
from mncover.suites.rows import Rows
from mncover.types import counted, display_percent

GATE_BROKEN = 2  # the exit code
NEW_FAILURES = "--fail-on-new-failures"

Since = Annotated[
    Path | None, option("An earlier data file: show which cases fail that passed there.", "FILE")
]
FailOnNew = Annotated[
    bool, flag(NEW_FAILURES, "Exit with 2 if a case fails that passed in the file of --since.")
]


@dataclass(frozen=True, slots=True)
class Gates:
    """What the options ask for; whatever is wrong with them is refused before any work."""

    config: Config
    fail_under_test: Mapping[str, float]
    max_failing: MaxFailing | None
    max_failing_test: Mapping[str, MaxFailing]
    earlier: tuple[str, list[Cases]] | None
    on_new: bool

    @classmethod
    def of(
        cls,
        config: Config,
        tests: Sequence[str] | None,
        since: Path | None = None,
        on_new: bool = False,
    ) -> Gates:
        """Return the gates of a command, given the names of all tests; None if not known."""
        if on_new and since is None:
            what = "--fail-on-new-failures compares with an earlier data file"
            raise SettingsError(f"{what}: name it with --since.")
        overall = None if config.max_failing is None else MaxFailing.parse(config.max_failing)
        by_test = max_failing_by_test(config.max_failing_test or [], tests)
        earlier = None if since is None else (str(since), _cases(since, datafile.read(since)))
        under = _percentages(config.fail_under_test or [], tests)
        return cls(config, under, overall, by_test, earlier, on_new)

    def require_judging(self, rows: Rows) -> None:
        """Refuse to run texts that nothing is expected of if it matters how many fail."""
        asked = self.max_failing is not None or self.max_failing_test or self.on_new
        if asked and rows.suite is None and all(label is None for label in rows.labels):
            raise SettingsError(
                f"{rows.path}: no text has a label, so a gate on failing cases checks nothing; "
                "name the field of the labels with --label."
            )

    def checked(self, view: View, path: Path) -> View:
        """Return a view of a data file with what the gates say, and what changed."""
        changes = None
        if self.earlier is not None:
            since, before = self.earlier
            changes = changes_since(_cases(path, view.data), before, since)
        checks = check_failing(view.result, self.max_failing, self.max_failing_test)
        if changes is not None and self.on_new:
            checks.append(_new_failures(changes))
        checks += _coverage(view.result, self.config, self.fail_under_test)
        return replace(view, checks=tuple(checks), changes=changes)


def exit_code(view: View, listed: bool) -> int:
    """Name every gate that does not hold or was not checked, and return the exit code.

    Cases that fail newly are listed too, unless the report has `listed` them.
    """
    say = o.speaker(quiet=False)
    for check in view.checks:
        if check.holds:
            continue
        say(check.says)
        if check.gate == NEW_FAILURES and view.changes is not None and not listed:
            for line in (changes_in_words(view.changes), *listed_failures(view.changes)):
                say(line)
    return GATE_BROKEN if any(check.holds is False for check in view.checks) else 0


def _cases(path: Path, data: CoverageData) -> list[Cases]:
    try:
        return cases_by_run(data)
    except DataFileError as error:
        raise DataFileError(f"{path}: {str(error).rstrip('.')}.") from None


def _new_failures(changes: Changes) -> Check:
    n, since = len(changes.newly_failing), changes.since
    if not changes.compared:
        says = f"no case can be compared with {since}, so {NEW_FAILURES} checks nothing."
        return Check(NEW_FAILURES, "", False, says)
    if n:
        says = f"{counted(n, 'new failure')}, which passed in {since} ({NEW_FAILURES})."
        return Check(NEW_FAILURES, "", False, says)
    says = f"no new failure since {since}, {counted(changes.compared, 'case')} compared."
    return Check(NEW_FAILURES, "", True, says)


def _coverage(result: Result, config: Config, by_test: Mapping[str, float]) -> list[Check]:
    """Check coverage, in all and of some tests."""
    criterion, of_all = result.identity.metric(config.metric)
    name, bins = criterion.name, "all" if of_all else "the reachable"

    def covered(gate: str, test: str, tally: Tally, limit: float) -> Check:
        share = tally.share if of_all else tally.share_of_reachable
        holds, where = not below(share, limit), f"{test}: " if test else ""
        reached, percent = "not below" if holds else "below", display_percent(share)
        says = (
            f"{where}{criterion.title} {percent} % of {bins} bins is {reached} {gate} {limit:g} %."
        )
        return Check(gate, test, holds, says)

    tallies = {context.name: context.by[name].tally for context in result.contexts}
    checks = []
    if config.fail_under is not None:
        whole = result.criteria[name].tally
        checks.append(covered("--fail-under", "", whole, config.fail_under))
    for test, limit in by_test.items():
        if test in tallies:
            checks.append(covered("--fail-under-test", test, tallies[test], limit))
        else:
            checks.append(not_run("--fail-under-test", test))
    return checks


def _percentages(given: Sequence[str], tests: Sequence[str] | None) -> dict[str, float]:
    """Return the least coverage of each test named, in percent."""
    form = "NAME=PERCENT, 0 to 100"
    limits = parse_by_test(given, tests, r"(?:100(?:\.0*)?|\d{1,2}(?:\.\d*)?)", form)
    return {name: float(limit) for name, limit in limits.items()}
