"""The commands below `mncover suite`. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mncover.augment.recipes import make_suite
from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.options import argument, listed, option, written
from mncover.report.describe import describe_suite, outcome_table, outcomes_to_json, suite_table
from mncover.report.plans import estimate_notes, estimate_table, estimates_to_json
from mncover.report.screen import Screen, in_json, say
from mncover.selection.estimates import estimates_from
from mncover.selection.planfile import plan_of
from mncover.suites.exchange import CERTAIN, FORMATS, export_texts, index_path, read_predictions
from mncover.suites.formats import FOREIGN, SUITE_FORMATS, converted, load_suite, save_suite
from mncover.suites.judging import in_suite_classes, judge_suite
from mncover.suites.model import known_way

app = typer.Typer(help="Make test suites, look at them, and convert them.", no_args_is_help=True)

_FOREIGN = f"A test suite, or a file of another tool: {listed(*{**SUITE_FORMATS, **FOREIGN})}."
TestSuite = Annotated[Path, argument(f"A test suite: {listed(*SUITE_FORMATS)}.", "SUITE")]


@app.command()
def make(
    recipe: Annotated[Path, argument("A TOML file of templates and perturbations.", "RECIPE")],
    output: o.JsonLines,
    seed: o.Seed = 0,
    quiet: o.Quiet = False,
) -> None:
    """Make a suite from templates, word lists and small changes to texts."""
    check_paths(file=output, reads=(recipe,))
    made = make_suite(recipe, seed)
    save_suite(made, output)
    if not quiet:
        Screen().print(suite_table(made))
        say(f"{output}: {describe_suite(made)}.")


@app.command()
def convert(
    suite: Annotated[Path, argument(_FOREIGN, "SUITE")], output: o.JsonLines, quiet: o.Quiet = False
) -> None:
    """Write a suite, or a file of another tool, in mncover's own format.

    Of promptfoo's files, samples that the lm-evaluation-harness logged, and JSON lines of prompts
    with answers, what does not map is left out and named.
    """
    check_paths(file=output, reads=(suite,))
    found, left_out = converted(suite)
    save_suite(found, output)
    if not quiet:
        say(f"{output}: {describe_suite(found)}.")
        if left_out:
            say(f"Left out, because it does not map: {left_out}.")


@app.command()
def show(suite: TestSuite) -> None:
    """List the tests of a suite: type, capability, cases, texts, expectation."""
    Screen().print(suite_table(load_suite(suite)))


@app.command()
def export(
    suite: TestSuite,
    output: Annotated[Path, written("The file of texts; its index goes next to it.")],
    quiet: o.Quiet = False,
) -> None:
    """Write a suite's texts, one per line, for another program to predict."""
    check_paths(file=output, reads=(suite,))
    found = load_suite(suite)
    export_texts(found, output)
    if not quiet:
        index = index_path(output)
        say(f"{output}: {found.texts:,} lines; {index} has the test and case of each.")


@app.command()
def judge(
    suite: TestSuite,
    predictions: Annotated[Path, argument("One line for each text of the export.", "PREDICTIONS")],
    kind: Annotated[
        str, option(f"What a line holds: {listed(*FORMATS)}.", None, "--format")
    ] = "softmax",
    classes: Annotated[
        str, option("How classes correspond: auto, numbers, or neutral-band (two to three).")
    ] = "auto",
    as_json: o.Json = False,
) -> None:
    """Show how often each test fails, given predictions made elsewhere."""
    found = load_suite(suite)
    answers = read_predictions(predictions, kind, found.texts)
    numbers = [str(number) for number in range(answers.probabilities.shape[1])]
    if kind not in CERTAIN:
        answers = in_suite_classes(answers.probabilities, numbers, found.labels, known_way(classes))
    outcomes = judge_suite(found, answers)
    plan = plan_of(found)
    estimates = [] if plan is None else estimates_from(plan, outcomes)
    if as_json:
        tests = outcomes_to_json(outcomes)
        content = {"tests": tests, "estimates": estimates_to_json(estimates)} if plan else tests
        say(in_json(content))
        return
    screen = Screen()
    screen.print(outcome_table(outcomes))
    if estimates:
        for note in estimate_notes(estimates):
            screen.print(f"\n{note}", markup=False, highlight=False)
        screen.print(estimate_table(estimates))
