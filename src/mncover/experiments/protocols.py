"""Is a selection of cases better than chance? The paper's protocol, and a clean one. No torch here.

Everything takes plain arrays, one entry per case: a verdict (see `suites/failures.py`) and a
score, by which cases are taken, the largest first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.suites.failures import FAILS, NOT_JUDGED

Verdicts = NDArray[np.int8]
Scores = NDArray[np.float64]

QUANTILES = tuple(q / 10 for q in range(1, 11))
SHUFFLES = 1000


@dataclass(frozen=True, slots=True)
class PaperOutcome:
    """The paper's numbers for one test, and what chance makes of the same protocol.

    Failure rates are shares from 0 to 1, NaN where no case was judged. `reduction` is the
    paper's; it is the sum of `truncation` (cases never looked at), `redundancy` (cases that
    added nothing) and `cut` (the tenth of smallest gains).
    """

    failure_rate: float
    maximum: float
    mean: float
    reduction: float
    truncation: float
    redundancy: float
    cut: float
    null_mean: float
    null_high: float
    p_value: float


def paper_protocol(
    verdicts: Verdicts,
    candidates: int,
    kept: NDArray[np.int64],
    gains: Scores,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> PaperOutcome:
    """Judge a sequential filter as the paper does.

    `verdicts` are of all cases of the test, of which the first `candidates` were visited; `kept`
    are those that the filter kept, with their `gains`. For ten quantiles of the gains the cases
    of at least that gain are kept, and the largest and mean failure rate of the ten sets are
    reported. A maximum of ten is high by chance alone, so the gains are also dealt to the kept
    cases at random, many times: `null_mean` and `null_high` are the mean and the 97.5 % point of
    the maxima found so, and `p_value` says how often chance does at least as well.
    """
    n, mine = len(verdicts), verdicts[kept]
    rates = _rates_by_quantile(mine, gains)
    least = int((gains >= np.quantile(gains, QUANTILES[0])).sum()) if len(gains) else 0
    random = np.random.default_rng(seed)
    nulls = np.array(
        [_largest(_rates_by_quantile(random.permutation(mine), gains)) for _ in range(shuffles)]
    )
    maximum = _largest(rates)
    return PaperOutcome(
        failure_rate=failure_rate(verdicts),
        maximum=maximum,
        mean=_mean(rates),
        reduction=1 - least / n,
        truncation=1 - candidates / n,
        redundancy=(candidates - len(kept)) / n,
        cut=(len(kept) - least) / n,
        null_mean=_mean(nulls),
        null_high=float(np.nanquantile(nulls, 0.975)) if np.isfinite(nulls).any() else math.nan,
        p_value=_p_value(maximum, nulls),
    )


def failure_rate(verdicts: Verdicts) -> float:
    """Return failing of judged cases; NaN if none was judged."""
    judged = int((verdicts != NOT_JUDGED).sum())
    return int((verdicts == FAILS).sum()) / judged if judged else math.nan


def _rates_by_quantile(verdicts: Verdicts, gains: Scores) -> Scores:
    if not len(gains):
        return np.full(len(QUANTILES), math.nan)
    edges = np.quantile(gains, QUANTILES)
    return np.array([failure_rate(verdicts[gains >= edge]) for edge in edges])


def _largest(rates: Scores) -> float:
    known = rates[np.isfinite(rates)]
    return float(known.max()) if len(known) else math.nan


def _mean(rates: Scores) -> float:
    known = rates[np.isfinite(rates)]
    return float(known.mean()) if len(known) else math.nan


def _p_value(maximum: float, nulls: Scores) -> float:
    """Return the share of chance's maxima that are at least as high, ours counted among them."""
    if math.isnan(maximum):
        return math.nan
    return float((1 + (nulls >= maximum - 1e-12).sum()) / (1 + len(nulls)))


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """What taking the cases of highest score is worth at one budget.

    `lift` is the failure rate of the cases taken over that of all. `low` and `high` bound the
    failure rate of as many cases drawn at random, with 95 % probability. `found` is the share of
    all failures among the cases taken, `error` the difference between the rate of the cases
    taken and that of all.
    """

    budget: int
    failure_rate: float
    lift: float
    low: float
    high: float
    found: float
    error: float


def at_budget(verdicts: Verdicts, scores: Scores, share: float) -> BudgetOutcome:
    """Take the given share of the judged cases by score, the largest first, ties in order.

    Only judged cases take part: which cases an expectation applies to is known beforehand.
    """
    judged = verdicts != NOT_JUDGED
    fails, mine = verdicts[judged] == FAILS, scores[judged]
    n, k, all_failing = len(fails), max(1, round(share * len(fails))), int(fails.sum())
    taken = fails[np.argsort(-mine, kind="stable")[:k]]
    if not n:
        return BudgetOutcome(0, *[math.nan] * 6)
    rate, base = float(taken.mean()), all_failing / n
    low, high = random_interval(n, all_failing, k)
    return BudgetOutcome(
        budget=k,
        failure_rate=rate,
        lift=rate / base if base else math.nan,
        low=low / k,
        high=high / k,
        found=int(taken.sum()) / all_failing if all_failing else math.nan,
        error=rate - base,
    )


def random_interval(n: int, failing: int, k: int) -> tuple[int, int]:
    """Return how many failures are among k of n cases drawn at random, with 95 % probability.

    Exact: the smallest and largest number whose tails hold no more than 2.5 % each.

    >>> random_interval(100, 50, 10)
    (2, 8)
    """
    counts = range(max(0, k - (n - failing)), min(k, failing) + 1)
    total = _log_choose(n, k)
    chance = np.exp(
        [_log_choose(failing, x) + _log_choose(n - failing, k - x) - total for x in counts]
    )
    below = np.cumsum(chance)
    above = np.cumsum(chance[::-1])[::-1]
    inside = [x for x, b, a in zip(counts, below, above, strict=True) if b > 0.025 and a > 0.025]
    return inside[0], inside[-1]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def apfd(verdicts: Verdicts, scores: Scores) -> float:
    """Return how early failures come if cases are run by score: 1 is at once, 0.5 is chance.

    This is the area under the curve of failures found against cases run (average percentage of
    faults detected), over the judged cases; NaN without failures.
    """
    judged = verdicts != NOT_JUDGED
    fails = (verdicts[judged] == FAILS)[np.argsort(-scores[judged], kind="stable")]
    n, m = len(fails), int(fails.sum())
    if not m:
        return math.nan
    places = np.flatnonzero(fails) + 1
    return float(1 - places.sum() / (n * m) + 1 / (2 * n))
