"""`mncover curve` and `mncover compare`: how lists of texts cover a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.errors import SettingsError
from mncover.report.plots import require_plotting
from mncover.selection.saturation import THRESHOLDS
from mncover.selection.sets import DRAWS


@o.configured(*o.MEASURING, "context")
def curve(
    model: o.Model,
    suite: o.Suite,
    *,
    config: Config,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this test or context; repeatable. [all]"),
    ] = None,
    texts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N texts of each.")
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Keep a text that adds more; repeatable. [0 1e-4 … 0.1]"),
    ] = None,
    shuffles: o.Shuffles = 5,
    output: o.Folder = Path("curve"),
    quiet: o.Quiet = False,
) -> int:
    """Draw how coverage grows with the number of texts, unfiltered and filtered."""
    from mncover.paper.figure4_table3 import chosen_lists, draw_curves

    require_plotting()
    lists = chosen_lists(o.suite_texts(suite, config), test or (), texts)
    draw_curves(
        o.calibrated(model, config, quiet),
        lists,
        output,
        suite=suite.name,
        thresholds=threshold or THRESHOLDS,
        shuffles=shuffles,
        console=Console(quiet=quiet),
    )
    return 0


@o.configured(*o.MEASURING)
def compare(
    model: o.Model,
    sets: Annotated[
        list[Path], typer.Argument(metavar="SET SET…", help="Files of texts, or test suites.")
    ],
    *,
    config: Config,
    texts: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Draw N texts from each set. [80 % of the smallest]"),
    ] = None,
    draws: o.Draws = DRAWS,
    seed: o.Seed = 0,
    output: o.Folder = Path("compare"),
    quiet: o.Quiet = False,
) -> int:
    """Compare sets of texts: what each covers, what only it covers, how much they overlap."""
    if len(sets) < 2:
        raise SettingsError("give at least two sets to compare (see --help).")
    from mncover.paper.figure4_table3 import compare_files, named_sets

    require_plotting()
    named = named_sets(o.suite_texts(path, config) for path in sets)
    cov, console = o.calibrated(model, config, quiet), Console(quiet=quiet)
    compare_files(cov, named, output, texts=texts, draws=draws, seed=seed, console=console)
    return 0
