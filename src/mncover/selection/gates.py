"""Gates: how many cases may fail, and what a gate says. No torch here.

A case of a test suite fails if it breaks its expectation, a labelled text if it is classified
wrongly. Cases that nothing says are right or wrong do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mncover.data.estimate import Estimate
from mncover.data.results import ContextResult, Result
from mncover.errors import SettingsError
from mncover.types import display_percent, suggestion

MAX_FAILING, MAX_FAILING_TEST = "--max-failing", "--max-failing-test"

Interval = tuple[float, float]  # from 0 to 1


@dataclass(frozen=True, slots=True)
class Check:
    """A gate that was checked: the option that asks for it, whether it holds, and a sentence.

    `test` is the test that it is about; empty if it is about all. `holds` is None if the test was
    not run, or not all that was planned of it, because only a part of its suite was.
    """

    gate: str
    test: str
    holds: bool | None
    says: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        about = {"gate": self.gate, "test": self.test or None}
        return {**about, "holds": self.holds, "message": self.says}


@dataclass(frozen=True, slots=True)
class MaxFailing:
    """How many cases may fail: a share of those that are judged, or a number.

    The share is exact: 0.7 % of 1,000 cases are 7.
    """

    share: Fraction | None = None
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> MaxFailing:
        """Return what a text such as `5%` or `12` stands for.

        >>> MaxFailing.parse("5%"), str(MaxFailing.parse("12"))
        (MaxFailing(share=Fraction(1, 20), number=None), '12')
        """
        match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(%?)\s*", text, re.ASCII)
        if match is None or (match[2] and Fraction(match[1]) > 100):
            raise SettingsError(
                "how many cases may fail is a percentage (5%) or a number of cases (12), "
                f"got {text!r:.40}."
            )
        if match[2]:
            return cls(share=Fraction(match[1]) / 100)
        if "." in match[1]:
            raise SettingsError(
                "how many cases may fail is a whole number, and a percentage ends with %: "
                f"got {text!r}."
            )
        return cls(number=int(match[1]))

    def __str__(self) -> str:
        return f"{self.number}" if self.share is None else f"{float(100 * self.share):g}%"

    def rate_of(self, judged: int) -> Fraction:
        """Return which share of so many cases may fail."""
        return Fraction(self.number or 0, judged) if self.share is None else self.share


def exceeds(rate: float | Fraction, limit: Fraction, interval: Interval | None = None) -> bool:
    """Return whether a failure rate is above a limit.

    With an interval the rate is an estimate, which is above only if all of the interval is: what
    may be chance does not stop a build.
    """
    least = rate if interval is None else interval[0]
    return least > (limit if isinstance(least, Fraction) else float(limit))


def parse_by_test(
    given: Sequence[str], known: Sequence[str] | None, pattern: str, form: str
) -> dict[str, str]:
    """Return the limit of each test from texts such as `negation=10%`; refuse unknown tests.

    `known` is None if the tests are not known. `pattern` is what a limit looks like, and `form`
    how a message calls the whole.
    """
    limits: dict[str, str] = {}
    for text in given:
        match = re.fullmatch(rf"(.+)=({pattern})", text, re.DOTALL | re.ASCII)
        if match is None:
            raise SettingsError(f"a test's limit is {form}, got {text!r:.80}.")
        name, limit = match.groups()
        if known is not None and name not in known:
            raise SettingsError(f"there is no test {name!r}: {suggestion(name, known)}")
        limits[name] = limit
    return limits


def max_failing_by_test(given: Sequence[str], known: Sequence[str] | None) -> dict[str, MaxFailing]:
    """Return how many cases of each test may fail, from texts such as `negation=10%`."""
    limits = parse_by_test(given, known, r"[^=]+", "NAME=5% or NAME=12")
    return {name: MaxFailing.parse(limit) for name, limit in limits.items()}


def check_failing(
    result: Result, overall: MaxFailing | None, by_test: Mapping[str, MaxFailing]
) -> list[Check]:
    """Check how many cases fail, in all and of some tests."""
    contexts = {context.name: [context] for context in result.contexts}
    estimates = {one.test: one for one in result.estimates}
    asked = [] if overall is None else [(MAX_FAILING, "", overall, list(result.contexts))]
    asked += [
        (MAX_FAILING_TEST, name, limit, contexts.get(name, [])) for name, limit in by_test.items()
    ]
    checks = []
    for gate, test, limit, mine in asked:
        if test in estimates and (estimates[test].run or not test):
            checks.append(_check_estimate(gate, estimates[test], limit))
        elif test and not mine:
            checks.append(not_run(gate, test))
        else:
            checks.append(_check(gate, test, *_counts(mine), limit))
    return checks


def not_run(gate: str, test: str) -> Check:
    """Return what a gate says of a test that is not in the part of a suite that was run."""
    return Check(gate, test, None, f"{test}: not run, so {gate} was not checked.")


def _check_estimate(gate: str, one: Estimate, limit: MaxFailing) -> Check:
    """Check the estimated rate of a whole test, of which a plan was run."""
    where = f"{one.test}: " if one.test else ""
    if one.missing:
        says = f"{where}not all cases of the plan were run, so {gate} was not checked."
        return Check(gate, one.test, None, says)
    if one.rate is None:
        return Check(gate, one.test, False, f"{where}no case is judged, so {gate} checks nothing.")
    broken = exceeds(one.rate, limit.rate_of(one.cases), (one.low, one.high))
    rate, low, high = (display_percent(share) for share in (one.rate, one.low, one.high))
    fail, than = (
        f"{rate} % of all cases fail ({low} to {high} %)",
        "more than" if broken else "within",
    )
    says = f"{where}an estimated {fail}, {than} {gate} {limit}."
    return Check(gate, one.test, not broken, says)


def _counts(contexts: Sequence[ContextResult]) -> tuple[int, int]:
    """Return how many cases fail and how many are judged."""
    failing = sum(context.failing for context in contexts)
    return failing, sum(context.judged for context in contexts)


def _check(gate: str, test: str, failing: int, judged: int, limit: MaxFailing) -> Check:
    where = f"{test}: " if test else ""
    if not judged:  # a gate that checks nothing must not look like one that holds
        return Check(gate, test, False, f"{where}no case is judged, so {gate} checks nothing.")
    rate = Fraction(failing, judged)
    broken = exceeds(rate, limit.rate_of(judged))
    percent, than = display_percent(float(rate)), "more than" if broken else "within"
    says = f"{where}{failing:,} of {judged:,} cases fail ({percent} %), {than} {gate} {limit}."
    return Check(gate, test, not broken, says)
