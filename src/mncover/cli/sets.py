"""`mncover curve` and `mncover compare`: how lists of texts cover a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mncover.cli import options as o
from mncover.errors import SettingsError

OutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="The folder to write to. [the command's name]")
]


def curve(
    model: o.Model,
    suite: o.Suite,
    train: o.Train = None,
    train_limit: o.TrainLimit = None,
    text: o.TextField = None,
    pair: o.PairField = None,
    context: o.ContextField = None,
    test: Annotated[
        list[str] | None, typer.Option(help="Only this test or context; may be given again.")
    ] = None,
    texts: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many texts of each.")
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Keep a text that adds more; may be given again. [0 1e-4 … 0.1]"),
    ] = None,
    shuffles: Annotated[int, typer.Option(min=0, help="Shuffled orders beside the given one.")] = 5,
    masks: o.MasksFile = None,
    bins: o.Bins = None,
    max_length: o.MaxLength = None,
    attention_weight: o.AttentionWeight = None,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    output: OutputFolder = None,
    quiet: o.Quiet = False,
) -> int:
    """Draw how coverage grows with the number of texts, unfiltered and filtered."""
    config = o.measuring_config(
        train=o.name_of(train),
        train_limit=train_limit,
        text=text,
        pair=pair,
        context=context,
        masks=o.name_of(masks),
        bins=bins,
        max_length=max_length,
        attention_weight=attention_weight,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
    )
    from mncover.paper.figure4 import CurveJob, run_curves
    from mncover.selection.saturation import THRESHOLDS

    job = CurveJob(
        model,
        suite,
        config,
        output or Path("curve"),
        tests=tuple(test or ()),
        texts=texts,
        thresholds=tuple(threshold or THRESHOLDS),
        shuffles=shuffles,
        quiet=quiet,
    )
    run_curves(job)
    return 0


def compare(
    model: o.Model,
    sets: Annotated[
        list[Path], typer.Argument(metavar="SET SET…", help="Files of texts, or suites of tests.")
    ],
    train: o.Train = None,
    train_limit: o.TrainLimit = None,
    text: o.TextField = None,
    pair: o.PairField = None,
    texts: Annotated[
        int | None,
        typer.Option(min=1, help="Draw so many texts of each set. [80 % of the smallest]"),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="How often to draw.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    masks: o.MasksFile = None,
    bins: o.Bins = None,
    max_length: o.MaxLength = None,
    attention_weight: o.AttentionWeight = None,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    output: OutputFolder = None,
    quiet: o.Quiet = False,
) -> int:
    """Compare sets of texts: what each covers, what only it covers, how much they overlap."""
    if len(sets) < 2:
        raise SettingsError("give at least two sets to compare (see --help).")
    config = o.measuring_config(
        train=o.name_of(train),
        train_limit=train_limit,
        text=text,
        pair=pair,
        masks=o.name_of(masks),
        bins=bins,
        max_length=max_length,
        attention_weight=attention_weight,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
    )
    from mncover.paper.table3 import CompareJob, run_comparison

    folder = output or Path("compare")
    run_comparison(CompareJob(model, tuple(sets), config, folder, texts, draws, seed, quiet))
    return 0
