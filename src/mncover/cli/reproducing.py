"""The commands below `mncover reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.masks.settings import chosen_settings
from mncover.paper.filtering import SENTIMENT_TESTS
from mncover.suites.model import known_way

reproduce_app = typer.Typer(help="Reproduce the paper's tables and figures.", no_args_is_help=True)

ModelOption = Annotated[str, typer.Option(help="The model: a Hugging Face folder or hub name.")]
SuiteOption = Annotated[
    Path, typer.Option(help="The suite of tests: CheckList's .tar.gz or .pkl, or .jsonl.")
]
TrainOption = Annotated[Path, typer.Option(help="Texts that set the range of each neuron.")]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL2",
        help="Judge the choice by a second model too; or the folder of its own table.",
    ),
]
TextsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Texts of each test that the paper's protocol looks at."),
]
FolderOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="The folder to write to. [the table's name]")
]


def _filtering(table: str, summary: str) -> None:
    """Add the command of a table of Experiment 1; the three differ in tests and texts only."""

    def command(
        model: ModelOption,
        suite: SuiteOption,
        train: TrainOption,
        masks: o.MasksFile = None,
        judge: JudgeOption = None,
        output: FolderOption = None,
        texts: TextsOption = None,
        classes: o.Classes = None,
        max_length: o.MaxLength = None,
        batch_size: o.BatchSize = None,
        device: o.Device = None,
        quiet: o.Quiet = False,
    ) -> int:
        from mncover.paper.filtering_run import Asked, run_filtering

        run_filtering(
            Asked(
                table=table,
                model=model,
                suite=suite,
                train=train,
                output=output or Path(table),
                masks=masks,
                judge=judge,
                texts=texts,
                classes=known_way(classes or "auto"),
                max_length=max_length or 128,
                batch_size=batch_size or 32,
                device=device,
                quiet=quiet,
            )
        )
        return 0

    reproduce_app.command(table, help=summary)(command)


_filtering("table1", "Filtering the sentiment suite by coverage: the paper's Table 1 (BERT).")
_filtering("table2", "Filtering the sentiment suite by coverage: Table 2 (RoBERTa).")
_filtering("table6", "Filtering the QQP suite by coverage: Table 6.")


@reproduce_app.command("figure4")
def reproduce_figure4(
    model: ModelOption,
    suite: SuiteOption,
    train: TrainOption,
    masks: o.MasksFile = None,
    test: Annotated[
        list[str] | None,
        typer.Option(help="A panel; may be given again. [the first six tests of Table 2]"),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="The first so many texts of each test.")] = 1500,
    shuffles: Annotated[int, typer.Option(min=0, help="Shuffled orders beside the given one.")] = 5,
    max_length: o.MaxLength = None,
    device: o.Device = None,
    output: FolderOption = None,
    quiet: o.Quiet = False,
) -> int:
    """How coverage saturates, unfiltered and filtered: the paper's Figure 4."""
    from mncover.paper.figure4 import PAPER_AVERAGES, CurveJob, run_curves
    from mncover.selection.saturation import THRESHOLDS

    job = CurveJob(
        model,
        suite,
        _config(train, masks, max_length, device),
        output or Path("figure4"),
        tests=tuple(test or SENTIMENT_TESTS[:6]),
        texts=texts,
        thresholds=THRESHOLDS,
        shuffles=shuffles,
        quiet=quiet,
        name="figure4",
        paper=PAPER_AVERAGES,
    )
    run_curves(job)
    return 0


@reproduce_app.command("table3")
def reproduce_table3(
    model: ModelOption,
    train: TrainOption,
    sets: Annotated[
        list[Path],
        typer.Option(
            "--set", help="A set of texts, in the paper's order A1, A2, A3; give it again."
        ),
    ],
    masks: o.MasksFile = None,
    texts: Annotated[
        int, typer.Option(min=1, help="So many texts of each set; the paper has 1000.")
    ] = 1000,
    draws: Annotated[int, typer.Option(min=1, help="How often to draw them.")] = 20,
    max_length: o.MaxLength = None,
    device: o.Device = None,
    output: FolderOption = None,
    quiet: o.Quiet = False,
) -> int:
    """Coverage of the rounds of ANLI and of their unions: the paper's Table 3."""
    from mncover.paper.table3 import PAPER_TABLE3, CompareJob, run_comparison

    job = CompareJob(
        model,
        tuple(sets),
        _config(train, masks, max_length, device),
        output or Path("table3"),
        texts,
        draws,
        seed=0,
        quiet=quiet,
        name="table3",
        paper=PAPER_TABLE3,
    )
    run_comparison(job)
    return 0


