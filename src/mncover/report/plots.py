"""Pictures. The one place that imports matplotlib, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mncover.criteria import CRITERIA
from mncover.data.files import replacing
from mncover.data.results import Result
from mncover.errors import MissingExtraError, SettingsError
from mncover.selection.saturation import Curve
from mncover.selection.sets import Comparison

BLUE, ORANGE = "#2166ac", "#d95f02"
KINDS = (".png", ".svg", ".pdf")


class TradeOffPoint(Protocol):
    """What a curve needs to know of a point; see `experiments/sweep.py`."""

    @property
    def value(self) -> Any:
        """The setting's value."""

    @property
    def kept_words(self) -> float:
        """The share of words kept."""

    @property
    def kept_pairs(self) -> float:
        """The share of pairs kept."""

    @property
    def fidelity(self) -> float:
        """The share of predictions kept."""

    @property
    def low(self) -> float:
        """The lower end of its interval."""

    @property
    def high(self) -> float:
        """The upper end of its interval."""


def require_plotting(path: Path) -> Any:
    """Return matplotlib, set to draw into files; refuse a kind of file that it cannot draw."""
    if path.suffix not in KINDS:
        raise SettingsError(f"{path}: a plot must end with {', '.join(KINDS)}.")
    return pyplot_module()


def pyplot_module() -> Any:
    """Return matplotlib's pyplot, set to draw into files."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("a plot", "matplotlib", "plot") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def trade_off(points: Sequence[TradeOffPoint], name: str, path: Path) -> None:
    """Draw fidelity against the share of words and of pairs kept, one point per value."""
    pyplot = require_plotting(path)
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, kind, color in zip(axes, ("words", "pairs"), (BLUE, ORANGE), strict=True):
        _curve(axis, points, kind, color)
    axes[0].set_ylabel("fidelity, %")
    figure.suptitle(f"What sparsity costs: {name} from {points[0].value} to {points[-1].value}")
    save_figure(figure, path)


def _curve(axis: Any, points: Sequence[TradeOffPoint], kind: str, color: str) -> None:
    kept = [100 * getattr(point, f"kept_{kind}") for point in points]
    fidelity = [100 * point.fidelity for point in points]
    below = [100 * (point.fidelity - point.low) for point in points]
    above = [100 * (point.high - point.fidelity) for point in points]
    axis.errorbar(kept, fidelity, yerr=[below, above], fmt="o-", color=color, capsize=3)
    for x, y, point in zip(kept, fidelity, points, strict=True):
        axis.annotate(f"{point.value}", (x, y), (5, 5), textcoords="offset points", fontsize=8)
    axis.set_xlabel(f"{kind} kept, % of those seen in training")
    _plain(axis)


def _plain(axis: Any) -> None:
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


THRESHOLD_COLORS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02")


def saturation_figure(curves: Sequence[Curve], title: str, metric: str) -> Any:
    """Return a figure with a panel for each list: coverage against the number of texts kept.

    The band is that of shuffled orders; a filtered curve ends with a dot where it stops.
    """
    pyplot = pyplot_module()
    names = list(dict.fromkeys(curve.name for curve in curves))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    size = (4.2 * columns, 3.1 * lines + 0.9)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=size, squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes.flat, names, strict=False):
        mine = [curve for curve in curves if (curve.name, curve.criterion) == (name, metric)]
        _saturation_panel(axis, mine)
        axis.set_title(name if len(name) < 45 else f"{name[:44]}…", fontsize=10)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"{CRITERIA[metric].title}, %")
    for axis in axes.flat[max(0, len(names) - columns) : len(names)]:
        axis.set_xlabel("texts kept")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    figure.suptitle(title)
    return figure


def _saturation_panel(axis: Any, curves: Sequence[Curve]) -> None:
    shuffled = [c for c in curves if c.seed is not None and c.threshold is None]
    if shuffled:
        grid = range(1, shuffled[0].visited + 1, max(1, shuffled[0].visited // 200))
        heights = [_heights(curve, grid) for curve in shuffled]
        low = [100 * min(h) for h in zip(*heights, strict=True)]
        high = [100 * max(h) for h in zip(*heights, strict=True)]
        label = f"{len(shuffled)} shuffled orders"
        axis.fill_between(list(grid), low, high, color="0.75", label=label, linewidth=0)
    given = [c for c in curves if c.seed is None]
    filtered = [c for c in given if c.threshold is not None]
    for curve in given:
        if curve.threshold is None:
            shares = [100 * share for share in curve.shares]
            axis.plot(curve.texts, shares, color="black", label="all texts, given order")
    for curve, color in zip(filtered, THRESHOLD_COLORS, strict=False):
        shares = [100 * share for share in curve.shares]
        label = f"gain > {curve.threshold:g}"
        axis.plot(curve.texts, shares, color=color, linewidth=1.2, label=label)
        axis.plot(curve.texts[-1:], shares[-1:], "o", color=color, markersize=5)
    _plain(axis)
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)


def _heights(curve: Curve, grid: Iterable[int]) -> list[float]:
    """Return a curve's coverage after each number of texts, by the straight line between points."""
    found: list[float] = np.interp(list(grid), curve.texts, curve.shares).tolist()
    return found


