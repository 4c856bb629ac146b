"""`mncover report`, `json`, `html` and `combine`: what data files hold. No torch here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from mncover.cli import options as o
from mncover.cli.missing import show_missing
from mncover.cli.options import Config, argument, flag, listed, option, written
from mncover.coverage import Coverage
from mncover.data.files import replacing
from mncover.data.results import Result, Tally, below
from mncover.errors import MismatchError, SettingsError
from mncover.report import REPORTS
from mncover.report.columns import View
from mncover.report.html import write_html
from mncover.types import display_percent

FAILURES = "Show up to N failing cases of each test, with their texts."
MISSING = "Show what no text reaches; with --train, also the training texts that would."
REACHING = "For --missing: write these training texts as a suite (.jsonl) to be labelled."
LIMIT = "Exit with 2 if this test's coverage is below this; repeatable."


@o.configured(
    *(*o.CHECKING, "sort", "adds_little", "train", "train_limit", *o.FIELDS, *o.LOADING),
    train="For --missing: the texts that set the ranges; print those that would reach most.",
    masks="For --missing with --train: the masks that were used.",
)
def report(
    file: o.DataFile = None,
    *,
    config: Config,
    heads: Annotated[bool, flag("--heads", "Show every attention head too.")] = False,
    failures: Annotated[int, option(FAILURES, "N", min=0)] = 0,
    kind: Annotated[str, option(f"How to show it: {listed(*REPORTS)}.", None, "--format")] = "text",
    junit: Annotated[Path | None, option("Write the cases as JUnit XML too.", "FILE")] = None,
    fail_under_test: Annotated[list[str] | None, option(LIMIT, "NAME=PERCENT")] = None,
    missing: Annotated[bool, flag("--missing", MISSING)] = False,
    model: Annotated[str | None, option("For --missing: the model, if it has moved.")] = None,
    texts: Annotated[int, option("For --missing: training texts to print.", "N", min=1)] = 10,
    output: Annotated[Path | None, written(REACHING)] = None,
) -> int:
    """Print the coverage in a data file: by test, by layer and in total."""
    if kind not in REPORTS:
        raise SettingsError(f"there is no format {kind!r}; there are {listed(*REPORTS)}.")
    if output is not None and not missing:
        raise SettingsError("-o writes texts that reach what is missing: give --missing too.")
    view = _view(file, config, heads=heads, failures=failures)
    limits = _parsed_limits(fail_under_test or [], view.result)
    _write(kind, view, None)
    if junit is not None:
        _write("junit", view, junit)
    if missing:
        show_missing(view, file or Path(config.output), config, model, texts, output)
    return exit_code(view.result, config, limits)


@o.configured(*o.CHECKING, "adds_little")
def json(
    file: o.DataFile = None,
    output: Annotated[Path | None, written("The file to write; the screen if not given.")] = None,
    texts: Annotated[bool, flag("--texts", "Add a row for every text.")] = False,
    pretty: Annotated[bool, flag("--pretty", "Indent, for people.")] = False,
    *,
    config: Config,
) -> int:
    """Write the coverage in a data file as JSON."""
    view = _view(file, config, texts=texts, pretty=pretty)
    _write("json", view, output)
    return exit_code(view.result, config)


@o.configured("adds_little")
def html(
    file: o.DataFile = None,
    output: o.Folder = Path("mncover-html"),
    since: Annotated[Path | None, option("An earlier data file, to show changes.", "FILE")] = None,
    *,
    config: Config,
    quiet: o.Quiet = False,
) -> None:
    """Write the report of a data file as web pages that open from disk."""
    path = file or Path(config.output)
    earlier = None if since is None else (since, Coverage.load(since).data)
    data = Coverage.load(path).data
    first = write_html(data, path, output, config.adds_little / 100, earlier)
    if not quiet:
        print(f"The report is {first}; open it in a browser.")


def combine(
    files: Annotated[list[Path], argument("Data files to combine.", "FILES")],
    output: Annotated[Path, written("The data file to write.")],
    quiet: o.Quiet = False,
) -> None:
    """Combine data files of the same model, ranges and settings into one file."""
    united = Coverage.load(files[0])
    for path in files[1:]:
        try:
            united |= Coverage.load(path)
        except MismatchError as error:
            raise MismatchError(f"{files[0]} and {path}: {error}") from error
    united.save(output)
    if not quiet:
        found = united.result().criteria.values()
        shares = [f"{c.title} {display_percent(c.tally.share_of_reachable)} %" for c in found]
        print(f"Combined {len(files)} files into {output}: {', '.join(shares)}.")


def _view(file: Path | None, config: Config, **shown: Any) -> View:
    """Read a data file; refuse a criterion that it does not have before anything is printed."""
    cov = Coverage.load(file or config.output)
    cov.data.identity.metric(config.metric)
    return View(cov.data, cov.result(config.adds_little / 100), config.sort, **shown)


def _write(kind: str, view: View, path: Path | None) -> None:
    """Write a report to a file, or to the screen."""
    if path is None:
        REPORTS[kind].show(view, Console())
        return
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        REPORTS[kind].show(view, Console(file=file))


def exit_code(result: Result, config: Config, limits: Mapping[str, float] | None = None) -> int:
    """Return 2, and say why, if coverage is below what was asked for in total or of a test."""
    criterion, of_all = result.identity.metric(config.metric)
    bins = "all" if of_all else "the reachable"

    def share_of(tally: Tally) -> float:
        return tally.share if of_all else tally.share_of_reachable

    whole = share_of(result.criteria[criterion.name].tally)
    checks = [("", whole, "--fail-under", config.fail_under)]
    for context in result.contexts:
        share, limit = share_of(context.by[criterion.name].tally), (limits or {}).get(context.name)
        checks.append((f"{context.name}: ", share, "--fail-under-test", limit))
    failed = [check for check in checks if check[3] is not None and below(check[1], check[3])]
    for where, share, asked, limit in failed:
        percent = display_percent(share)
        line = f"{where}{criterion.title} {percent} % of {bins} bins is below {asked} {limit:g} %."
        o.speaker(quiet=False)(line)
    return 2 if failed else 0


def _parsed_limits(given: Sequence[str], result: Result) -> dict[str, float]:
    """Return the least percentage of each test named; refuse a test that was not run."""
    limits: dict[str, float] = {}
    known = [context.name for context in result.contexts]
    for text in given:
        match = re.fullmatch(r"(.+)=(\d+(?:\.\d*)?)", text, re.DOTALL)
        if match is None or float(match[2]) > 100:
            raise SettingsError(f"a test's limit is NAME=PERCENT, 0 to 100, got {text!r}.")
        if match[1] not in known:
            raise SettingsError(f"no test {match[1]!r} was run; there are {listed(*known)}.")
        limits[match[1]] = float(match[2])
    return limits