def _config(train: Path, masks: Path | None, max_length: int | None, device: str | None) -> Config:
    """Return the defaults with what was asked for; pyproject.toml has no say in an experiment."""
    return Config().overridden(
        train=str(train),
        masks=None if masks is None else str(masks),
        max_length=max_length,
        device=device,
    )


@reproduce_app.command("table4")
def reproduce_table4(
    task: Annotated[str, typer.Option(help="What the table is called by: sst2, qqp, mrpc …")],
    model: Annotated[str, typer.Option(help="The model whose coverage guides: a classifier.")],
    base: Annotated[
        str, typer.Option(help="The model that is trained, with a new head: an encoder.")
    ],
    train: Annotated[Path, typer.Option(help="Training texts with labels; they set the ranges.")],
    test: Annotated[Path, typer.Option(help="Test texts with labels.")],
    masks: o.MasksFile = None,
    encoder: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Compares texts with their seeds. [the model itself]"),
    ] = None,
    masked_lm: Annotated[
        str | None,
        typer.Option("--masked-lm", metavar="MODEL", help="A fill-mask model, for one of the 16."),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Training texts, drawn at random.")] = 1000,
    full: Annotated[
        bool, typer.Option("--full", help="All training texts, the paper's number of new ones.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each kind.")] = 3,
    similarity: Annotated[
        float, typer.Option(min=-1, max=1, help="Cosine that a new text and its seed need.")
    ] = 0.85,
    max_iter: Annotated[int, typer.Option(min=1, help="Attempts for each seed, at most.")] = 10,
    epochs: Annotated[int, typer.Option(min=1, help="How often training goes over its texts.")] = 3,
    learning_rate: Annotated[float, typer.Option(help="The rate at its highest.")] = 1e-4,
    equal_steps: Annotated[
        bool,
        typer.Option("--equal-steps", help="Train all equally long, however many texts they have."),
    ] = False,
    max_length: o.MaxLength = None,
    device: o.Device = None,
    output: FolderOption = None,
    quiet: o.Quiet = False,
) -> int:
    """Training on texts that raise the coverage: the paper's Table 4."""
    from mncover.augment.transforms import Resources
    from mncover.paper.finetuning import FineTuning
    from mncover.paper.table4 import run_table4

    config = _config(train, masks, max_length, device)
    run_table4(
        task=task,
        model=model,
        base=base,
        train=train,
        test=test,
        config=config,
        output=output or Path("table4"),
        training=FineTuning(
            epochs=epochs,
            learning_rate=learning_rate,
            max_length=config.max_length,
            equal_steps=equal_steps,
        ),
        texts=None if full else texts,
        seeds=seeds,
        similarity=similarity,
        max_iter=max_iter,
        encoder=encoder,
        resources=Resources(masked_lm=masked_lm, device=device),
        quiet=quiet,
    )
    return 0


@reproduce_app.command("table5")
def reproduce_table5(
    row: Annotated[
        list[str],
        typer.Option(
            metavar="TASK=MODEL,TRAIN,TEST", help="A row: sst2, qqp or mrpc, and its files."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path(
        "table5"
    ),
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of learning."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's own settings.")] = False,
    device: o.Device = None,
    quiet: o.Quiet = False,
) -> int:
    """Fidelity of the masks, beside the paper's Table 5."""
    from mncover.paper.table5 import parse_row, run_table5

    rows = [parse_row(text) for text in row]
    run_table5(rows, chosen_settings(paper, setting or []), output, device, quiet)
    return 0
