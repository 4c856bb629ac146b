"""The commands. Those that only read data files never import torch."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.augmenting import augment, transform_text
from mncover.cli.config import Config, load_config
from mncover.cli.gates import below_limits, parsed_limits
from mncover.cli.html import html
from mncover.cli.reproducing import reproduce_app
from mncover.cli.selecting import select
from mncover.cli.sets import compare, curve
from mncover.cli.suites import suite_app
from mncover.criteria import COVER, NAMES, check_metric
from mncover.data import datafile
from mncover.data.display import display_percent
from mncover.data.files import replacing
from mncover.data.results import Result, below, summarize
from mncover.data.store import CoverageData
from mncover.errors import MismatchError, SettingsError
from mncover.masks.settings import chosen_settings
from mncover.report.describe import describe_masks
from mncover.report.failures import print_failures
from mncover.report.jsonreport import rows_to_json, to_json
from mncover.report.junit import write_junit
from mncover.report.markdown import FORMATS, to_markdown
from mncover.report.text import print_report, sorted_contexts
from mncover.suites.judging import judge_data
from mncover.types import __version__

app = typer.Typer(
    name="mncover",
    help="coverage.py for transformers: how thoroughly do texts exercise the inside of a model?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _start(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"mncover {__version__}")
        raise typer.Exit(0)


@app.command()
def run(
    model: o.Model,
    suite: o.Suite,
    train: o.Train = None,
    train_limit: o.TrainLimit = None,
    text: o.TextField = None,
    pair: o.PairField = None,
    label: o.LabelField = None,
    context: o.ContextField = None,
    bins: o.Bins = None,
    max_length: o.MaxLength = None,
    attention_weight: o.AttentionWeight = None,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    masks: o.MasksFile = None,
    classes: o.Classes = None,
    output: o.Output = None,
    fail_under: o.FailUnder = None,
    metric: o.MetricName = None,
    sort: o.Sort = None,
    redundant: o.Redundant = None,
    quiet: o.Quiet = False,
) -> int:
    """Run a suite through a model, write the data file and print the report."""
    config = load_config(Path.cwd()).overridden(
        train=o.name_of(train),
        train_limit=train_limit,
        text=text,
        pair=pair,
        label=label,
        context=context,
        bins=bins,
        max_length=max_length,
        attention_weight=attention_weight,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        masks=o.name_of(masks),
        classes=classes,
        output=o.name_of(output),
        fail_under=fail_under,
        metric=metric,
        sort=sort,
        redundant=redundant,
    )
    if config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    from mncover.cli.running import run_from_config

    data = run_from_config(model, suite, config, quiet)
    return _report(_summary(data, config), config, quiet=quiet, data_file=config.output)


@app.command()
def report(
    file: o.DataFile = None,
    fail_under: o.FailUnder = None,
    metric: o.MetricName = None,
    sort: o.Sort = None,
    redundant: o.Redundant = None,
    heads: o.Heads = False,
    failures: o.Failures = 0,
    kind: o.ReportFormat = "text",
    junit: o.JUnit = None,
    fail_under_test: o.FailUnderTest = None,
) -> int:
    """Print the coverage in a data file: by context, by layer and in all."""
    config = load_config(Path.cwd()).overridden(
        output=o.name_of(file), fail_under=fail_under, metric=metric, sort=sort, redundant=redundant
    )
    if kind not in FORMATS:
        raise SettingsError(f"a report's format is {', '.join(FORMATS)}; got {kind!r}.")
    data = _read(config)
    result = _summary(data, config)
    limits = parsed_limits(fail_under_test or [], result)
    if kind == "text":
        code = _report(result, config, heads=heads)
    else:
        print(to_markdown(result, config.sort, folded=kind == "github"))
        code = _exit_code(result, config)
    if failures:
        print_failures(data, failures, Console())
    if junit is not None:
        write_junit(data, junit)
    low = below_limits(limits, result, check_metric(config.metric, result.masked is not None))
    for line in low:
        Console(stderr=True).print(line, markup=False, soft_wrap=True)
    return 2 if low else code


@app.command()
def json(
    file: o.DataFile = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; the screen if not given.")
    ] = None,
    texts: Annotated[bool, typer.Option("--texts", help="Add a row for every text.")] = False,
    pretty: Annotated[bool, typer.Option("--pretty", help="Indent, for people.")] = False,
    fail_under: o.FailUnder = None,
    metric: o.MetricName = None,
    redundant: o.Redundant = None,
) -> int:
    """Write the coverage in a data file as JSON."""
    config = load_config(Path.cwd()).overridden(
        output=o.name_of(file), fail_under=fail_under, metric=metric, redundant=redundant
    )
    data = _read(config)
    result = _summary(data, config)
    check_metric(config.metric, result.masked is not None)
    content: dict[str, Any] = to_json(result)
    if texts:
        content["rows"] = rows_to_json(data)
    rendered = jsonlib.dumps(content, indent=2 if pretty else None)
    if output is None:
        print(rendered)
    else:
        with replacing(output) as temporary:
            temporary.write_text(rendered + "\n", encoding="utf-8")
    return _exit_code(result, config)


@app.command()
def combine(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Data files to unite.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The data file to write.")],
    quiet: o.Quiet = False,
) -> int:
    """Unite data files of the same model, ranges and settings into another file."""
    united = datafile.read(files[0])
    for path in files[1:]:
        try:
            united = united.union(datafile.read(path))
        except MismatchError as error:
            raise MismatchError(f"{files[0]} and {path}: {error}") from error
    datafile.write(united, output)
    if not quiet:
        result = summarize(united)
        shares = f"Cover {display_percent(result.cover)} %"
        if result.mncover is not None:
            shares += f", mnCover {display_percent(result.mncover)} %"
        print(f"Combined {len(files)} files into {output}: {shares}.")
    return 0


app.command()(html)
app.command()(select)
app.command()(curve)
app.command()(compare)
app.command()(augment)
app.command("transform")(transform_text)


@app.command()
def masks(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A Hugging Face folder or hub name.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Texts to learn from, normally the training set.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file of masks to write.")
    ] = Path("masks.safetensors"),
    test: Annotated[
        Path | None, typer.Option(help="Texts to measure fidelity on, besides those held out.")
    ] = None,
    text: o.TextField = None,
    pair: o.PairField = None,
    texts: Annotated[
        int | None, typer.Option(help="Learn from a sample of so many training texts. [40000]")
    ] = None,
    words_kept: Annotated[
        float | None, typer.Option(help="Share of the words to keep, about. [0.745]")
    ] = None,
    max_length: o.MaxLength = None,
    seed: Annotated[int | None, typer.Option(help="Seed of sample, start and draws. [0]")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of learning."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's own settings.")] = False,
    unseen: Annotated[
        str | None,
        typer.Option(
            help="What training did not see: keep, drop, or by words' scores (words). [keep]"
        ),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(help="Learn nothing: keep the words of this file, one in a line."),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Learn nothing: keep words by this JSON file of scores, 0 to 1."),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="NAME=V1,V2,…", help="Learn once for each value; write a curve."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Where the sweep's curve goes: .png, .svg or .pdf.")
    ] = None,
    show: Annotated[
        Path | None, typer.Option(help="Only show what this file of masks keeps.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many words and pairs to show.")] = 12,
    device: o.Device = None,
    dtype: o.Dtype = None,
    quiet: o.Quiet = False,
) -> int:
    """Learn which words and pairs of words matter to a classifier, or show what was learnt."""
    if show is not None:
        from mncover.masks.masks import Masks

        Console().print(describe_masks(Masks.load(show).summary(top)))
        return 0
    config = load_config(Path.cwd()).overridden(
        train=o.name_of(train),
        text=text,
        pair=pair,
        device=device,
        dtype=dtype,
        max_length=max_length,
    )
    if model is None:
        raise SettingsError("give a MODEL to learn masks for, or --show FILE (see --help).")
    from mncover.cli.masking import MaskJob, run_mask_job

    given = _given(texts=texts, words_kept=words_kept, seed=seed, max_length=config.max_length)
    settings = chosen_settings(paper, [*given, *(setting or [])])
    job = MaskJob(model, config, settings, output, test, words, scores, unseen, sweep, plot, quiet)
    return run_mask_job(job, top)


def _given(**options: Any) -> list[str]:
    return [f"{name}={value}" for name, value in options.items() if value is not None]


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where the demo's files go.")] = Path(
        "mncover-demo"
    ),
) -> int:
    """Measure a bundled suite on a small sentiment model: everything at once, offline."""
    from mncover.cli.demo import run_demo

    return run_demo(folder, Console())


app.add_typer(suite_app, name="suite")
app.add_typer(reproduce_app, name="reproduce")

debug = typer.Typer(help="Show what a bug report needs.", no_args_is_help=True)
app.add_typer(debug, name="debug")


@debug.command("sys")
def debug_sys() -> int:
    """Show versions, devices and the cache folder."""
    from mncover.cli.debug import system_facts

    return _show(system_facts())


@debug.command("model")
def debug_model(model: o.Model, max_length: o.MaxLength = None) -> int:
    """Show how a model's sites are read, and how many bins it has."""
    from mncover.cli.debug import model_facts

    config = load_config(Path.cwd()).overridden(max_length=max_length)
    return _show(model_facts(model, config.max_length, config.bins))


