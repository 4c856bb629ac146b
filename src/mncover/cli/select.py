"""`mncover select`: write the cases worth keeping. Few ways to choose run the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.fit import cases_in, dev_cases, second_if_known, with_fitted, with_second
from mncover.cli.options import Config, flag, listed, option, written
from mncover.coverage import Coverage
from mncover.data.addresses import is_address
from mncover.data.columns import taken
from mncover.errors import SettingsError
from mncover.report.fits import fit_table, fit_to_json, fit_words
from mncover.report.screen import Screen, in_json, say
from mncover.report.sets import comparison_table, comparison_to_json, conclusions
from mncover.selection.budgets import Indices, Limit, choose, groups_of, parse_budget
from mncover.selection.cases import Cases, reduced_suite
from mncover.selection.chance import Found, compare_methods, count_failures
from mncover.selection.fit import Combination
from mncover.selection.scores import GAINS, SCORES, available, score_cases
from mncover.suites.formats import copy_records, save_suite

RUNNING = ("sequential", "greedy")
OUTPUT = "The reduced suite to write; only compare if not given."
USUAL = "[failing; diverse if no verdicts are known; gain without a --budget]"
BY = f"What to choose by: {listed(*SCORES, *RUNNING)}. {USUAL}"
OTHER = "Another model's data file of the same texts, for `second`."
FIT = "For `fitted`: labelled texts, or a data file of them, to fit a combination of scores to."
QUANTILE = "Of the cases with a score above 0, take those from this quantile up."


@o.configured(
    *("metric", "train", "train_limit", *o.FIELDS, "label", *o.LOADING, *o.SPREAD),
    metric="The criterion that gains are about. [the first that was measured]",
    train="For sequential and greedy: the texts that set the ranges.",
    label="For --fit: the field that holds the correct class.",
    masks="For sequential, greedy and --fit: the masks that were used.",
)
def select(
    file: o.DataFile = None,
    output: Annotated[Path | None, written(OUTPUT)] = None,
    by: Annotated[str | None, option(BY)] = None,
    budget: Annotated[str | None, option("Cases to take of every test, such as 20% or 5.")] = None,
    threshold: Annotated[float | None, option("Take cases with a score above this.")] = None,
    quantile: Annotated[float | None, option(QUANTILE, min=0, max=1)] = None,
    overall: Annotated[bool, flag("--overall", "Take from the suite as a whole.")] = False,
    seed: o.Seed = 0,
    suite: Annotated[Path | None, option("The file that was run, if it has moved.", "FILE")] = None,
    other: Annotated[Path | None, option(OTHER, "FILE")] = None,
    fit: Annotated[Path | None, option(FIT, "FILE")] = None,
    model: Annotated[
        str | None, option("For sequential, greedy and --fit: the model, if it has moved.")
    ] = None,
    *,
    config: Config,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Choose the cases that are worth running again, and compare the choice with chance."""
    path = file or Path(config.output)
    check_paths((model,), (suite,), file=output, reads=(path, other, fit))
    cases, fitted = cases_in(path), None
    check_paths(file=output, reads=[Path(run.suite) for run in cases.data.runs])
    by = by or ("fitted" if fit is not None else _usual(cases, budget is not None))
    if other is not None:
        cases = with_second(cases, other)
    if fit is not None:
        dev = dev_cases(fit, path, model, config, quiet)
        dev = dev if other is None else second_if_known(dev, other, o.speaker(quiet))
        cases, fitted = with_fitted(cases, dev, seed)
    limit = _limit(budget, threshold, quantile)
    groups = groups_of(cases.test, overall)
    metric = cases.data.identity.metric(config.metric)[0].name
    if by in RUNNING:
        if limit.quantile is not None or (by == "sequential" and limit.threshold is None):
            raise SettingsError("sequential takes a --threshold, greedy also a --budget.")
        cov = o.measuring_again(path, model or cases.data.identity.model, config, quiet)
        chosen = _choose(cov, by, cases, groups, limit, metric)
    else:
        chosen = choose(score_cases(cases, _score(by, metric), seed), groups, limit)
    if output is not None:
        _write(cases, chosen, suite, output)
    if not quiet:
        if not overall and (more := _more_than_asked(limit, len(chosen), len(cases))):
            o.speaker(quiet)(more)
        mine = count_failures(cases, chosen, by)
        others = compare_methods(cases, chosen, groups, seed) if cases.judged else []
        _tell(cases, mine, others, fitted, output, as_json)


