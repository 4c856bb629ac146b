"""`mncover report`, `json`, `html` and `combine`: what data files hold. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.coverage import Coverage
from mncover.data.display import display_percent
from mncover.data.files import replacing
from mncover.data.results import Result, below
from mncover.errors import MismatchError, SettingsError
from mncover.report import REPORTS
from mncover.report.html import write_html
from mncover.report.view import View


@o.configured(*o.CHECKING, "sort", "redundant")
def report(
    file: o.DataFile = None,
    *,
    config: Config,
    heads: Annotated[bool, typer.Option("--heads", help="Show every attention head too.")] = False,
    failures: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Show up to N failing cases of each test, with their texts."
        ),
    ] = 0,
    kind: Annotated[
        str, typer.Option("--format", help=f"How to show it: {', '.join(REPORTS)}.")
    ] = "text",
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the cases of a test suite as JUnit XML too."),
    ] = None,
    fail_under_test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PERCENT",
            help="Exit with 2 if this test's coverage is below this; repeatable.",
        ),
    ] = None,
) -> int:
    """Print the coverage in a data file: by context, by layer and in total."""
    if kind not in REPORTS:
        raise SettingsError(f"there is no format {kind!r}; there are {', '.join(REPORTS)}.")
    view = _view(file, config, heads=heads, failures=failures)
    limits = _parsed_limits(fail_under_test or [], view.result)
    REPORTS[kind].show(view, Console())
    if junit is not None:
        _write("junit", view, junit)
    return exit_code(view.result, config, limits)


@o.configured(*o.CHECKING, "redundant")
def json_report(
    file: o.DataFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file to write; the screen if not given."
        ),
    ] = None,
    texts: Annotated[bool, typer.Option("--texts", help="Add a row for every text.")] = False,
    pretty: Annotated[bool, typer.Option("--pretty", help="Indent, for people.")] = False,
    *,
    config: Config,
) -> int:
    """Write the coverage in a data file as JSON."""
    view = _view(file, config, texts=texts, pretty=pretty)
    if output is None:
        REPORTS["json"].show(view, Console())
    else:
        _write("json", view, output)
    return exit_code(view.result, config)


@o.configured("redundant")
def html(
    file: o.DataFile = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="The folder to write; an earlier report in it is replaced.",
        ),
    ] = Path("mncover-html"),
    since: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An earlier data file, to show what has changed."),
    ] = None,
    *,
    config: Config,
    quiet: o.Quiet = False,
) -> int:
    """Write the report of a data file as web pages that open from disk."""
    path = file or Path(config.output)
    earlier = None if since is None else (since, Coverage.load(since).data)
    data = Coverage.load(path).data
    first = write_html(data, path, output, config.redundant / 100, earlier)
    if not quiet:
        print(f"The report is {first}; open it in a browser.")
    return 0


def combine(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Data files to combine.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The data file to write.")
    ],
    quiet: o.Quiet = False,
) -> int:
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
        shares = ", ".join(f"{one.title} {display_percent(one.tally.share)} %" for one in found)
        print(f"Combined {len(files)} files into {output}: {shares}.")
    return 0


def _view(file: Path | None, config: Config, **shown: Any) -> View:
    """Read a data file; refuse a criterion that it does not have before anything is printed."""
    cov = Coverage.load(file or config.output)
    cov.data.identity.criterion(config.metric or cov.data.identity.main.name)
    return View(cov.data, cov.result(config.redundant / 100), config.sort, **shown)


def _write(kind: str, view: View, path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        REPORTS[kind].show(view, Console(file=file))


def exit_code(result: Result, config: Config, limits: Mapping[str, float] | None = None) -> int:
    """Return 2, and say why, if coverage is below what was asked for in total or of a test."""
    name = config.metric or result.main.name
    title, lines = result.criteria[name].title, []
    checks = [("", result.share(name), "--fail-under", config.fail_under)]
    for context in result.contexts:
        limit = (limits or {}).get(context.name)
        checks.append((f"{context.name}: ", context.share(name), "--fail-under-test", limit))
    for where, share, option, limit in checks:
        if limit is not None and below(share, limit):
            lines.append(
                f"{where}{title} {display_percent(share)} % is below {option} {limit:g} %."
            )
    for line in lines:
        Console(stderr=True).print(line, markup=False, soft_wrap=True)
    return 2 if lines else 0


def _parsed_limits(given: Sequence[str], result: Result) -> dict[str, float]:
    """Return the least percentage of each test named; refuse a test that was not run."""
    limits: dict[str, float] = {}
    known = [context.name for context in result.contexts]
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            limits[name] = float(value)
        except ValueError:
            raise SettingsError(f"a test's limit is NAME=PERCENT, got {text!r}.") from None
        if not name or not 0 <= limits[name] <= 100:
            raise SettingsError(f"a test's limit is NAME=PERCENT, 0 to 100, got {text!r}.")
        if name not in known:
            raise SettingsError(f"no test {name!r} was run; there are {', '.join(known)}.")
    return limits
