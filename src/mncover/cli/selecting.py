"""`mncover select`: write the cases that are worth keeping. Only two ways to choose need torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import load_config
from mncover.data import datafile
from mncover.errors import DataFileError, SettingsError
from mncover.report.sets import comparison_table, comparison_to_json, conclusions
from mncover.selection.budgets import Indices, Limit, choose, groups_of, parse_budget
from mncover.selection.cases import METHODS, Cases, cases_of, reduced_suite
from mncover.selection.chance import compare_methods, count_failures
from mncover.suites.formats import copy_records, save_suite
from mncover.suites.judging import outline_of

RUNNING_THE_MODEL = ("sequential", "greedy")


def select(
    file: o.DataFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The reduced suite to write; only compare if not given."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(help=f"What to choose by: {', '.join((*METHODS, *RUNNING_THE_MODEL))}."),
    ] = "gain",
    budget: Annotated[
        str | None, typer.Option(help="How many cases to take: 20% or 50, of every test.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Take the cases whose score is greater than this.")
    ] = None,
    quantile: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Of the cases that add anything, those of this quantile up."
        ),
    ] = None,
    overall: Annotated[
        bool, typer.Option("--overall", help="Budget and quantile are of the whole suite.")
    ] = False,
    metric: o.SelectMetric = None,
    seed: Annotated[int, typer.Option(help="Seed of what is chosen at random.")] = 0,
    suite: Annotated[
        Path | None, typer.Option(help="The file of texts that was run, if it has moved.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="For sequential and greedy: the model, if it has moved.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="For sequential and greedy: the texts that set the ranges.")
    ] = None,
    masks: o.MasksFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    quiet: o.Quiet = False,
) -> int:
    """Choose the cases that are worth running again, and compare the choice with chance."""
    config = load_config(Path.cwd()).overridden(
        output=None if file is None else str(file),
        train=None if train is None else str(train),
        masks=None if masks is None else str(masks),
        metric=metric,
    )
    path = Path(config.output)
    try:
        cases = cases_of(datafile.read(path))
    except DataFileError as error:
        raise DataFileError(
            str(error) if str(path) in str(error) else f"{path}: {error}."
        ) from None
    limit = _limit(budget, threshold, quantile)
    groups = groups_of(cases.test, overall)
    if by in RUNNING_THE_MODEL:
        from mncover.cli.remeasuring import choose_by_running

        chosen = choose_by_running(by, cases, groups, limit, config, model, quiet)
    else:
        name = "mngain" if (by, config.metric) == ("gain", "mncover") else by
        chosen = choose(cases.scores(name, seed), groups, limit)
    if output is not None:
        _write(cases, chosen, suite, output)
    if not quiet:
        _tell(cases, chosen, groups, by, seed, output, as_json)
    return 0


def _limit(budget: str | None, threshold: float | None, quantile: float | None) -> Limit:
    if sum(value is not None for value in (budget, threshold, quantile)) != 1:
        raise SettingsError("say how much to take with one of --budget, --threshold, --quantile.")
    if budget is not None:
        return parse_budget(budget)
    return Limit(threshold=threshold, quantile=quantile)


def _write(cases: Cases, chosen: Indices, source: Path | None, output: Path) -> None:
    if not len(chosen):
        raise SettingsError("no case is taken, so there is nothing to write.")
    data = cases.data
    run = data.runs[0]
    outline = outline_of(data, run.id)
    if outline is not None:
        save_suite(reduced_suite(cases, chosen, outline), output)
        return
    rows = [int(cases.rows[case][0]) for case in chosen]
    records = [(int(data.table["index"][row]), data.table.texts[row]) for row in rows]
    copy_records(source or Path(run.suite), records, run.texts or len(data.table), output)


def _tell(
    cases: Cases,
    chosen: Indices,
    groups: Sequence[Indices],
    by: str,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    mine = count_failures(cases, chosen, by)
    others = compare_methods(cases, chosen, groups, seed)
    if as_json:
        print(json.dumps(comparison_to_json(cases, mine, others), indent=1))
        return
    console = Console()
    console.print(comparison_table(cases, mine, others))
    for line in conclusions(cases, mine, others):
        console.print(line, markup=False, highlight=False)
    if output is not None:
        print(f"{output}: {len(chosen):,} of {len(cases):,} cases.")
