"""Every option of the command line, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mncover.cli.config import Config, load_config
from mncover.errors import SettingsError

DataFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="The data file; run.mncover if not given."),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A Hugging Face folder or hub name.")]
Suite = Annotated[
    Path,
    typer.Argument(
        metavar="SUITE",
        help="Texts to run: .jsonl, .csv, .tsv, .txt (also with .gz) or .parquet; or a suite of "
        "tests: .jsonl, or CheckList's .pkl or .tar.gz.",
    ),
]
TestSuite = Annotated[
    Path,
    typer.Argument(
        metavar="SUITE", help="A suite of tests: .jsonl (also .gz), or CheckList's .pkl or .tar.gz."
    ),
]
Train = Annotated[
    Path | None,
    typer.Option(help="Texts that set the range of each neuron, normally the training set."),
]
TrainLimit = Annotated[
    int | None, typer.Option(min=1, help="Use only the first so many training texts.")
]
TextField = Annotated[str | None, typer.Option("--text", help="The field that holds the text.")]
PairField = Annotated[
    str | None, typer.Option("--pair", help="The field that holds the second text of a pair.")
]
LabelField = Annotated[str | None, typer.Option("--label", help="The field with the right class.")]
ContextField = Annotated[
    str | None,
    typer.Option("--context", help="The field whose values keep coverage apart (the test's name)."),
]
Bins = Annotated[int | None, typer.Option(help="Sections of each neuron's range, 2 to 1000. [10]")]
MaxLength = Annotated[int | None, typer.Option(help="Tokens a text is cut to. [128]")]
AttentionWeight = Annotated[
    float | None, typer.Option(help="Weight of attention bins against word bins. [1.0]")
]
BatchSize = Annotated[int | None, typer.Option(help="Texts in a batch, at most. [32]")]
Device = Annotated[str | None, typer.Option(help="Where to run: cpu, cuda, cuda:1 … [cpu]")]
Dtype = Annotated[
    str | None, typer.Option(help="Number format of the weights: auto, float32, float16, bfloat16.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The data file to write. [run.mncover]")
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="How the model's classes correspond to those of a suite of tests: auto, names, "
        "numbers, neutral-band. [auto]"
    ),
]
MasksFile = Annotated[
    Path | None,
    typer.Option("--masks", help="Masks of `mncover masks`: measure mnCover beside Cover."),
]
FailUnder = Annotated[
    float | None,
    typer.Option(metavar="PERCENT", help="Exit with 2 if the metric is below this."),
]
MetricName = Annotated[
    str | None, typer.Option("--metric", help="What --fail-under judges: cover, mncover. [cover]")
]
SelectMetric = Annotated[
    str | None, typer.Option("--metric", help="What a gain is of: cover, mncover. [cover]")
]
Sort = Annotated[
    str | None,
    typer.Option(
        help="Order of contexts: suite, name, texts, cover, mncover, adds, only, redundant, wrong, "
        "failing; "
        "with a minus in front, the largest first."
    ),
]
Redundant = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        min=0,
        max=100,
        help="A text is redundant if at most so much of what it does in the model is new. [1]",
    ),
]
Heads = Annotated[bool, typer.Option("--heads", help="Show every attention head too.")]
Failures = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Show up to so many failing cases of each test, with their texts."
    ),
]
ReportFormat = Annotated[
    str,
    typer.Option("--format", help="text, markdown, or github: Markdown with the table folded."),
]
JUnit = Annotated[
    Path | None, typer.Option(help="Write the cases of a suite of tests as JUnit XML too.")
]
FailUnderTest = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PERCENT", help="Exit with 2 if this test's coverage is below; give it again."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def measuring_config(**options: object) -> Config:
    """Return the configuration of a command that measures, which needs training texts."""
    config = load_config(Path.cwd()).overridden(**options)
    if config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    return config


def name_of(path: Path | None) -> str | None:
    """Return a path as the configuration keeps it."""
    return None if path is None else str(path)
