"""`mncover plan`: draw a small suite that tells how the whole one would go. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from mncover.cli import options as o
from mncover.cli.options import argument, option, written
from mncover.coverage import Coverage
from mncover.data.writing import replacing
from mncover.errors import SettingsError
from mncover.report.plans import (
    budget_table,
    error_curves,
    item_ids,
    plan_table,
    plan_to_json,
)
from mncover.report.plots import errors_figure, require_plotting, save_figure
from mncover.report.progress import bar
from mncover.report.screen import Screen, in_json, say
from mncover.report.tables import write_json
from mncover.selection.budgets import parse_budget
from mncover.selection.forecast import DRAWS, NOISES
from mncover.selection.planfile import Plan
from mncover.selection.planner import Planner, planner_of
from mncover.suites.formats import save_suite

RUNS = "Data files of earlier runs of the whole suite; the first is the one to compare with."
OUTPUT = "The small suite to write (.jsonl, .jsonl.gz); only show the table if not given."
IDS = "Write the drawn cases too: .json for lm-evaluation-harness, .txt as a plain list."
PLOT = "Draw the expected error against the budget (.png, .svg, .pdf)."


def plan(
    runs: Annotated[list[Path], argument(RUNS, "RUN...")],
    budget: Annotated[str, option("Cases to run of the whole suite, such as 5% or 2000.")] = "5%",
    output: Annotated[Path | None, written(OUTPUT)] = None,
    seed: o.Seed = 0,
    ids: Annotated[list[Path] | None, option(IDS, "FILE")] = None,
    plot: Annotated[Path | None, option(PLOT, "FILE")] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw a small suite from which the failure rate of every whole test can be estimated."""
    limit = parse_budget(budget)
    _check(ids or [], plot)
    data = {path: Coverage.load(path).data for path in runs}
    with bar("Forecasting", len(data) * len(NOISES) * DRAWS, False if quiet else None) as advance:
        planner = planner_of(data, advance)
    size = planner.size(limit)
    made, small = planner.plan(size, seed)
    if output is not None:
        save_suite(small, output)
    for path in ids or []:
        _write_ids(made, path)
    if plot is not None:
        save_figure(errors_figure(*error_curves(planner)), plot)
    if as_json:
        say(in_json(plan_to_json(planner, size)))
    elif not quiet:
        _show(planner, size, output, small.texts)


def _check(ids: Sequence[Path], plot: Path | None) -> None:
    """Refuse, before any work, files that cannot be written."""
    for path in ids:
        if path.suffix not in (".json", ".txt"):
            raise SettingsError(f"{path}: a list of cases must end with .json or .txt.")
    if plot is not None:
        require_plotting(plot)


def _write_ids(made: Plan, path: Path) -> None:
    if path.suffix == ".json":
        write_json(path, item_ids(made))
        return
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{case}\n" for case in made.drawn.cases), encoding="utf-8")


def _show(planner: Planner, size: int, output: Path | None, texts: int) -> None:
    console = Screen()
    console.print("Error to expect of a new version's failure rates, in points (standard error):\n")
    console.print(plan_table(planner, size))
    console.print()
    console.print(budget_table(planner))
    console.print(
        "\nRandom draws from the suite as a whole, proportional the same share of every test, "
        "equal the same number. All tests: root mean square.",
        style="dim",
        highlight=False,
    )
    if output is not None:
        cases, all_texts = len(planner.cases), sum(planner.outline.sizes)
        say(f"{output}: {size:,} of {cases:,} cases, {texts:,} of {all_texts:,} texts.")
