"""Experiment 2: measure curves, write and draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mncover.cli.config import Config
from mncover.criteria import METRICS, NAMES
from mncover.engine.calibrated import calibrated_engine, suite_texts
from mncover.errors import SettingsError
from mncover.report.plots import pyplot_module, saturation_figure, save_figure
from mncover.report.sets import reduction_table, write_curves
from mncover.selection.saturation import Curve, saturation
from mncover.suites.rows import Rows
from mncover.types import Text

# The paper's Figure 4: average reduction in percent by threshold, RoBERTa, sentiment suite.
PAPER_AVERAGES = {0.0: 28.83, 1e-4: 54.06, 1e-3: 71.48, 1e-2: 88.67, 1e-1: 97.17}


@dataclass(frozen=True, slots=True)
class CurveJob:
    """What to draw: which tests or contexts of a suite, how many texts, which thresholds."""

    model: str
    suite: Path
    config: Config
    output: Path
    tests: tuple[str, ...]
    texts: int | None
    thresholds: tuple[float, ...]
    shuffles: int
    quiet: bool = False
    name: str = "curves"
    paper: dict[float, float] | None = None


def run_curves(job: CurveJob) -> list[Curve]:
    """Measure the curves of a suite's tests; write CSV files and pictures to a folder."""
    pyplot_module()  # refuses, before any work, to draw without matplotlib
    lists = _lists(suite_texts(job.suite, job.config), job.tests, job.texts)
    engine = calibrated_engine(job.model, job.config, job.quiet)
    curves: list[Curve] = []
    for name, texts in lists.items():
        curves += saturation(engine, name, texts, job.thresholds, range(job.shuffles))
    job.output.mkdir(parents=True, exist_ok=True)
    write_curves(curves, job.output)
    table = reduction_table(curves, job.paper)
    with (job.output / "reductions.txt").open("w", encoding="utf-8") as file:
        Console(file=file, width=120).print(table)
    console = Console(quiet=job.quiet)
    console.print(table)
    for path in _draw(curves, job):
        console.print(f"{path}", markup=False, soft_wrap=True)
    return curves


def _draw(curves: Sequence[Curve], job: CurveJob) -> list[Path]:
    drawn = []
    for metric in METRICS:
        if not any(curve.metric == metric for curve in curves):
            continue
        for kind in ("png", "svg"):
            path = job.output / f"{job.name}-{metric}.{kind}"
            title = f"{NAMES[metric]} of {Path(job.model).name} by {job.suite.name}"
            save_figure(saturation_figure(curves, title, metric), path)
            drawn.append(path)
    return drawn


def _lists(suite: Rows, tests: Sequence[str], limit: int | None) -> dict[str, list[Text]]:
    """Return the texts of each context, or of those asked for, up to a limit."""
    found: dict[str, list[Text]] = {}
    for text, context in zip(suite.texts, suite.contexts, strict=True):
        found.setdefault(context, []).append(text)
    for name in tests:
        if name not in found:
            raise SettingsError(f"{suite.path}: no test {name!r}; it has {', '.join(found)}.")
    return {name: found[name][:limit] for name in (tests or found)}
