"""The commands below `mncover suite`. None of them imports torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mncover.augment.recipes import make_suite
from mncover.cli import options as o
from mncover.report.describe import (
    describe_suite,
    outcome_table,
    outcomes_to_json,
    suite_table,
)
from mncover.suites.exchange import CERTAIN, FORMATS, export_texts, index_path, read_predictions
from mncover.suites.formats import load_suite, save_suite
from mncover.suites.judging import in_suite_classes, judge_suite
from mncover.suites.model import known_way

suite_app = typer.Typer(
    help="Make suites of tests, look at them, and convert them.", no_args_is_help=True
)


@suite_app.command("make")
def suite_make(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A TOML file of templates and perturbations.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The JSON Lines file to write (also .gz).")
    ],
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    quiet: o.Quiet = False,
) -> int:
    """Make a suite from templates, word lists and small changes to texts."""
    made = make_suite(recipe, seed)
    save_suite(made, output)
    if not quiet:
        Console().print(suite_table(made))
        print(f"{output}: {describe_suite(made)}.")
    return 0


@suite_app.command("convert")
def suite_convert(
    suite: o.TestSuite,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The JSON Lines file to write (also .gz).")
    ],
    quiet: o.Quiet = False,
) -> int:
    """Write a suite, such as a CheckList pickle, in mncover's own format."""
    found = load_suite(suite)
    save_suite(found, output)
    if not quiet:
        print(f"{output}: {describe_suite(found)}.")
    return 0


@suite_app.command("show")
def suite_show(suite: o.TestSuite) -> int:
    """List the tests of a suite: type, capability, cases, texts, expectation."""
    found = load_suite(suite)
    Console().print(suite_table(found))
    return 0


@suite_app.command("export")
def suite_export(
    suite: o.TestSuite,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file of texts; its index goes beside it.")
    ],
    quiet: o.Quiet = False,
) -> int:
    """Write a suite's texts, one per line, for another program to predict."""
    found = load_suite(suite)
    export_texts(found, output)
    if not quiet:
        print(
            f"{output}: {found.texts:,} lines; {index_path(output)} has the test and case of each."
        )
    return 0


@suite_app.command("judge")
def suite_judge(
    suite: o.TestSuite,
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="One line for each text of the export.")
    ],
    kind: Annotated[
        str, typer.Option("--format", help=f"What a line says: {', '.join(FORMATS)}.")
    ] = "softmax",
    classes: Annotated[
        str,
        typer.Option(help="How classes correspond: auto, numbers, or neutral-band (two to three)."),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> int:
    """Tell which tests fail how often, from predictions made elsewhere."""
    found = load_suite(suite)
    answers = read_predictions(predictions, kind, found.texts)
    numbers = [str(number) for number in range(answers.probabilities.shape[1])]
    if kind not in CERTAIN:
        answers = in_suite_classes(answers.probabilities, numbers, found.labels, known_way(classes))
    outcomes = judge_suite(found, answers)
    if as_json:
        print(json.dumps(outcomes_to_json(outcomes), indent=1))
    else:
        Console().print(outcome_table(outcomes))
    return 0
