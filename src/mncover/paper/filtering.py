"""Tables 1, 2 and 6: are the cases that filtering by coverage leaves more likely to fail?

For each test: the paper's protocol, what chance achieves under it, and a clean protocol that
compares coverage with other scores. A test whose data file exists is not measured again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from mncover.coverage import Coverage
from mncover.data.files import Say, silent
from mncover.data.store import CoverageData
from mncover.errors import MismatchError, ModelError, SettingsError
from mncover.paper.filtering_report import PAPER, print_tables, write_tables
from mncover.selection import chance
from mncover.selection.budgets import Indices, Scores
from mncover.selection.cases import Cases, cases_of
from mncover.selection.chance import Verdicts
from mncover.selection.scores import available, gain_score, score_cases
from mncover.suites.judging import FAILS, NOT_JUDGED, in_suite_classes, judge_suite
from mncover.suites.model import How, Suite
from mncover.suites.rows import Rows
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.subject import Subject

Judgement = tuple[str | None, dict[str, Verdicts]]  # a model's name, and its verdicts by test

QUANTILES = tuple(q / 10 for q in range(1, 11))
BUDGETS = (0.1, 0.2, 0.4)
SENTIMENT_TESTS, QQP_TESTS = PAPER["sentiment"], PAPER["qqp"]
# The tests of each table in the paper's order, and how many texts of each test the paper uses.
TABLES = {table: (PAPER[tests], texts) for table, (tests, texts) in PAPER["tables"].items()}


@dataclass(frozen=True, slots=True)
class PaperOutcome:
    """The paper's numbers for one test; NaN where no case was judged.

    `reduction` is the sum of `truncation` (cases never visited), `redundancy` (cases that added
    nothing) and `cut` (the tenth with the smallest gains).
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
    kept: Indices,
    gains: Scores,
    shuffles: int = 1000,
    seed: int = 0,
) -> PaperOutcome:
    """Judge a sequential filter as the paper does.

    The filter visited the first `candidates` of all cases, and kept some, with their `gains`. At
    each of ten quantiles of the gains, the cases with at least that gain are kept; the maximum and
    the mean of the ten failure rates are reported. The maximum of ten is high by chance alone, so
    the gains are also permuted over the kept cases many times: `null_mean` and `null_high` are the
    mean and the 97.5 % point of these maxima; p-values say how often chance does at least as well.
    """
    n, mine = len(verdicts), verdicts[kept]
    rates = _rates_by_quantile(mine, gains)
    first = int((gains >= np.quantile(gains, QUANTILES[0])).sum()) if len(gains) else 0
    random = np.random.default_rng(seed)
    shuffled = [_rates_by_quantile(random.permutation(mine), gains) for _ in range(shuffles)]
    nulls = np.array([_known(np.max, found) for found in shuffled])
    means = np.array([_known(np.mean, found) for found in shuffled])
    maximum, mean = _known(np.max, rates), _known(np.mean, rates)
    return PaperOutcome(
        failure_rate=chance.failure_rate(verdicts),
        maximum=maximum,
        mean=mean,
        reduction=1 - first / n,
        truncation=1 - candidates / n,
        redundancy=(candidates - len(kept)) / n,
        cut=(len(kept) - first) / n,
        null_mean=_known(np.mean, nulls),
        null_high=float(np.nanquantile(nulls, 0.975)) if np.isfinite(nulls).any() else math.nan,
        p_value=chance.p_value(maximum, nulls),
        mean_p_value=chance.p_value(mean, means),
    )


def _rates_by_quantile(verdicts: Verdicts, gains: Scores) -> Scores:
    if not len(gains):
        return np.full(len(QUANTILES), math.nan)
    edges = np.quantile(gains, QUANTILES)
    return np.array([chance.failure_rate(verdicts[gains >= edge]) for edge in edges])


def _known(statistic: Callable[[Scores], float], values: Scores) -> float:
    """Return a statistic of the values that are not NaN; NaN if all are."""
    known = values[np.isfinite(values)]
    return float(statistic(known)) if len(known) else math.nan


@dataclass(frozen=True, slots=True)
class Judged:
    """One test judged by one model, by both protocols."""

    cases: int
    judged: int
    failing: int
    failure_rate: float
    paper: dict[str, PaperOutcome]  # by criterion
    clean: dict[str, dict[str, chance.BudgetOutcome]]  # by budget in percent, then score
    apfd: dict[str, float]  # by score


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
    starts = cases.rows.ends[:-1]
    candidates = int((starts < first_texts).sum())
    own = _judged(cases, cases.verdicts, candidates, seed)
    theirs = None if other is None else _judged(cases, other, candidates, seed)
    return Row(test, candidates, own, theirs)


