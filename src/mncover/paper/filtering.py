"""Tables 1, 2 and 6: are the cases that filtering by coverage leaves more likely to fail?

For each test: the paper's protocol, what chance achieves under the same protocol, and a clean
protocol that compares coverage with other scores. All numbers come from data files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.budgets import Scores
from mncover.selection.cases import Cases
from mncover.selection.chance import (
    BudgetOutcome,
    Verdicts,
    apfd,
    at_budget,
    failure_rate,
    random_at_budget,
)
from mncover.selection.scores import available, gain_score, score_cases
from mncover.suites.judging import FAILS, NOT_JUDGED

QUANTILES = tuple(q / 10 for q in range(1, 11))
SHUFFLES = 1000
BUDGETS = (0.1, 0.2, 0.4)

SENTIMENT_TESTS = (
    *("change names", "add negative phrases", "protected: race", "used to, but now"),
    *("protected: sexual", "change locations", "change neutral words with BERT", "contractions"),
    *("2 typos", "change numbers", "typos", "neutral words in context", "protected: religion"),
    *("add random urls and handles", "simple negations: not neutral is still neutral"),
    *("simple negations: not negative", "my opinion is what matters", "punctuation", "Q & A: yes"),
    *("Q & A: no", "simple negations: negative", "reducers", "intensifiers"),
)
QQP_TESTS = (
    *("Change first name in one of the questions", "add one typo"),
    *("Product of paraphrases(q1) * paraphrases(q2)", "Replace synonyms in real pairs"),
    *("Symmetry: f(a, b) = f(b, a)", "Testing implications"),
    *("same adjectives, different people v3", "same adjectives, different people"),
    "Change same location in both questions",
)
# The tests of each table in the paper's order, and how many texts of each test the paper uses.
TABLES = {
    "table1": (SENTIMENT_TESTS, 1500),
    "table2": (SENTIMENT_TESTS, 1500),
    "table6": (QQP_TESTS, 200),
}
# The paper's reductions, in percent, that need no model: every candidate case adds coverage, so
# they depend only on the number of texts used and on the first quantile.
PAPER_REDUCTIONS = {
    "change names": 62.84,
    "change locations": 86.47,
    "contractions": 34.80,
    "typos": 10.00,
}


@dataclass(frozen=True, slots=True)
class PaperOutcome:
    """The paper's numbers for one test, and what chance achieves under the same protocol.

    Failure rates are shares from 0 to 1, NaN where no case was judged. `reduction` is the paper's:
    the sum of `truncation` (cases never visited), `redundancy` (cases that added nothing) and
    `cut` (the tenth with the smallest gains). The `null_` numbers and p-values are explained at
    `paper_protocol`.
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

    `verdicts` are those of all cases of the test, of which the first `candidates` were visited;
    `kept` are the cases that the filter kept, with their `gains`. At each of ten quantiles of the
    gains, the cases with at least that gain are kept; the largest and the mean failure rate of
    these ten sets are reported. The maximum of ten is high by chance alone, so the gains are also
    permuted over the kept cases many times: `null_mean` and `null_high` are the mean and the
    97.5 % point of the maxima found this way, `p_value` says how often chance does at least as
    well, and `mean_p_value` how often it does so by the mean, which depends less on the smallest
    sets.
    """
    n, mine = len(verdicts), verdicts[kept]
    rates = _rates_by_quantile(mine, gains)
    first = int((gains >= np.quantile(gains, QUANTILES[0])).sum()) if len(gains) else 0
    random = np.random.default_rng(seed)
    shuffled = [_rates_by_quantile(random.permutation(mine), gains) for _ in range(shuffles)]
    nulls = np.array([_known(np.max, found) for found in shuffled])
    means = np.array([_known(np.mean, found) for found in shuffled])
    return PaperOutcome(
        failure_rate=failure_rate(verdicts),
        maximum=_known(np.max, rates),
        mean=_known(np.mean, rates),
        reduction=1 - first / n,
        truncation=1 - candidates / n,
        redundancy=(candidates - len(kept)) / n,
        cut=(len(kept) - first) / n,
        null_mean=_known(np.mean, nulls),
        null_high=float(np.nanquantile(nulls, 0.975)) if np.isfinite(nulls).any() else math.nan,
        p_value=_p_value(_known(np.max, rates), nulls),
        mean_p_value=_p_value(_known(np.mean, rates), means),
    )


def _rates_by_quantile(verdicts: Verdicts, gains: Scores) -> Scores:
    if not len(gains):
        return np.full(len(QUANTILES), math.nan)
    edges = np.quantile(gains, QUANTILES)
    return np.array([failure_rate(verdicts[gains >= edge]) for edge in edges])


def _known(statistic: Callable[[Scores], float], values: Scores) -> float:
    """Return a statistic of the values that are not NaN; NaN if all are."""
    known = values[np.isfinite(values)]
    return float(statistic(known)) if len(known) else math.nan


def _p_value(found: float, nulls: Scores) -> float:
    """Return the share of the numbers, ours and chance's, that are at least as high as ours."""
    if math.isnan(found):
        return math.nan
    return float((1 + (nulls >= found - 1e-12).sum()) / (1 + len(nulls)))


