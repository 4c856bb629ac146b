"""The commands below `mncover reproduce`: the paper's tables and figures.

pyproject.toml has no say in an experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.masks.settings import chosen_settings
from mncover.report.plots import require_plotting
from mncover.selection.sets import DRAWS
from mncover.suites.formats import load_suite
from mncover.suites.model import known_way

app = typer.Typer(help="Reproduce the paper's tables and figures.", no_args_is_help=True)

ModelOption = Annotated[str, typer.Option(help="The model: a Hugging Face folder or hub name.")]
SuiteOption = Annotated[
    Path,
    typer.Option(metavar="FILE", help="The test suite: CheckList's .tar.gz or .pkl, or .jsonl."),
]
COMMON = ("train", "masks", "max_length", "batch_size", "device", "kernels")


def experiment(*names: str) -> Callable[[o.Command], o.Command]:
    """Give a command options of the configuration, without pyproject.toml."""
    return o.configured(*names, from_file=False)


def _filtering(table: str, summary: str) -> None:
    """Add the command of a table of Experiment 1; the three differ only in tests and texts."""

    @experiment(*COMMON, "classes")
    def command(
        model: ModelOption,
        suite: SuiteOption,
        *,
        config: Config,
        judge: Annotated[
            str | None,
            typer.Option(
                metavar="MODEL2",
                help="Judge the choice by a second model too; or the folder of its own table.",
            ),
        ] = None,
        output: o.Folder = Path(table),
        texts: Annotated[
            int | None,
            typer.Option(
                metavar="N", min=1, help="The paper's protocol uses the first N texts of each test."
            ),
        ] = None,
        quiet: o.Quiet = False,
    ) -> int:
        from mncover.paper.filtering import reproduce_filtering

        reproduce_filtering(
            table,
            o.coverage_for(model, config, quiet),
            suite,
            load_suite(suite),
            o.train_texts(config),
            output,
            judge=judge,
            texts=texts,
            classes=known_way(config.classes),
            say=o.speaker(quiet),
            console=Console(quiet=quiet),
        )
        return 0

    app.command(table, help=summary)(command)


_filtering("table1", "Filtering the sentiment suite by coverage: the paper's Table 1 (BERT).")
_filtering("table2", "Filtering the sentiment suite by coverage: Table 2 (RoBERTa).")
_filtering("table6", "Filtering the QQP suite by coverage: Table 6.")


@app.command()
@experiment(*COMMON)
def figure4(
    model: ModelOption,
    suite: SuiteOption,
    *,
    config: Config,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="The test of a panel; repeatable. [the first six of Table 2]"
        ),
    ] = None,
    texts: Annotated[
        int, typer.Option(metavar="N", min=1, help="The first N texts of each test.")
    ] = 1500,
    shuffles: o.Shuffles = 5,
    output: o.Folder = Path("figure4"),
    quiet: o.Quiet = False,
) -> int:
    """How coverage saturates, unfiltered and filtered: the paper's Figure 4."""
    from mncover.paper.figure4_table3 import PAPER_FIGURE4, chosen_lists, draw_curves
    from mncover.paper.filtering import SENTIMENT_TESTS

    require_plotting()
    lists = chosen_lists(o.suite_texts(suite, config), test or SENTIMENT_TESTS[:6], texts)
    draw_curves(
        o.calibrated(model, config, quiet),
        lists,
        output,
        suite=suite.name,
        shuffles=shuffles,
        name="figure4",
        paper=PAPER_FIGURE4,
        console=Console(quiet=quiet),
    )
    return 0


@app.command()
@experiment(*COMMON)
def table3(
    model: ModelOption,
    sets: Annotated[
        list[Path],
        typer.Option(
            "--set",
            metavar="FILE",
            help="A set of texts; repeatable, in the paper's order A1, A2, A3.",
        ),
    ],
    *,
    config: Config,
    texts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Draw N texts from each set.")
    ] = 1000,
    draws: o.Draws = DRAWS,
    output: o.Folder = Path("table3"),
    quiet: o.Quiet = False,
) -> int:
    """Coverage of the rounds of ANLI and of their unions: the paper's Table 3."""
    from mncover.paper.figure4_table3 import PAPER_TABLE3, compare_files, named_sets

    require_plotting()
    named = named_sets(o.suite_texts(path, config) for path in sets)
    compare_files(
        o.calibrated(model, config, quiet),
        named,
        output,
        texts=texts,
        draws=draws,
        name="table3",
        paper=PAPER_TABLE3,
        console=Console(quiet=quiet),
    )
    return 0


@app.command()
@experiment("masks", "max_length", "device")
def table4(
    task: Annotated[str, typer.Option(help="What to call the task: sst2, qqp, mrpc, …")],
    model: Annotated[str, typer.Option(help="The model whose coverage guides: a classifier.")],
    base: Annotated[
        str, typer.Option(help="The model that is trained, with a new head: an encoder.")
    ],
    train: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Training texts with labels; they also set the ranges."),
    ],
    test: Annotated[Path, typer.Option(metavar="FILE", help="Test texts with labels.")],
    *,
    config: Config,
    encoder: o.Encoder = None,
    masked_lm: o.MaskedLM = None,
    texts: Annotated[int, typer.Option(min=1, help="Training texts, drawn at random.")] = 1000,
    full: Annotated[
        bool, typer.Option("--full", help="All training texts, the paper's number of new ones.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How often to train each arm.")] = 3,
    similarity: o.Similarity = 0.85,
    max_iter: o.MaxIter = 10,
    epochs: Annotated[int, typer.Option(min=1, help="How often training goes over its texts.")] = 3,
    learning_rate: Annotated[float, typer.Option(help="The largest learning rate.")] = 1e-4,
    equal_steps: Annotated[
        bool,
        typer.Option("--equal-steps", help="Train all arms for the same number of steps."),
    ] = False,
    output: o.Folder = Path("table4"),
    quiet: o.Quiet = False,
) -> int:
    """Training on texts that raise the coverage: the paper's Table 4."""
    ...
    return 0


@app.command()
@experiment("device")
def table5(
    row: Annotated[
        list[str],
        typer.Option(
            metavar="TASK=MODEL,TRAIN,TEST",
            help="A row: sst2, qqp or mrpc, and its files; repeatable.",
        ),
    ],
    *,
    config: Config,
    output: o.Folder = Path("table5"),
    setting: o.Settings = None,
    paper: o.PaperSettings = False,
    quiet: o.Quiet = False,
) -> int:
    """Fidelity of the masks, beside the paper's Table 5."""
    from mncover.paper.table5 import parse_row, run_table5

    rows = [parse_row(text) for text in row]
    run_table5(rows, chosen_settings(paper, setting or []), output, config.device, quiet)
    return 0