def _judged(cases: Cases, verdicts: Verdicts, candidates: int, seed: int) -> Judged:
    known = None if verdicts is cases.verdicts else cases.verdicts
    # The failures that are looked for must not be known.
    left_out = ("random", "failing") if known is None else ("random",)
    names = [name for name in available(cases) if name not in left_out]
    scores = {name: score_cases(cases, name, seed) for name in names}
    paper: dict[str, PaperOutcome] = {}
    for criterion in cases.data.identity.names:
        if (score := gain_score(criterion)) in scores:
            kept = np.flatnonzero(scores[score][:candidates] > 0)
            gains = scores[score][kept]
            paper[criterion] = paper_protocol(verdicts, candidates, kept, gains, seed=seed)
    clean = {}
    for share in BUDGETS:
        found = {name: chance.at_budget(verdicts, s, share, known) for name, s in scores.items()}
        clean[f"{100 * share:.0f}"] = found | {"random": chance.random_at_budget(verdicts, share)}
    judged, failing = int((verdicts != NOT_JUDGED).sum()), int((verdicts == FAILS).sum())
    apfd = {name: chance.apfd(verdicts, mine) for name, mine in scores.items()}
    rate = chance.failure_rate(verdicts)
    return Judged(len(verdicts), judged, failing, rate, paper, clean, apfd)


@dataclass(frozen=True, slots=True)
class Filtering:
    """One of the tables: what it is about, the titles of the criteria, and its rows."""

    table: str
    model: str
    judge: str | None
    suite: str
    first_texts: int
    classes: int
    missing: list[str]
    titles: dict[str, str]
    rows: list[Row]


def reproduce_filtering(
    table: str,
    cov: Coverage,
    suite_path: Path,
    suite: Suite,
    train: Sequence[Text],
    output: Path,
    *,
    judge: str | None = None,
    texts: int | None = None,
    classes: How = "auto",
    say: Say = silent,
    console: Console | None = None,
) -> Filtering:
    """Make one of the tables in a folder and print it to a console, if one is given.

    `train` calibrates `cov`. `judge` is a second model that judges the cases too, or the folder
    of its own table. `texts` is how many texts of each test the paper's protocol uses.
    """
    subject = _classifier(cov.engine.subject)
    chosen, missing = _tests(suite, table)
    for name in missing:
        say(f"{suite_path}: no test {name!r}, so it is left out.")
    alone = [replace(chosen, tests=(test,)) for test in chosen.tests]
    parts = {one.tests[0].name: Rows.of_suite(suite_path, one) for one in alone}
    cov.calibrate(train, yardstick=False)
    data: list[CoverageData] = []
    for path, (name, part) in zip(_data_files(output), parts.items(), strict=False):
        say(f"{len(data) + 1} of {len(parts)}: {name} ({len(chosen[name].cases):,} cases)")
        data.append(cov.run(part, path, classes=classes, say=say, reuse=True).data)
    judged_by, verdicts = _judge(judge, cov, chosen, parts, classes)
    first, named = texts or TABLES[table][1], zip(parts, data, strict=True)
    rows = [table_row(name, cases_of(mine), first, verdicts.get(name)) for name, mine in named]
    titles = {one.name: one.title for one in data[0].identity.criteria}
    about = (table, Path(subject.name).name, judged_by, suite_path.name)
    found = Filtering(*about, first, subject.n_labels, missing, titles, rows)
    write_tables(found, output)
    if console is not None:
        print_tables(found, console)
        console.print(f"Text, CSV and JSON are in {output}.", markup=False, soft_wrap=True)
    return found


def _classifier(subject: Subject) -> Subject:
    if subject.n_labels < 2:
        raise ModelError(f"{subject.name} has no classes, so its answers cannot be judged.")
    return subject


def _tests(suite: Suite, table: str) -> tuple[Suite, list[str]]:
    """Return the table's tests in its order, and the names of those that the suite lacks."""
    wanted = TABLES[table][0]
    have = {test.name: test for test in suite.tests}
    found = tuple(have[name] for name in wanted if name in have)
    if not found:
        raise SettingsError(f"the suite has none of the tests of {table}.")
    return replace(suite, tests=found), [name for name in wanted if name not in have]


def _data_files(folder: Path) -> Iterator[Path]:
    return (folder / "data" / f"{number:02d}.mncover" for number in count(1))


def _judge(
    judge: str | None, cov: Coverage, suite: Suite, parts: dict[str, Rows], classes: How
) -> Judgement:
    """Return the second model's name and its verdicts on the cases of each test."""
    if judge is None:
        return None, {}
    if next(_data_files(Path(judge))).is_file():
        return _judged_before(Path(judge), parts)
    from mncover.engine.loading import load_subject
    from mncover.engine.measure import class_probabilities

    engine = cov.engine
    subject = _classifier(load_subject(judge, device=str(engine.subject.device)))
    texts = list(suite.each_text())
    tokens = subject.encode(texts, engine.settings.max_length)
    with engine.bar("Judging", len(texts)) as advance:
        found = class_probabilities(subject, tokens, engine.batch_size, advance)
    answers = in_suite_classes(found, subject.labels, suite.labels, classes)
    verdicts = {one.test.name: one.verdicts for one in judge_suite(suite, answers)}
    return Path(judge).name, verdicts


def _judged_before(folder: Path, parts: dict[str, Rows]) -> Judgement:
    """Return the same from the folder of the second model's own table."""
    model, verdicts = None, {}
    for path, (name, part) in zip(_data_files(folder), parts.items(), strict=False):
        data = Coverage.load(path).data
        if [run.suite_fingerprint for run in data.runs] != [part.fingerprint] or data.incomplete:
            raise MismatchError(
                f"{path} is not a complete run of the test {name!r}: make that model's table again."
            )
        model, verdicts[name] = Path(data.identity.model).name, cases_of(data).verdicts
    return model, verdicts
