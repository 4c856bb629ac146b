"""Figures: the one place that imports matplotlib, which is an extra.

Figures are made without pyplot, so nothing of the user's matplotlib changes: neither the backend
nor the list of open figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mncover.data.harmless import in_figure
from mncover.data.results import Result
from mncover.data.writing import replacing
from mncover.errors import MissingExtraError, SettingsError
from mncover.report.columns import criterion_title
from mncover.selection.sets import Comparison, Curve, Spread

if TYPE_CHECKING:
    from mncover.masks.sweep import Point

BLUE, ORANGE = "#2166ac", "#d95f02"
THRESHOLD_COLORS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02")
KINDS = (".png", ".svg", ".pdf")


def require_plotting(path: Path | None = None) -> None:
    """Refuse, before any work, to draw without matplotlib or into a file it cannot write."""
    if path is not None and path.suffix not in KINDS:
        raise SettingsError(f"{path}: a plot must end with {', '.join(KINDS)}.")
    _figure_type()


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, replacing the file in one step."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


def _figure_type() -> Any:
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("a plot", "matplotlib", "plot") from error
    return matplotlib.figure.Figure


def _subplots(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """Return a figure and its axes."""
    figure = _figure_type()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def _plain(axis: Any) -> None:
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _percents(shares: Iterable[float]) -> list[float]:
    return [100 * share for share in shares]


def _bars(
    axis: Any, names: Sequence[str], shares: Any, what: str, errors: Any = (None, None)
) -> None:
    """Draw two shares of each name: what it covers, and inside it what only it covers."""
    places, labels = list(range(len(names))), ("covered", f"by no other {what}")
    rows = zip(shares, (0.7, 0.35), errors, (BLUE, ORANGE), labels, strict=True)
    for mine, height, ends, color, label in rows:
        widths = _percents(mine)
        axis.barh(places, widths, height, xerr=ends, color=color, label=label, ecolor="0.2")
    axis.set_yticks(places, list(map(in_figure, names)))
    axis.invert_yaxis()
    axis.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _plain(axis)


# What masks cost.


def trade_off(points: Sequence[Point], name: str, path: Path) -> None:
    """Draw fidelity against the share of words and of pairs kept, one point per value."""
    figure, axes = _subplots(9, 3.8, columns=2, sharey=True)
    fidelity = _percents(point.fidelity for point in points)
    below = _percents(point.fidelity - point.low for point in points)
    above = _percents(point.high - point.fidelity for point in points)
    for axis, kind, color in zip(axes, ("words", "pairs"), (BLUE, ORANGE), strict=True):
        kept = _percents(getattr(point, f"kept_{kind}") for point in points)
        label = "words and pairs"
        axis.errorbar(
            kept, fidelity, yerr=[below, above], fmt="o-", color=color, capsize=3, label=label
        )
        for x, y, point in zip(kept, fidelity, points, strict=True):
            axis.annotate(f"{point.value}", (x, y), (5, 5), textcoords="offset points", fontsize=8)
        axis.set_xlabel(f"{kind} kept, % of those seen in training")
        _plain(axis)
    _beside(axes[1], points)
    axes[0].set_ylabel("fidelity, %")
    figure.suptitle(f"What sparsity costs: {name} from {points[0].value} to {points[-1].value}")
    save_figure(figure, path)


def _beside(axis: Any, points: Sequence[Point]) -> None:
    """Draw the pairs alone and their controls beside both masks, if they were measured."""
    kept = _percents(point.kept_pairs for point in points)
    for name, label, style in (
        ("pairs_alone", "pairs alone", {"color": BLUE, "marker": "s"}),
        ("random", "as many at random", {"color": "0.4", "linestyle": "--"}),
        ("shuffled", "shuffled, equally frequent", {"color": "0.4", "linestyle": ":"}),
    ):
        shares = [share for point in points if (share := getattr(point, name)) is not None]
        if shares:
            axis.plot(kept, _percents(shares), label=label, **style)
            axis.legend(frameon=False, fontsize=8)


# What a plan is worth.


def errors_figure(budgets: Sequence[float], errors: Mapping[str, Sequence[float]]) -> Any:
    """Return a figure of the error to expect over all tests against the budget, for each way."""
    figure, axis = _subplots(6.5, 4.2)
    for color, (way, mine) in zip(THRESHOLD_COLORS, errors.items(), strict=False):
        wide = 2.5 if way == "planned" else 1.5
        axis.plot(_percents(budgets), _percents(mine), "o-", color=color, label=way, linewidth=wide)
    axis.set_xscale("log")
    axis.set_xticks(_percents(budgets), [f"{100 * share:g}" for share in budgets])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("cases run, % of the suite")
    axis.set_ylabel("error of a failure rate, points")
    axis.legend(frameon=False)
    _plain(axis)
    return figure


# Curves and sets.


def saturation_figure(curves: Sequence[Curve], title: str, criterion: str, unit: str = "%") -> Any:
    """Return a figure with a panel for each list: coverage against the number of texts kept.

    The band is that of shuffled orders; a filtered curve ends with a dot where it stops.
    """
    names = list(dict.fromkeys(curve.name for curve in curves))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = _subplots(4.2 * columns, 3.1 * rows + 0.9, rows, columns, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        mine = [curve for curve in curves if (curve.name, curve.criterion) == (name, criterion)]
        _saturation_panel(axis, mine)
        shown = name if len(name) < 45 else f"{name[:44]}…"
        axis.set_title(in_figure(shown), fontsize=10)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"{criterion_title(criterion)}, {unit}")
    for axis in axes.flat[max(0, len(names) - columns) : len(names)]:
        axis.set_xlabel("texts kept")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    figure.suptitle(in_figure(title))
    return figure


def _saturation_panel(axis: Any, curves: Sequence[Curve]) -> None:
    shuffled = [c for c in curves if c.seed is not None and c.threshold is None]
    if shuffled:
        grid = range(1, shuffled[0].visited + 1, max(1, shuffled[0].visited // 200))
        # Between two points a curve is a straight line.
        heights = [np.interp(list(grid), curve.texts, curve.shares).tolist() for curve in shuffled]
        low, high = (_percents(map(end, zip(*heights, strict=True))) for end in (min, max))
        label = f"{len(shuffled)} shuffled orders"
        axis.fill_between(list(grid), low, high, color="0.75", label=label, linewidth=0)
    given = [c for c in curves if c.seed is None]
    for curve in [c for c in given if c.threshold is None]:
        shares = _percents(curve.shares)
        axis.plot(curve.texts, shares, color="black", label="all texts, given order")
    filtered = [c for c in given if c.threshold is not None]
    for curve, color in zip(filtered, THRESHOLD_COLORS, strict=False):
        shares = _percents(curve.shares)
        label = f"gain > {curve.threshold:g}"
        axis.plot(curve.texts, shares, color=color, linewidth=1.2, label=label)
        axis.plot(curve.texts[-1:], shares[-1:], "o", color=color, markersize=5)
    _plain(axis)
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)


def comparison_figure(found: Comparison, title: str) -> Any:
    """Return a figure of sets: what each covers, what only it covers, what two have in common."""
    height = 1.6 + 0.55 * max(len(found.names), 3)
    figure, (bars, matrix) = _subplots(9.5, height, columns=2, width_ratios=(3, 2))
    means, errors = [], []
    for spreads in (found.alone, found.only):
        means.append([s.mean for s in spreads])
        below = _percents(max(0.0, s.mean - s.low) for s in spreads)  # a mean is rounded, too
        errors.append([below, _percents(max(0.0, s.high - s.mean) for s in spreads)])
    _bars(bars, found.names, means, "set", errors)
    bars.set_xlabel(f"{found.title}, % ({found.texts:,} texts each, {found.draws} draws)")
    _overlap_matrix(matrix, found)
    figure.suptitle(in_figure(title))
    return figure


def _overlap_matrix(axis: Any, found: Comparison) -> None:
    places, names = list(range(len(found.names))), list(map(in_figure, found.names))
    shares = [_percents(spread.mean for spread in row) for row in found.overlap]
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            color = "white" if share > 60 else "black"
            axis.text(j, i, f"{share:.0f}", ha="center", va="center", color=color)
    axis.set_xticks(places, names, rotation=30, ha="right")
    axis.set_yticks(places, names)
    axis.set_title("in common, % of what two cover together", fontsize=10)


# A result, by its main criterion.


def contexts_figure(result: Result) -> Any:
    """Return a figure of what each test covers, and what only it covers."""
    names = [context.name for context in result.contexts]
    figure, axis = _subplots(8, 1.2 + 0.3 * max(3, len(names)))
    covered = [context.main.tally.share_of_reachable for context in result.contexts]
    only = [context.main.own.share_of_reachable for context in result.contexts]
    _bars(axis, names, (covered, only), "test")
    axis.set_xlabel(f"{result.main.title}, % of the reachable bins")
    return figure


def layers_figure(result: Result) -> Any:
    """Return a figure of the covered share of the reachable bins of each layer."""
    figure, axis = _subplots(7, 3.6)
    for kind, color, label in (("hidden", BLUE, "words"), ("attention", ORANGE, "attention")):
        sites = [site for site in result.sites if site.kind == kind]
        if not sites:
            continue
        shares = _percents(site.count.share_of_reachable for site in sites)
        axis.plot([site.layer for site in sites], shares, "o-", color=color, label=label)
    axis.set_xlabel("layer")
    axis.set_ylabel("covered, % of the reachable bins")
    axis.set_ylim(0, 100)
    axis.legend(frameon=False)
    _plain(axis)
    return figure


def heads_figure(result: Result) -> Any:
    """Return a figure of the covered share of the reachable bins of every attention head."""
    sites = [site for site in result.sites if site.kind == "attention"]
    if not sites:
        raise SettingsError(
            f"{result.main.title} was measured without attention: no heads to show."
        )
    shares = [_percents(head.share_of_reachable for head in site.heads) for site in sites]
    heads = len(shares[0])
    figure, axis = _subplots(1.6 + 0.5 * heads, 1.4 + 0.45 * len(shares))
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    axis.set_yticks(range(len(sites)), [f"layer {site.layer}" for site in sites])
    axis.set_xticks(range(heads), [str(head + 1) for head in range(heads)])
    axis.set_xlabel("head")
    figure.colorbar(image, label="covered, % of the reachable bins")
    return figure


# Failures found.


def discovery_figure(
    title: str,
    budgets: Sequence[float],
    shares: Mapping[str, Sequence[Spread]],
    tests: Mapping[str, Sequence[Spread]],
) -> Any:
    """Return what each way finds by budget: failures, in percent of the best, and tests reached."""
    figure, axes = _subplots(
        5.2 if not tests else 10, 4.6, columns=2 if tests else 1, squeeze=False
    )
    panels = [(shares, 100, "failures found, % of the best possible"), (tests, 1, "tests reached")]
    for axis, (series, scale, label) in zip(axes[0], panels, strict=False):
        for number, (way, spreads) in enumerate(series.items()):
            style = "--" if way == "random" else "-"
            color = "0.4" if way == "random" else f"C{number % 10}"
            middle = [scale * one.mean for one in spreads]
            ends = [
                [scale * abs(one.mean - e) for one, e in zip(spreads, side, strict=True)]
                for side in ([one.low for one in spreads], [one.high for one in spreads])
            ]
            at = _percents(budgets)
            axis.errorbar(
                at, middle, yerr=ends, fmt=f"o{style}", ms=3, lw=1.3, color=color, label=way
            )
        axis.set_xscale("log")
        axis.set_xticks(_percents(budgets), [f"{100 * one:g} %" for one in budgets])
        axis.minorticks_off()
        axis.set_xlabel("of the pool judged")
        axis.set_ylabel(label)
        _plain(axis)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(in_figure(title))
    return figure
