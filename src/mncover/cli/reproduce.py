"""The commands below `mncover reproduce`: the paper's tables and figures.

pyproject.toml has no say in an experiment.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mncover.augment.transforms import Resources
from mncover.cli import options as o
from mncover.cli.checks import check_measuring, check_paths
from mncover.cli.options import Config, flag, option
from mncover.cli.run import LIMIT
from mncover.cli.sets import draw, draw_comparison
from mncover.coverage import Coverage
from mncover.criteria import CRITERIA
from mncover.masks.settings import chosen_settings
from mncover.report.screen import Screen
from mncover.selection.sets import DRAWS
from mncover.suites.formats import load_suite
from mncover.suites.model import known_way
from mncover.suites.parts import Part
from mncover.types import Settings

app = typer.Typer(help="Reproduce the paper's tables and figures.", no_args_is_help=True)
TRAIN = "Texts that set the range of each neuron.  [required]"
experiment = partial(o.configured, file=False, train=TRAIN)

ModelOption = Annotated[str, option("The model: a Hugging Face folder or hub name.", "MODEL")]
SuiteOption = Annotated[Path, option("A test suite, such as CheckList's .tar.gz.", "FILE")]
JudgeOption = Annotated[
    str | None, option("A second judge: a model, or its table's folder.", "MODEL2")
]
COMMON = ("train", "masks", "max_length", "batch_size", "device", "kernels")


def _filtering(table: str, summary: str) -> None:
    """Add the command of a table of Experiment 1; the three differ only in tests and texts."""

    @experiment(*COMMON, "classes")
    def command(
        model: ModelOption,
        suite: SuiteOption,
        *,
        config: Config,
        judge: JudgeOption = None,
        output: o.Folder = Path(table),
        texts: Annotated[int | None, option("Use the first N texts of a test.", "N", min=1)] = None,
        quiet: o.Quiet = False,
    ) -> None:
        check_measuring(model, config, suite, folder=output)
        from mncover.paper.filtering import reproduce_filtering  # brings torch

        train, tests = o.train_texts(config), load_suite(suite)
        reproduce_filtering(
            *(table, o.coverage_for(model, config, quiet), suite, tests, train, output),
            judge=judge,
            texts=texts,
            classes=known_way(config.classes),
            say=o.speaker(quiet),
            console=Screen(quiet=quiet),
        )

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
        list[str] | None, option("A panel; repeatable. [the first six tests of Table 2]", "NAME")
    ] = None,
    texts: Annotated[int, option("Only the first N texts of each test.", "N", min=1)] = 1500,
    shuffles: o.Shuffles = 5,
    output: o.Folder = Path("figure4"),
    quiet: o.Quiet = False,
) -> None:
    """How coverage saturates, unfiltered and filtered: the paper's Figure 4."""
    from mncover.paper.figure4_table3 import PAPER_FIGURE4
    from mncover.paper.filtering import SENTIMENT_TESTS

    how = {"shuffles": shuffles, "name": "figure4", "paper": PAPER_FIGURE4}
    draw(model, suite, config, test or SENTIMENT_TESTS[:6], texts, output, quiet, **how)


@app.command()
@experiment(*COMMON)
def table3(
    model: ModelOption,
    sets: Annotated[
        list[Path],
        option("A set of texts; repeatable, in the paper's order A1, A2, A3.", "FILE", "--set"),
    ],
    *,
    config: Config,
    texts: Annotated[int, option("Draw N texts from each set.", "N", min=1)] = 1000,
    draws: o.Draws = DRAWS,
    output: o.Folder = Path("table3"),
    quiet: o.Quiet = False,
) -> None:
    """Coverage of the rounds of ANLI and of their unions: the paper's Table 3."""
    from mncover.paper.figure4_table3 import PAPER_TABLE3

    how = {"texts": texts, "draws": draws, "name": "table3", "paper": PAPER_TABLE3}
    draw_comparison(model, sets, config, output, quiet, **how)


