"""What judging has found so far, against chance, and how many failures are left.

The estimate rests on the cases that were drawn at random (`Asked.chance`). Each of them gives an
unbiased estimate of all failures: those known before it, those expected among the rest, and how
far the drawn case was from what was expected of it, divided by its chance. So the interval
holds although most of what was judged was chosen because it looked like a failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mncover.selection.chance import random_interval
from mncover.selection.journal import Journal

MIN_DRAWN = 5  # cases drawn at random, below which nothing is estimated
HALF = 0.5  # of a draw, for each end of what is possible


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BatchFound:
    """How a batch went: cases, those judged, those failing, and how many failures were expected.

    Nothing was expected of a batch that was chosen before there was a prediction.
    """

    number: int
    cases: int
    judged: int
    failing: int
    expected: float | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: `failing` of `judged` cases, out of `cases` in the pool.

    `chance` is how many failures as many cases drawn at random would have held, and `left` how many
    failures are among the cases without a verdict; both are None until cases that were drawn at
    random have verdicts, of which there are `drawn`.
    """

    cases: int
    asked: int
    judged: int
    failing: int
    drawn: int
    chance: Estimate | None
    left: Estimate | None
    batches: tuple[BatchFound, ...]


def summarize_findings(journal: Journal, cases: int) -> Findings:
    """Return what a journal says about a pool of `cases` cases."""
    verdicts = journal.verdicts
    failing = sum(verdict == "wrong" for verdict in verdicts.values())
    each = single_estimates(journal)
    total = (
        None if len(each) < MIN_DRAWN else combined(each, failing, cases - len(verdicts) + failing)
    )
    return Findings(
        cases=cases,
        asked=len(journal.cases),
        judged=len(verdicts),
        failing=failing,
        drawn=len(each),
        chance=None if total is None else _by_chance(total, len(verdicts), cases),
        left=None if total is None else _less(total, failing),
        batches=tuple(_batch(journal, number) for number in range(1, journal.batches + 1)),
    )


def single_estimates(journal: Journal) -> list[float]:
    """Return what each case that was drawn at random says about the number of all failures.

    A case without a verdict counts as what was expected of it.
    """
    known, found = 0.0, []
    for one in journal.asked:
        verdict = journal.verdicts.get(one.case)
        fails = one.expected if verdict is None else float(verdict == "wrong")
        if one.chance > 0 and verdict is not None:
            found.append(known + one.rest + (fails - one.expected) / one.chance)
        known += fails
    return found


def combined(each: list[float], least: float, most: float) -> Estimate:
    """Return the mean of single estimates with its 95 % interval, within what is possible.

    Later ones rest on better predictions, so they weigh more: by their place. Given those before
    it each is unbiased, so they do not correlate, and the variances of the weighted add up. Where
    failures are rare a few draws may hold none of them, and then do not vary: so the interval, not
    the value, also has half a draw that found what is least possible and half a draw that found
    what is most, as Jeffreys' prior does for a share.
    """
    from scipy.stats import t  # slow to import

    weights = np.arange(1.0, len(each) + 1)
    value = min(max(float(np.average(each, weights=weights)), least), most)
    # As many draws of equal weight would say as much.
    draws = weights.sum() ** 2 / (weights**2).sum()
    values = np.array([*each, least, most])
    shares = np.array([*(weights / weights.sum() * draws), HALF, HALF]) / (draws + 2 * HALF)
    middle = float((shares * values).sum())
    variance = float((shares * (values - middle) ** 2).sum()) / (draws + 2 * HALF)
    half = float(t.ppf(0.975, draws + 2 * HALF - 1)) * math.sqrt(variance)
    return Estimate(
        value, min(value, max(middle - half, least)), max(value, min(middle + half, most))
    )


def _less(total: Estimate, failing: int) -> Estimate:
    return Estimate(total.value - failing, total.low - failing, total.high - failing)


def _by_chance(total: Estimate, judged: int, cases: int) -> Estimate:
    """Return how many failures as many random cases would hold, if `total` of all cases fail."""
    value = total.value * judged / cases
    low, _ = random_interval(cases, math.floor(total.low), judged)
    _, high = random_interval(cases, math.ceil(total.high), judged)
    return Estimate(value, low, high)


def _batch(journal: Journal, number: int) -> BatchFound:
    mine = [one for one in journal.asked if one.batch == number and one.why != "given"]
    verdicts = [journal.verdicts[one.case] for one in mine if one.case in journal.verdicts]
    start = any(one.why == "start" for one in mine)
    expected = None if start else sum(one.expected for one in mine)
    return BatchFound(number, len(mine), len(verdicts), verdicts.count("wrong"), expected)