def _usual(cases: Cases, budget: bool) -> str:
    """Return what to choose by if nobody says: what is best where it was measured.

    That is the known failures, then the most uncertain cases; where nothing is judged, what looks
    inside the model. Without a budget it is the paper's filter.
    """
    best = "failing" if cases.judged else "diverse"
    return best if budget and best in available(cases) else "gain"


def _limit(budget: str | None, threshold: float | None, quantile: float | None) -> Limit:
    if sum(value is not None for value in (budget, threshold, quantile)) != 1:
        raise SettingsError("say how much to take with one of --budget, --threshold, --quantile.")
    if budget is not None:
        return parse_budget(budget)
    return Limit(threshold=threshold, quantile=quantile)


def _more_than_asked(limit: Limit, taken: int, cases: int) -> str:
    """Say why a share of small tests is more than that share of the suite, if it is by far."""
    if limit.share is None or taken < 1.5 * limit.share * cases:
        return ""
    asked = f"{100 * limit.share:g} % of {cases:,} cases would be {limit.size(cases):,}"
    return f"{asked}, but every test keeps at least one: {taken:,}. --overall takes fewer."


def _score(by: str, metric: str) -> str:
    """Return the name of a score; `gain` is that of the metric asked for."""
    if by != "gain":
        return by
    return {about: name for name, about in GAINS.items()}.get(metric, f"gain-{metric}")


def _choose(
    cov: Coverage, by: str, cases: Cases, groups: Sequence[Indices], limit: Limit, metric: str
) -> Indices:
    """Choose the cases of each group by the gain over those chosen before, from nothing."""
    threshold, found = limit.threshold or 0.0, []
    for group in groups:
        texts = [list(cases.texts(int(case))) for case in group]
        if by == "sequential":
            kept = cov.filter(texts, threshold, metric=metric).kept
        else:
            budget = None if limit.threshold is not None else limit.size(len(texts))
            kept = cov.greedy(texts, budget, threshold, metric).kept
        found.append(group[kept])
    return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _write(cases: Cases, chosen: Indices, source: Path | None, output: Path) -> None:
    if not len(chosen):
        raise SettingsError("no case is taken, so there is nothing to write.")
    if cases.outline is not None:
        save_suite(reduced_suite(cases, chosen, cases.outline), output)
        return
    data, run = cases.data, cases.data.runs[0]
    rows = cases.rows.taken(chosen).values  # a case of a file is one text
    texts = taken(data.table.texts, rows)
    records = list(zip(data.table["index"][rows].tolist(), texts, strict=True))
    if source is None and not run.suite:
        raise SettingsError("the texts came from no file: name one that holds them with --suite.")
    if source is None and is_address(run.suite):  # a stranger's data file may name any
        raise SettingsError(f"the texts are not read again unless you ask: add --suite {run.suite}")
    total = run.whole or run.texts or len(data.table)
    copy_records(source or Path(run.suite), records, total, output)


def _tell(
    cases: Cases,
    mine: Found,
    others: Sequence[Found],
    fitted: Combination | None,
    output: Path | None,
    as_json: bool,
) -> None:
    if as_json:
        content = comparison_to_json(cases, mine, others)
        content |= {} if fitted is None else {"fit": fit_to_json(fitted)}
        say(in_json(content))
        return
    console = Screen()
    if fitted is not None:
        console.print(fit_table(fitted))
        console.print(fit_words(fitted), "\n", markup=False, highlight=False)
    if cases.judged:
        console.print(comparison_table(cases, mine, others))
    for line in conclusions(cases, mine, others):
        console.print(line, markup=False, highlight=False)
    if output is not None:
        say(f"{output}: {mine.cases:,} of {len(cases):,} cases.")