@app.command()
@experiment("masks", "max_length", "device")
def table4(
    task: Annotated[str, option("What to call the task: sst2, qqp, mrpc, …")],
    model: Annotated[str, option("The model whose coverage guides: a classifier.", "MODEL")],
    base: Annotated[str, option("The model to train, with a new head: an encoder.", "MODEL")],
    train: Annotated[Path, option("Training texts with labels; they set the ranges.", "FILE")],
    test: Annotated[Path, option("Test texts with labels.", "FILE")],
    *,
    config: Config,
    encoder: o.Encoder = None,
    masked_lm: o.MaskedLM = None,
    texts: Annotated[int, option("Training texts, drawn at random.", "N", min=1)] = 1000,
    full: Annotated[bool, flag("--full", "Use the paper's numbers of texts.")] = False,
    seeds: Annotated[int, option("How often to train each arm.", min=1)] = 3,
    similarity: o.Similarity = 0.85,
    max_iter: o.MaxIter = 10,
    epochs: Annotated[int, option("How often training goes over its texts.", min=1)] = 3,
    learning_rate: Annotated[float, option("The largest learning rate.")] = 1e-4,
    equal_steps: Annotated[
        bool, flag("--equal-steps", "Train all arms for the same number of steps.")
    ] = False,
    output: o.Folder = Path("table4"),
    quiet: o.Quiet = False,
) -> None:
    """Training on texts that raise the coverage: the paper's Table 4."""
    check_paths((model, base, encoder, masked_lm), (train, test, config.masks), folder=output)
    from mncover.paper.finetuning import FineTuning  # brings torch
    from mncover.paper.table4 import run_table4

    measured = replace(config, train=str(train))
    training = FineTuning(epochs=epochs, learning_rate=learning_rate, equal_steps=equal_steps)
    run_table4(
        task=task,
        model=model,
        base=base,
        train=train,
        test=test,
        make_engine=lambda: o.calibrated(model, measured, quiet).engine,
        settings=Settings(max_length=config.max_length),
        masks=config.masks,
        output=output,
        training=replace(training, max_length=config.max_length),
        texts=None if full else texts,
        seeds=seeds,
        similarity=similarity,
        max_iter=max_iter,
        encoder=encoder,
        resources=Resources(masked_lm=masked_lm, device=config.device),
        quiet=quiet,
    )


@app.command()
@experiment("device")
def table5(
    row: Annotated[
        list[str],
        option("A row: sst2, qqp or mrpc, and its files; repeatable.", "TASK=MODEL,TRAIN,TEST"),
    ],
    *,
    config: Config,
    output: o.Folder = Path("table5"),
    setting: o.Setting = None,
    paper: o.PaperSettings = False,
    quiet: o.Quiet = False,
) -> None:
    """Fidelity of the masks, with the paper's Table 5."""
    check_paths(folder=output)
    from mncover.paper.table5 import parse_row, run_table5

    rows = [parse_row(text) for text in row]
    run_table5(rows, chosen_settings(paper, setting or []), output, config.device, quiet)


@app.command()
@experiment(*COMMON, "train_limit", "text", "pair", "label", "classes")
def discovery(
    model: ModelOption,
    suite: Annotated[Path, option("A test suite, or a file of labelled texts.", "FILE")],
    *,
    config: Config,
    pools: Annotated[int, option("How many pools of cases to draw.", "N", min=1)] = 5,
    cases: Annotated[int, option("Cases of each test in a pool.", "N", min=1)] = 500,
    output: o.Folder = Path("discovery"),
    quiet: o.Quiet = False,
) -> None:
    """How many failures each way to choose finds, and of how many kinds."""
    check_measuring(model, config, suite, folder=output)
    from mncover.paper.discovery import reproduce_discovery

    train, texts = o.train_rows(config), o.suite_texts(suite, config)
    cov = o.coverage_for(model, config, quiet)
    output.mkdir(parents=True, exist_ok=True)
    classes, say = known_way(config.classes), o.speaker(quiet)
    data = cov.run(texts, output / "run.mncover", train, classes, say, reuse=True).data
    console, progress = Screen(quiet=quiet), False if quiet else None
    reproduce_discovery(data, output, pools, cases, console, say, progress)


@app.command()
@experiment(*COMMON, "train_limit", "text", "pair", "label", "classes", "criteria")
def criteria(
    model: ModelOption,
    suite: Annotated[Path, option("A test suite, or a file of labelled texts.", "FILE")],
    *,
    config: Config,
    limit: Annotated[int | None, option(LIMIT, "N", min=1)] = None,
    pools: Annotated[int, option("How many pools of cases to draw.", "N", min=1)] = 3,
    cases: Annotated[int, option("Cases of each test in a pool.", "N", min=1)] = 100,
    output: o.Folder = Path("criteria"),
    quiet: o.Quiet = False,
) -> None:
    """What choosing cases by each criterion finds, under every kind of positions."""
    check_measuring(model, config, suite, folder=output)
    from mncover.paper.criteria import reproduce_criteria

    train, texts = o.train_rows(config), Part((), "", limit, 0).of(o.suite_texts(suite, config))
    output.mkdir(parents=True, exist_ok=True)
    classes, say = known_way(config.classes), o.speaker(quiet)
    first = o.coverage_for(model, replace(config, positions="mean", criteria="cover"), quiet)
    data = first.run(texts, output / "run.mncover", train, classes, say, reuse=True).data
    names = config.criteria or ",".join(n for n in CRITERIA if config.masks or n != "mncover")

    def calibrated(positions: str) -> Coverage:
        chosen = replace(config, positions=positions, criteria=names)
        return o.calibrated(model, chosen, quiet)

    console = Screen(quiet=quiet)
    reproduce_criteria(data, calibrated, output, pools, cases, console, say)
