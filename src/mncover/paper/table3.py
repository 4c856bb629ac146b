"""Experiment 3: compare files of texts, write and draw what is found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mncover.cli.config import Config
from mncover.criteria import NAMES
from mncover.engine.calibrated import calibrated_engine, suite_texts
from mncover.errors import SettingsError
from mncover.report.plots import comparison_figure, pyplot_module, save_figure
from mncover.report.sets import overlap_table, set_table, write_json
from mncover.selection.sets import Comparison, compare_sets, sample_size
from mncover.types import Text

# The paper's Table 3: coverage of the rounds of ANLI and of their unions, 1000 texts of each.
PAPER_TABLE3 = (
    "The paper has 0.175 for A1, 0.182 for A1 and A2, 0.185 for all three, 0.179 for A2 alone and "
    "0.181 for A3 alone, on a model and with ranges of its own."
)


@dataclass(frozen=True, slots=True)
class CompareJob:
    """What to compare: files, how many texts of each, how often drawn."""

    model: str
    sets: tuple[Path, ...]
    config: Config
    output: Path
    texts: int | None
    draws: int
    seed: int
    quiet: bool = False
    name: str = "compare"
    paper: str = ""


def run_comparison(job: CompareJob) -> list[Comparison]:
    """Compare the sets; write JSON, a table and pictures to a folder."""
    pyplot_module()  # refuses, before any work, to draw without matplotlib
    sets = _sets(job)
    sample_size([len(texts) for texts in sets.values()], job.texts)
    engine = calibrated_engine(job.model, job.config, job.quiet)
    found = compare_sets(engine, sets, job.texts, job.draws, job.seed)
    job.output.mkdir(parents=True, exist_ok=True)
    write_json(found, job.output / f"{job.name}.json")
    with (job.output / f"{job.name}.txt").open("w", encoding="utf-8") as file:
        _print(found, job.paper, Console(file=file, width=120))
    console = Console(quiet=job.quiet)
    _print(found, job.paper, console)
    for one in found:
        for kind in ("png", "svg"):
            path = job.output / f"{job.name}-{one.metric}.{kind}"
            title = f"{NAMES[one.metric]} of {Path(job.model).name}, set by set"
            save_figure(comparison_figure(one, title), path)
            console.print(f"{path}", markup=False, soft_wrap=True)
    return found


def _print(found: list[Comparison], paper: str, console: Console) -> None:
    for one in found:
        console.print(
            f"{NAMES[one.metric]} of {one.texts:,} texts of each set, mean of {one.draws} draws "
            "(and where 95 % of them lie)",
            style="bold",
        )
        console.print(set_table(one))
        console.print()
        console.print(overlap_table(one))
        console.print()
    if paper:
        console.print(paper, markup=False, highlight=False)


def _sets(job: CompareJob) -> dict[str, list[Text]]:
    """Read the sets; they are called by their files, of which no two may be named alike."""
    found: dict[str, list[Text]] = {}
    for path in job.sets:
        name = path.name.split(".")[0]
        if name in found:
            raise SettingsError(f"two sets are called {name!r}: rename one of the files.")
        found[name] = suite_texts(path, job.config).texts
    return found
