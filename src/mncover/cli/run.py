"""`mncover run`: calibrate, run a suite, write the data file, report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from mncover.cli import options as o
from mncover.cli.checks import check_measuring
from mncover.cli.gates import FailOnNew, Gates, Since, exit_code
from mncover.cli.judges import judge_named
from mncover.cli.options import Config, flag, option
from mncover.coverage import Coverage
from mncover.data.columns import Coded
from mncover.data.identity import OF_ALL
from mncover.data.prompting import Judge
from mncover.errors import SettingsError
from mncover.report.columns import View
from mncover.report.screen import Screen, say
from mncover.report.text import show
from mncover.suites.model import known_way
from mncover.suites.parts import Part
from mncover.suites.rows import Rows, judged_texts

NO_SIGNATURES = "Do not keep a small vector of each text's inside, which `mncover next` needs."
TEST = "Run only this test, or context; repeatable. [all]"
MATCHING = "Run only tests whose name or capability matches, such as 'names and not typos'."
LIMIT = "Run only N cases, drawn at random, the same share of every test. [all]"
JUDGE = "Your function that judges answers, as MODULE:NAME; it gets text, answer and label."
NO_LABEL = "Leave the labels in a file of texts alone: measure, and judge nothing."


@o.configured(
    *o.MEASURING, "label", "context", "classes", "output", *o.CHECKING, "sort", "adds_little"
)
def run(
    model: o.Model,
    suite: o.Suite,
    *,
    config: Config,
    test: Annotated[list[str] | None, option(TEST, "NAME")] = None,
    matching: Annotated[str | None, option(MATCHING, "EXPRESSION", "-k")] = None,
    limit: Annotated[int | None, option(LIMIT, "N", min=1)] = None,
    seed: Annotated[int, option("Seed of what --limit draws.")] = 0,
    no_label: Annotated[bool, flag("--no-label", NO_LABEL)] = False,
    judge: Annotated[str | None, option(JUDGE, "MODULE:NAME")] = None,
    since: Since = None,
    fail_on_new_failures: FailOnNew = False,
    no_signatures: Annotated[bool, flag("--no-signatures", NO_SIGNATURES)] = False,
    quiet: o.Quiet = False,
) -> int:
    """Run a suite through a model, write the data file and print the report."""
    check_measuring(model, config, suite, file=config.output)
    asked = None if judge is None else judge_named(judge)
    whole = _unlabelled(suite, config) if no_label else o.suite_texts(suite, config)
    whole = whole if asked is None or whole.suite is not None else judged_texts(whole)
    rows = Part(tuple(test or ()), matching or "", limit, seed).of(whole)
    gates = Gates.of(config, list(dict.fromkeys(whole.contexts)), since, fail_on_new_failures)
    gates.require_judging(rows)
    if rows.chosen:
        o.speaker(quiet)(f"Running a part of {suite}: {rows.chosen}.")
    cov = measure(model, rows, config, quiet, not no_signatures, asked)
    view = View(cov.data, cov.result(config.adds_little / 100), config.sort)
    view = gates.checked(view, Path(config.output))
    if not quiet:
        show(view, Screen())
        say(f"The data file is {config.output}. To see it again: mncover report {config.output}")
    return exit_code(view, listed=not quiet)


def measure(
    model: str,
    texts: Rows,
    config: Config,
    quiet: bool,
    signatures: bool = True,
    judge: Judge | None = None,
) -> Coverage:
    """Run a suite, or resume an interrupted run, and write the data file."""
    way = known_way(config.classes)
    train = o.train_rows(config)
    cov = o.coverage_for(model, config, quiet, signatures, judge)
    cov.engine.check((config.metric or cov.engine.main).removesuffix(OF_ALL))
    return cov.run(texts, config.output, train, way, o.speaker(quiet))


def _unlabelled(suite: Path, config: Config) -> Rows:
    """Read a file of texts without its labels."""
    rows = o.suite_texts(suite, replace(config, label=None))
    if rows.suite is not None:
        what = "--no-label is for files of texts"
        raise SettingsError(f"{suite}: {what}; a test suite is judged by its expectations.")
    return replace(rows, labels=Coded.same(None, len(rows)))
