"""What a choice of cases is worth, compared with chance and with other ways to choose.

Chance is computed, not sampled: how many failures a random choice finds is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.budgets import Indices, Scores, best
from mncover.selection.cases import Cases
from mncover.selection.scores import available, score_cases
from mncover.suites.judging import FAILS, NOT_JUDGED

Verdicts = NDArray[np.int8]

Z95 = 1.959964


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's score method.

    >>> [round(x, 4) for x in wilson(95, 100)]
    [0.8882, 0.9785]
    """
    if n == 0:
        return 0.0, 1.0
    p, z = hits / n, Z95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # At both ends one limit is the share itself, which rounding would miss by a hair.
    return middle - half if hits else 0.0, middle + half if hits < n else 1.0


def random_interval(n: int, failing: int, k: int) -> tuple[int, int]:
    """Return the 95 % interval of the number of failures among k of n cases drawn at random.

    >>> random_interval(100, 50, 10)
    (2, 8)
    """
    return interval_of(chances(n, failing, k))


def chances(n: int, failing: int, k: int) -> NDArray[np.float64]:
    """Return the probabilities of 0, 1, 2 … failures among k of n cases drawn at random.

    >>> chances(4, 2, 1).round(3).tolist()
    [0.5, 0.5]
    """
    from scipy.stats import hypergeom  # slow to import

    found = hypergeom.pmf(np.arange(min(k, failing) + 1), n, failing, k)
    return np.asarray(found, dtype=np.float64)


def interval_of(chance: NDArray[np.float64]) -> tuple[int, int]:
    """Return the 95 % interval of a distribution: each tail outside it holds at most 2.5 %."""
    below, above = np.cumsum(chance), np.cumsum(chance[::-1])[::-1]
    inside = np.flatnonzero((below > 0.025) & (above > 0.025))
    return int(inside[0]), int(inside[-1])


def p_value(found: float, nulls: NDArray[np.float64]) -> float:
    """Return the p-value of a permutation test: how often chance's numbers are at least as high."""
    if math.isnan(found):
        return math.nan
    return float((1 + (nulls >= found - 1e-12).sum()) / (1 + len(nulls)))


@dataclass(frozen=True, slots=True)
class Found:
    """How many failing cases a choice holds; for chance the expected number and a 95 % interval.

    `tests` is the number of tests with a failing case among those chosen.
    """

    method: str
    cases: int
    failing: float
    low: float
    high: float
    tests: float


def compare_methods(
    cases: Cases, chosen: Indices, groups: Sequence[Indices], seed: int = 0
) -> list[Found]:
    """Let every method take as many cases of each group as were chosen, and count the failures.

    "random" comes last: the expectation over all choices of these sizes.
    """
    sized = [(group, int(np.isin(group, chosen).sum())) for group in groups]
    found = []
    for method in [name for name in available(cases) if name not in ("random", "failing")]:
        scores = score_cases(cases, method, seed)
        taken = [group[best(scores[group], size)] for group, size in sized]
        found.append(count_failures(cases, np.concatenate(taken), method))
    return [*found, _chance(cases, sized)]


def count_failures(cases: Cases, chosen: Indices, name: str = "chosen") -> Found:
    """Count the failing cases among those chosen."""
    mine = chosen[cases.verdicts[chosen] == FAILS]
    n = float(len(mine))
    return Found(name, len(chosen), n, n, n, float(len(np.unique(cases.test[mine]))))


def _chance(cases: Cases, sized: Sequence[tuple[Indices, int]]) -> Found:
    """Add up independent draws from the groups by convolving their distributions."""
    whole, reached, fails = np.ones(1), 0.0, cases.verdicts == FAILS
    for group, size in sized:
        whole = np.convolve(whole, chances(len(group), int(fails[group].sum()), size))
        expected = 0.0  # tests in which a failing case is found
        for test in np.unique(cases.test[group]):
            failing = int(fails[group[cases.test[group] == test]].sum())
            expected += 1 - float(chances(len(group), failing, size)[0])
        reached += expected
    low, high = interval_of(whole)
    mean = float((np.arange(len(whole)) * whole).sum())
    return Found("random", sum(size for _, size in sized), mean, low, high, reached)


# One list of cases at a budget.


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """What taking the cases with the highest scores is worth at one budget.

    `lift` is the failure rate of the cases taken divided by that of all cases. `low` and `high`
    are the 95 % interval of the failure rate of as many random cases. `found` is the share of all
    failures that is among the cases taken. `error` is the error of their failure rate as an
    estimate of the failure rate of all cases; `adjusted_error` is that of an estimate corrected
    by the failures of an earlier model (NaN without one).
    """

    budget: int
    failure_rate: float
    lift: float
    low: float
    high: float
    found: float
    error: float
    adjusted_error: float = math.nan


def failure_rate(verdicts: Verdicts) -> float:
    """Return the failing share of the judged cases; NaN if none was judged."""
    judged = int((verdicts != NOT_JUDGED).sum())
    return int((verdicts == FAILS).sum()) / judged if judged else math.nan


def at_budget(
    verdicts: Verdicts, scores: Scores, share: float, known: Verdicts | None = None
) -> BudgetOutcome:
    """Take the given share of the judged cases, those with the highest scores; ties in order.

    Cases that are not judged are left out: it is known beforehand which an expectation applies
    to. `known` are the verdicts of the model that the scores come from, if that is another one.
    The corrected estimate is its failure rate on all cases, plus how much more often the cases
    taken fail now (a difference estimator).
    """
    judged = verdicts != NOT_JUDGED
    fails = verdicts[judged] == FAILS
    n, failing = len(fails), int(fails.sum())
    if not n:
        return BudgetOutcome(0, *[math.nan] * 6)
    k = max(1, round(share * n))
    places = best(scores[judged], k)
    taken = int(fails[places].sum())
    rate, base = taken / k, failing / n
    before = None if known is None else known[judged]
    shift = math.nan if before is None else failure_rate(before) - failure_rate(before[places])
    low, high = random_interval(n, failing, k)
    lift, found = (rate / base, taken / failing) if failing else (math.nan, math.nan)
    return BudgetOutcome(k, rate, lift, low / k, high / k, found, rate - base, rate + shift - base)


def random_at_budget(verdicts: Verdicts, share: float) -> BudgetOutcome:
    """Return what to expect of as many random cases; `error` is a root mean square."""
    plain = at_budget(verdicts, np.zeros(len(verdicts)), share)
    n, k, base = int((verdicts != NOT_JUDGED).sum()), plain.budget, failure_rate(verdicts)
    if not n:
        return plain
    spread = math.sqrt(base * (1 - base) / k * (n - k) / (n - 1)) if n > 1 else 0.0
    found, lift = (k / n, 1.0) if base else (math.nan, math.nan)
    return BudgetOutcome(k, base, lift, plain.low, plain.high, found, spread)


def apfd(verdicts: Verdicts, scores: Scores) -> float:
    """Return how early failures come if the judged cases run by score: 1 at once, 0.5 by chance.

    This is the average percentage of faults detected: the area under the curve of failures found
    against cases run. NaN without failures.
    """
    judged = verdicts != NOT_JUDGED
    fails = (verdicts[judged] == FAILS)[np.argsort(-scores[judged], kind="stable")]
    n, m = len(fails), int(fails.sum())
    if not m:
        return math.nan
    places = np.flatnonzero(fails) + 1
    return float(1 - places.sum() / (n * m) + 1 / (2 * n))
