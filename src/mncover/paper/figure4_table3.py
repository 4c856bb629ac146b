"""Figure 4 and Table 3: how coverage grows with the number of texts, and how sets compare.

`mncover curve` and `mncover compare` do the same with any texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text as RichText

from mncover.coverage import Coverage
from mncover.data.calibration import to_reachable
from mncover.errors import SettingsError
from mncover.report.plots import comparison_figure, require_plotting, saturation_figure, save_figure
from mncover.report.screen import Screen
from mncover.report.sets import overlap_table, reduction_table, set_table, to_json, write_curves
from mncover.report.tables import write_json, write_text
from mncover.selection.sets import DRAWS, THRESHOLDS, Comparison, Curve
from mncover.suites.rows import Rows
from mncover.types import Text

# Figure 4: average reduction in percent by threshold, RoBERTa, sentiment suite.
PAPER_FIGURE4 = {0.0: 28.83, 1e-4: 54.06, 1e-3: 71.48, 1e-2: 88.67, 1e-1: 97.17}
# Table 3: coverage of the rounds of ANLI and of their unions, 1000 texts of each.
PAPER_TABLE3 = (
    "The paper has 0.175 for A1, 0.182 for A1 and A2, 0.185 for all three, 0.179 for A2 alone and "
    "0.181 for A3 alone, on a model and with ranges of its own."
)


_BINS = {False: "% of all bins", True: "% of the reachable bins"}


def chosen_lists(
    suite: Rows, tests: Sequence[str] = (), limit: int | None = None
) -> dict[str, list[Text]]:
    """Return the first texts of each test of a suite, or of those named."""
    found: dict[str, list[Text]] = {}
    for text, context in zip(suite.texts, suite.contexts, strict=True):
        found.setdefault(context, []).append(text)
    for name in tests:
        if name not in found:
            raise SettingsError(f"{suite.path}: no test {name!r}; it has {', '.join(found)}.")
    return {name: found[name][:limit] for name in (tests or found)}


def named_sets(files: Iterable[Rows]) -> dict[str, list[Text]]:
    """Return the texts of each file by the file's name; no two may have the same name."""
    found: dict[str, list[Text]] = {}
    for rows in files:
        name = "" if rows.path is None else rows.path.name.split(".")[0]
        if name in found:
            raise SettingsError(f"two sets are called {name!r}: rename one of the files.")
        found[name] = list(rows.texts)
    return found


def draw_curves(
    cov: Coverage,
    lists: Mapping[str, Sequence[Text]],
    output: Path,
    *,
    suite: str,
    thresholds: Sequence[float] = THRESHOLDS,
    shuffles: int = 5,
    name: str = "curves",
    paper: dict[float, float] | None = None,
    reachable: bool = False,
    console: Console | None = None,
) -> list[Curve]:
    """Measure the saturation curves of lists of texts; write CSV, text and figures to a folder.

    `suite` names the texts, `name` the figures' files; `paper` has the paper's mean reductions.
    With `reachable`, coverage is a share of the bins that can be reached, not of all.
    """
    require_plotting()
    curves: list[Curve] = []
    for title, texts in lists.items():
        curves += cov.curve(title, texts, thresholds, range(shuffles))
    if reachable:
        identity = cov.engine.identity()
        scales = {one.name: to_reachable(identity, one) for one in identity.criteria}
        curves = [one.scaled(scales[one.criterion]) for one in curves]
    write_curves(curves, output)
    model = Path(cov.engine.subject.name).name
    figures = {
        one.name: saturation_figure(
            curves, f"{one.title} of {model} by {suite}", one.name, _BINS[reachable]
        )
        for one in cov.engine.criteria.values()
    }
    _write(reduction_table(curves, paper), output / "reductions.txt", figures, name, console)
    return curves


def compare_files(
    cov: Coverage,
    sets: Mapping[str, Sequence[Text]],
    output: Path,
    *,
    texts: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    name: str = "compare",
    paper: str = "",
    console: Console | None = None,
) -> list[Comparison]:
    """Compare sets of texts; write JSON, text and figures called `name` to a folder."""
    require_plotting()
    found = cov.compare(sets, texts, draws, seed)
    write_json(output / f"{name}.json", to_json(found))
    parts: list[RenderableType] = []
    figures: dict[str, Any] = {}
    model = Path(cov.engine.subject.name).name
    for one in found:
        drawn = f"{one.texts:,} texts of each set, mean of {one.draws} draws"
        heading = RichText(f"{one.title} of {drawn} (and where 95 % of them lie)", "bold")
        parts += [heading, set_table(one), "", overlap_table(one), ""]
        figures[one.criterion] = comparison_figure(one, f"{one.title} of {model}, set by set")
    tables = Group(*parts, *([RichText(paper)] if paper else []))
    _write(tables, output / f"{name}.txt", figures, name, console)
    return found


def _write(
    tables: RenderableType, text: Path, figures: dict[str, Any], name: str, console: Console | None
) -> None:
    """Write and print tables; save the figure of each criterion beside them as PNG and SVG."""
    write_text(text, lambda file: file.print(tables), 120)
    shown = console or Screen(quiet=True)
    shown.print(tables)
    for criterion, figure in figures.items():
        for kind in ("png", "svg"):
            path = text.with_name(f"{name}-{criterion}.{kind}")
            save_figure(figure, path)
            shown.print(str(path), markup=False, soft_wrap=True)