@dataclass(frozen=True, slots=True)
class Judged:
    """One test judged by one model, by both protocols.

    The keys of `paper` are criteria, those of `clean` budgets in percent and then scores, those
    of `apfd` scores.
    """

    cases: int
    judged: int
    failing: int
    failure_rate: float
    paper: dict[str, PaperOutcome]
    clean: dict[str, dict[str, BudgetOutcome]]
    apfd: dict[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One test, judged by the model that the scores come from and perhaps by another one."""

    test: str
    candidates: int
    own: Judged
    other: Judged | None = None


def table_row(
    test: str, cases: Cases, first_texts: int, other: Verdicts | None = None, seed: int = 0
) -> Row:
    """Return a test's row from all of its cases, which were measured alone and in order.

    `other` are another model's verdicts on the same cases.
    """
    starts = np.cumsum([0, *(len(rows) for rows in cases.rows)])[:-1]
    candidates = int((starts < first_texts).sum())
    own = _judged(cases, cases.verdicts, candidates, seed)
    theirs = None if other is None else _judged(cases, other, candidates, seed)
    return Row(test, candidates, own, theirs)


def _judged(cases: Cases, verdicts: Verdicts, candidates: int, seed: int) -> Judged:
    elsewhere = verdicts is not cases.verdicts
    left_out = {"random"} if elsewhere else {"random", "failing"}  # "failing" would be cheating
    names = [name for name in available(cases) if name not in left_out]
    scores = {name: score_cases(cases, name, seed) for name in names}
    known = cases.verdicts if elsewhere else None
    paper: dict[str, PaperOutcome] = {}
    for criterion in cases.data.identity.names:
        gains = scores.get(gain_score(criterion))
        if gains is not None:
            kept = np.flatnonzero(gains[:candidates] > 0)
            paper[criterion] = paper_protocol(verdicts, candidates, kept, gains[kept], seed=seed)
    clean = {
        f"{100 * share:.0f}": {
            **{name: at_budget(verdicts, mine, share, known) for name, mine in scores.items()},
            "random": random_at_budget(verdicts, share),
        }
        for share in BUDGETS
    }
    return Judged(
        cases=len(verdicts),
        judged=int((verdicts != NOT_JUDGED).sum()),
        failing=int((verdicts == FAILS).sum()),
        failure_rate=failure_rate(verdicts),
        paper=paper,
        clean=clean,
        apfd={name: apfd(verdicts, mine) for name, mine in scores.items()},
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers that are not NaN; NaN if all are."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def beyond_chance(judged: Sequence[Judged], budget: str, score: str) -> tuple[int, int, int]:
    """Return in how many tests a score is above chance's interval, below it, and of how many.

    Tests in which no case or every case fails are not counted.
    """
    rows = [row.clean[budget][score] for row in judged if 0 < row.failing < row.judged]
    above = sum(row.failure_rate > row.high + 1e-12 for row in rows)
    below = sum(row.failure_rate < row.low - 1e-12 for row in rows)
    return above, below, len(rows)


def reached_tests(judged: Sequence[Judged], budget: str, score: str) -> tuple[int, int]:
    """Return in how many of the tests with failures a score finds one, and of how many."""
    rows = [row.clean[budget][score] for row in judged if row.failing]
    return sum(row.found > 0 for row in rows), len(rows)


def significant(
    judged: Sequence[Judged], criterion: str, of: str = "p_value", level: float = 0.05
) -> tuple[int, int]:
    """Return in how many tests a p-value of the paper's protocol is low, and of how many."""
    values = [getattr(row.paper[criterion], of) for row in judged if 0 < row.failing < row.judged]
    return sum(value < level for value in values), len(values)


def same_choices(judged: Sequence[Judged]) -> dict[str, str]:
    """Return the scores that choose as an earlier one does in every test, with the earlier one.

    With two classes all measures of uncertainty agree.
    """
    found, first = {}, dict[str, str]()
    for score in judged[0].apfd:
        outcomes = [[of[score] for of in (row.apfd, *row.clean.values())] for row in judged]
        earlier = first.setdefault(repr(outcomes), score)  # as text, NaN equals NaN
        if earlier != score:
            found[score] = earlier
    return found