def comparison_figure(found: Comparison, title: str) -> Any:
    """Return a figure of sets: what each covers, what only it covers, what two have in common."""
    pyplot = pyplot_module()
    n = len(found.names)
    size = (9.5, 1.6 + 0.55 * max(n, 3))
    figure, (bars, matrix) = pyplot.subplots(
        1, 2, figsize=size, layout="constrained", width_ratios=(3, 2)
    )
    places = list(range(n))
    for spreads, color, label, height in (
        (found.alone, BLUE, "covered", 0.7),
        (found.only, ORANGE, "by no other set", 0.35),
    ):
        means = [100 * s.mean for s in spreads]
        ends = [
            [max(0.0, 100 * (s.mean - s.low)) for s in spreads],  # a mean is rounded, too
            [max(0.0, 100 * (s.high - s.mean)) for s in spreads],
        ]
        bars.barh(places, means, height, xerr=ends, color=color, label=label, ecolor="0.2")
    bars.set_yticks(places, list(found.names))
    bars.invert_yaxis()
    bars.set_xlabel(f"{found.title}, % ({found.texts:,} texts each, {found.draws} draws)")
    _plain(bars)
    bars.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    shares = [[100 * spread.mean for spread in row] for row in found.overlap]
    matrix.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            color = "white" if share > 60 else "black"
            matrix.text(j, i, f"{share:.0f}", ha="center", va="center", color=color)
    matrix.set_xticks(places, list(found.names), rotation=30, ha="right")
    matrix.set_yticks(places, list(found.names))
    matrix.set_title("in common, % of what two cover together", fontsize=10)
    figure.suptitle(title)
    return figure


def contexts_figure(result: Result) -> Any:
    """Return a figure of what each context covers, and what only it covers."""
    pyplot = pyplot_module()
    names = [context.name for context in result.contexts]
    size = (8, 1.2 + 0.3 * max(3, len(names)))
    figure, axis = pyplot.subplots(figsize=size, layout="constrained")
    places = list(range(len(names)))
    axis.barh(places, [100 * c.cover for c in result.contexts], 0.7, color=BLUE, label="covered")
    only = [100 * c.only_here for c in result.contexts]
    axis.barh(places, only, 0.35, color=ORANGE, label="by no other context")
    axis.set_yticks(places, names)
    axis.invert_yaxis()
    axis.set_xlabel("Cover, %")
    axis.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _plain(axis)
    return figure


def layers_figure(result: Result) -> Any:
    """Return a figure of the covered share of what is reachable in each layer."""
    pyplot = pyplot_module()
    figure, axis = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for kind, color, label in (("hidden", BLUE, "words"), ("attention", ORANGE, "attention")):
        sites = [site for site in result.sites if site.kind == kind]
        shares = [100 * site.count.share_of_reachable for site in sites]
        axis.plot([site.layer for site in sites], shares, "o-", color=color, label=label)
    axis.set_xlabel("layer")
    axis.set_ylabel("covered, % of what is reachable")
    axis.set_ylim(0, 100)
    axis.legend(frameon=False)
    _plain(axis)
    return figure


def heads_figure(result: Result) -> Any:
    """Return a figure of the covered share of what is reachable in every attention head."""
    pyplot = pyplot_module()
    sites = [site for site in result.sites if site.kind == "attention"]
    shares = [[100 * head.share_of_reachable for head in site.heads] for site in sites]
    size = (1.6 + 0.5 * len(shares[0]), 1.4 + 0.45 * len(shares))
    figure, axis = pyplot.subplots(figsize=size, layout="constrained")
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    axis.set_yticks(range(len(sites)), [f"layer {site.layer}" for site in sites])
    axis.set_xticks(range(len(shares[0])), [str(k + 1) for k in range(len(shares[0]))])
    axis.set_xlabel("head")
    figure.colorbar(image, label="covered, % of what is reachable")
    return figure


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, replacing the file in one step, and close it."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)
    pyplot_module().close(figure)
