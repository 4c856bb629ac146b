"""Is a selection of cases better than chance? The paper's protocol, and a clean one. No torch here.

Everything takes plain arrays, one entry per case: a verdict (see `suites/failures.py`) and a
score, by which cases are taken, the largest first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.chance import random_interval
from mncover.suites.judging import FAILS, NOT_JUDGED

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
    mean_p_value: float


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
    the maxima found so, `p_value` says how often chance does at least as well, `mean_p_value` how
    often it does so by the mean, which is less easily driven by the smallest sets.
    """
    n, mine = len(verdicts), verdicts[kept]
    rates = _rates_by_quantile(mine, gains)
    least = int((gains >= np.quantile(gains, QUANTILES[0])).sum()) if len(gains) else 0
    random = np.random.default_rng(seed)
    dealt = [_rates_by_quantile(random.permutation(mine), gains) for _ in range(shuffles)]
    nulls = np.array([_largest(found) for found in dealt])
    maximum, mean = _largest(rates), _mean(rates)
    return PaperOutcome(
        failure_rate=failure_rate(verdicts),
        maximum=maximum,
        mean=mean,
        reduction=1 - least / n,
        truncation=1 - candidates / n,
        redundancy=(candidates - len(kept)) / n,
        cut=(len(kept) - least) / n,
        null_mean=_mean(nulls),
        null_high=float(np.nanquantile(nulls, 0.975)) if np.isfinite(nulls).any() else math.nan,
        p_value=_p_value(maximum, nulls),
        mean_p_value=_p_value(mean, np.array([_mean(found) for found in dealt])),
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


def _p_value(found: float, nulls: Scores) -> float:
    """Return the share of chance's numbers that are at least as high, ours counted among them."""
    if math.isnan(found):
        return math.nan
    return float((1 + (nulls >= found - 1e-12).sum()) / (1 + len(nulls)))


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """What taking the cases of highest score is worth at one budget.

    `lift` is the failure rate of the cases taken over that of all. `low` and `high` bound the
    failure rate of as many cases drawn at random, with 95 % probability. `found` is the share of
    all failures among the cases taken. `error` is what is wrong with the failure rate of all if
    it is taken to be that of the cases taken; `adjusted_error` the same if the rate is corrected
    by what an earlier model's failures tell (NaN without one).
    """

    budget: int
    failure_rate: float
    lift: float
    low: float
    high: float
    found: float
    error: float
    adjusted_error: float = math.nan


def at_budget(
    verdicts: Verdicts, scores: Scores, share: float, known: Verdicts | None = None
) -> BudgetOutcome:
    """Take the given share of the judged cases by score, the largest first, ties in order.

    Only judged cases take part: which cases an expectation applies to is known beforehand.
    `known` are the verdicts on all these cases of the model that the scores are from, if that is
    another one. The corrected estimate is its failure rate on all cases, plus how much more the
    cases taken fail now than they did then (a difference estimator).
    """
    judged = verdicts != NOT_JUDGED
    fails, mine = verdicts[judged] == FAILS, scores[judged]
    n, all_failing = len(fails), int(fails.sum())
    if not n:
        return BudgetOutcome(0, *[math.nan] * 6)
    k = max(1, round(share * n))
    places = np.argsort(-mine, kind="stable")[:k]
    taken = fails[places]
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
        adjusted_error=math.nan if known is None else rate + _shift(known[judged], places) - base,
    )


def _shift(known: Verdicts, places: NDArray[np.int64]) -> float:
    """Return how much less the cases taken fail than all do, by an earlier model."""
    return failure_rate(known) - failure_rate(known[places])


def random_at_budget(verdicts: Verdicts, share: float) -> BudgetOutcome:
    """Return what to expect of as many cases drawn at random; its errors are root mean squares."""
    plain = at_budget(verdicts, np.zeros(len(verdicts)), share)
    n, k, base = int((verdicts != NOT_JUDGED).sum()), plain.budget, failure_rate(verdicts)
    if not n:
        return plain
    spread = math.sqrt(base * (1 - base) / k * (n - k) / (n - 1)) if n > 1 else 0.0
    found, lift = (k / n, 1.0) if base else (math.nan, math.nan)
    return BudgetOutcome(k, base, lift, plain.low, plain.high, found, spread)


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
