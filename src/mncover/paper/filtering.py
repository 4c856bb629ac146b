"""Experiment 1, Tables 1, 2 and 6: does filtering by coverage leave the cases that fail?

The paper's protocol as it was, what chance makes of it, and a clean protocol with rivals, for
one test after the other. Everything is computed from data files: no torch here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mncover.paper.protocols import (
    BudgetOutcome,
    PaperOutcome,
    Verdicts,
    apfd,
    at_budget,
    failure_rate,
    paper_protocol,
    random_at_budget,
)
from mncover.selection.cases import GAINS, Cases
from mncover.suites.judging import FAILS, NOT_JUDGED

BUDGETS = (0.1, 0.2, 0.4)

SENTIMENT_TESTS = (
    "change names",
    "add negative phrases",
    "protected: race",
    "used to, but now",
    "protected: sexual",
    "change locations",
    "change neutral words with BERT",
    "contractions",
    "2 typos",
    "change numbers",
    "typos",
    "neutral words in context",
    "protected: religion",
    "add random urls and handles",
    "simple negations: not neutral is still neutral",
    "simple negations: not negative",
    "my opinion is what matters",
    "punctuation",
    "Q & A: yes",
    "Q & A: no",
    "simple negations: negative",
    "reducers",
    "intensifiers",
)
QQP_TESTS = (
    "Change first name in one of the questions",
    "add one typo",
    "Product of paraphrases(q1) * paraphrases(q2)",
    "Replace synonyms in real pairs",
    "Symmetry: f(a, b) = f(b, a)",
    "Testing implications",
    "same adjectives, different people v3",
    "same adjectives, different people",
    "Change same location in both questions",
)
# The tests of each table in the paper's order, and how many texts of a test it looks at.
TABLES = {
    "table1": (SENTIMENT_TESTS, 1500),
    "table2": (SENTIMENT_TESTS, 1500),
    "table6": (QQP_TESTS, 200),
}
# Reductions in percent that the paper reports and that need no model: every candidate case adds
# coverage, so only the number of texts looked at and the first quantile decide.
PAPER_REDUCTIONS = {
    "change names": 62.84,
    "change locations": 86.47,
    "contractions": 34.80,
    "typos": 10.00,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One test judged by one model: both protocols.

    `paper` goes by metric, `clean` by budget in percent and method, `apfd` by method.
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
    """One test: `own` as the model judges it that the scores are from, `other` as another does."""

    test: str
    candidates: int
    own: Judged
    other: Judged | None = None


def table_row(
    test: str, cases: Cases, first_texts: int, other: Verdicts | None = None, seed: int = 0
) -> Row:
    """Return a test's row; `cases` are all of its cases, measured from nothing in their order.

    `other` are another model's verdicts on the same cases.
    """
    starts = np.cumsum([0, *(len(rows) for rows in cases.rows)])[:-1]
    candidates = int((starts < first_texts).sum())
    own = _judged(cases, cases.verdicts, candidates, seed)
    theirs = None if other is None else _judged(cases, other, candidates, seed)
    return Row(test, candidates, own, theirs)


def _judged(cases: Cases, verdicts: Verdicts, candidates: int, seed: int) -> Judged:
    elsewhere = verdicts is not cases.verdicts
    left_out = {"random"} if elsewhere else {"random", "failing"}  # failures known: no contest
    scores = {m: cases.scores(m, seed) for m in cases.methods if m not in left_out}
    known = cases.verdicts if elsewhere else None
    paper: dict[str, PaperOutcome] = {}
    for method, metric in GAINS.items():
        if method in scores:
            kept = np.flatnonzero(scores[method][:candidates] > 0)
            gains = scores[method][kept]
            paper[metric] = paper_protocol(verdicts, candidates, kept, gains, seed=seed)
    clean = {
        f"{100 * share:.0f}": {
            **{m: at_budget(verdicts, mine, share, known) for m, mine in scores.items()},
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
        apfd={method: apfd(verdicts, mine) for method, mine in scores.items()},
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers that are known; NaN if none is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def beyond_chance(judged: Sequence[Judged], budget: str, method: str) -> tuple[int, int, int]:
    """Return in how many tests a method beats the interval of chance, falls below, and of how many.

    Tests in which no case or every case fails say nothing and do not count.
    """
    rows = [row.clean[budget][method] for row in judged if 0 < row.failing < row.judged]
    above = sum(row.failure_rate > row.high + 1e-12 for row in rows)
    below = sum(row.failure_rate < row.low - 1e-12 for row in rows)
    return above, below, len(rows)


def reached_tests(judged: Sequence[Judged], budget: str, method: str) -> tuple[int, int]:
    """Return in how many of the tests that have failures a method finds one, and of how many."""
    rows = [row.clean[budget][method] for row in judged if row.failing]
    return sum(row.found > 0 for row in rows), len(rows)


def significant(
    judged: Sequence[Judged], metric: str, of: str = "p_value", level: float = 0.05
) -> tuple[int, int]:
    """Return in how many tests the paper's maximum is beyond its null, and of how many.

    `of` is "p_value" for the maximum, "mean_p_value" for the mean.
    """
    values = [getattr(row.paper[metric], of) for row in judged if 0 < row.failing < row.judged]
    return sum(value < level for value in values), len(values)


def alike(judged: Sequence[Judged]) -> dict[str, str]:
    """Return the methods that choose as an earlier one does, everywhere, with that one's name.

    Of two classes the less probable one says everything, so all uncertainties agree.
    """
    found: dict[str, str] = {}
    methods = list(judged[0].apfd)
    for i, method in enumerate(methods):
        for earlier in methods[:i]:
            if earlier not in found and all(_same(row, method, earlier) for row in judged):
                found[method] = earlier
                break
    return found


def _same(row: Judged, a: str, b: str) -> bool:
    return all(repr(outcomes[a]) == repr(outcomes[b]) for outcomes in row.clean.values()) and repr(
        row.apfd[a]
    ) == repr(row.apfd[b])
