"""`mncover report`, `json`, `html` and `combine`: what data files hold. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from mncover.cli import options as o
from mncover.cli.gates import FailOnNew, Gates, Since, exit_code
from mncover.cli.options import Config, argument, flag, listed, option, written
from mncover.coverage import Coverage
from mncover.data.files import replacing
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.report import REPORTS
from mncover.report.columns import View
from mncover.report.html import write_html
from mncover.suites.judging import outline_of
from mncover.types import display_percent

FAILURES = "Show up to N failing cases of each test, with their texts."
SHOWS_CHANGES = ("text", "markdown", "github")  # the formats that list cases that fail newly


@o.configured(*o.CHECKING, "sort", "redundant")
def report(
    file: o.DataFile = None,
    *,
    config: Config,
    heads: Annotated[bool, flag("--heads", "Show every attention head too.")] = False,
    failures: Annotated[int, option(FAILURES, "N", min=0)] = 0,
    kind: Annotated[str, option(f"How to show it: {listed(*REPORTS)}.", None, "--format")] = "text",
    junit: Annotated[Path | None, option("Write the cases as JUnit XML too.", "FILE")] = None,
    since: Since = None,
    fail_on_new_failures: FailOnNew = False,
) -> int:
    """Print the coverage in a data file: by context, by layer and in total."""
    if kind not in REPORTS:
        raise SettingsError(f"there is no format {kind!r}; there are {listed(*REPORTS)}.")
    path = file or Path(config.output)
    view = _view(path, config, heads=heads, failures=failures)
    gates = Gates.of(config, _tests(view), since, fail_on_new_failures)
    view = gates.checked(view, path)
    if junit is not None:
        _write("junit", view, junit, path)
    _write(kind, view, None, path)
    return exit_code(view, listed=kind in SHOWS_CHANGES)


@o.configured(*o.CHECKING, "redundant")
def json(
    file: o.DataFile = None,
    output: Annotated[Path | None, written("The file to write; the screen if not given.")] = None,
    texts: Annotated[bool, flag("--texts", "Add a row for every text.")] = False,
    pretty: Annotated[bool, flag("--pretty", "Indent, for people.")] = False,
    *,
    config: Config,
) -> int:
    """Write the coverage in a data file as JSON."""
    path = file or Path(config.output)
    view = _view(path, config, texts=texts, pretty=pretty)
    view = Gates.of(config, _tests(view)).checked(view, path)
    _write("json", view, output, path)
    return exit_code(view, listed=True)


@o.configured("redundant")
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
    first = write_html(data, path, output, config.redundant / 100, earlier)
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
        shares = ", ".join(f"{one.title} {display_percent(one.tally.share)} %" for one in found)
        print(f"Combined {len(files)} files into {output}: {shares}.")


def _view(path: Path, config: Config, **shown: Any) -> View:
    """Read a data file; refuse a criterion that it does not have before anything is printed."""
    cov = Coverage.load(path)
    cov.data.identity.criterion(config.metric or cov.data.identity.main.name)
    return View(cov.data, cov.result(config.redundant / 100), config.sort, **shown)


def _tests(view: View) -> list[str] | None:
    """Return the names of all tests, also of those not run; None if they are not known."""
    data = view.data
    found = {run: outline_of(data, run.id) for run in data.runs}
    if any(run.part and outline is None for run, outline in found.items()):
        return None
    tests = [test.name for outline in found.values() if outline for test in outline.tests]
    return list(dict.fromkeys([*data.contexts, *tests]))


def _write(kind: str, view: View, path: Path | None, data_file: Path) -> None:
    """Write a report to a file, or to the screen; an error names the data file."""
    try:
        if path is None:
            REPORTS[kind].show(view, Console())
            return
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            REPORTS[kind].show(view, Console(file=file))
    except DataFileError as error:
        raise DataFileError(f"{data_file}: {str(error).rstrip('.')}.") from error
