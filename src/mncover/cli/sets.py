"""`mncover curve` and `mncover compare`: how lists of texts cover a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from mncover.cli import options as o
from mncover.cli.checks import check_measuring
from mncover.cli.options import Config, argument, option
from mncover.errors import SettingsError
from mncover.report.plots import require_plotting
from mncover.report.screen import Screen
from mncover.selection.sets import DRAWS, THRESHOLDS


@o.configured(*o.MEASURING, "context")
def curve(
    model: o.Model,
    suite: o.Suite,
    *,
    config: Config,
    test: Annotated[list[str] | None, option("Only this test; repeatable. [all]", "NAME")] = None,
    texts: Annotated[int | None, option("Only the first N texts of each.", "N", min=1)] = None,
    threshold: Annotated[
        list[float] | None, option("Keep a text that adds more; repeatable. [0 1e-4 … 0.1]", min=0)
    ] = None,
    shuffles: o.Shuffles = 5,
    output: o.Folder = Path("curve"),
    quiet: o.Quiet = False,
) -> None:
    """Draw how coverage grows with the number of texts, unfiltered and filtered."""
    how = {"thresholds": threshold or THRESHOLDS, "shuffles": shuffles}
    draw(model, suite, config, test or (), texts, output, quiet, reachable=True, **how)


@o.configured(*o.MEASURING)
def compare(
    model: o.Model,
    sets: Annotated[list[Path], argument("Files of texts, or test suites.", "SET SET…")],
    *,
    config: Config,
    texts: Annotated[
        int | None, option("Draw N texts from each set. [80 % of the smallest]", "N", min=1)
    ] = None,
    draws: o.Draws = DRAWS,
    seed: o.Seed = 0,
    output: o.Folder = Path("compare"),
    quiet: o.Quiet = False,
) -> None:
    """Compare sets of texts: what each covers, what only it covers, how much they overlap."""
    if len(sets) < 2:
        raise SettingsError("give at least two sets to compare (see --help).")
    draw_comparison(model, sets, config, output, quiet, texts=texts, draws=draws, seed=seed)


def draw(
    model: str,
    suite: Path,
    config: Config,
    tests: Sequence[str],
    texts: int | None,
    output: Path,
    quiet: bool,
    **how: Any,
) -> None:
    """Draw the curves of a suite's tests; `how` is for `draw_curves`."""
    from mncover.paper.figure4_table3 import chosen_lists, draw_curves

    require_plotting()  # before any work
    check_measuring(model, config, suite, folder=output)
    lists = chosen_lists(o.suite_texts(suite, config), tests, texts)
    cov, console = o.calibrated(model, config, quiet), Screen(quiet=quiet)
    draw_curves(cov, lists, output, suite=suite.name, console=console, **how)


def draw_comparison(
    model: str, sets: Sequence[Path], config: Config, output: Path, quiet: bool, **how: Any
) -> None:
    """Compare files of texts; `how` is for `compare_files`."""
    from mncover.paper.figure4_table3 import compare_files, named_sets

    require_plotting()  # before any work
    check_measuring(model, config, *sets, folder=output)
    named = named_sets(o.suite_texts(path, config) for path in sets)
    cov = o.calibrated(model, config, quiet)
    compare_files(cov, named, output, console=Screen(quiet=quiet), **how)
