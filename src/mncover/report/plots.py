"""Pictures. The one place that imports matplotlib, which is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from mncover.errors import MissingExtraError, SettingsError
from mncover.files import replacing

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
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)
    pyplot.close(figure)


def _curve(axis: Any, points: Sequence[TradeOffPoint], kind: str, color: str) -> None:
    kept = [100 * getattr(point, f"kept_{kind}") for point in points]
    fidelity = [100 * point.fidelity for point in points]
    below = [100 * (point.fidelity - point.low) for point in points]
    above = [100 * (point.high - point.fidelity) for point in points]
    axis.errorbar(kept, fidelity, yerr=[below, above], fmt="o-", color=color, capsize=3)
    for x, y, point in zip(kept, fidelity, points, strict=True):
        axis.annotate(f"{point.value}", (x, y), (5, 5), textcoords="offset points", fontsize=8)
    axis.set_xlabel(f"{kind} kept, % of those seen in training")
    axis.grid(alpha=0.3)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