@debug.command("data")
def debug_data(file: o.DataFile = None) -> int:
    """Show a data file's header."""
    config = load_config(Path.cwd()).overridden(output=o.name_of(file))
    header = datafile.read_header(Path(config.output))
    header = {k: v for k, v in header.items() if k not in ("reachable", "checksums", "layout")}
    return _show(header)


def _show(facts: dict[str, Any]) -> int:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def _read(config: Config) -> CoverageData:
    return datafile.read(Path(config.output))


def _summary(data: CoverageData, config: Config) -> Result:
    return summarize(data, tuple(judge_data(data)), config.redundant / 100)


def _report(
    result: Result,
    config: Config,
    heads: bool = False,
    quiet: bool = False,
    data_file: str | None = None,
) -> int:
    sorted_contexts(result, config.sort)  # refuses a wrong order even when quiet
    check_metric(config.metric, result.masked is not None)
    if not quiet:
        print_report(result, Console(), config.sort, heads)
        if data_file is not None:
            print(f"The data file is {data_file}. See it again with: mncover report {data_file}")
    return _exit_code(result, config)


def _exit_code(result: Result, config: Config) -> int:
    metric = check_metric(config.metric, result.masked is not None)
    share = result.cover if result.mncover is None or metric == COVER else result.mncover
    if config.fail_under is None or not below(share, config.fail_under):
        return 0
    Console(stderr=True).print(
        f"{NAMES[metric]} {display_percent(share)} % is below --fail-under {config.fail_under:g} %."
    )
    return 2
