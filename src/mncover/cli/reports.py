"""`mncover report`, `json`, `html` and `combine`: what data files hold. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.gates import FailOnNew, Gates, Since, exit_code
from mncover.cli.missing import show_missing
from mncover.cli.options import Config, argument, flag, listed, option, written
from mncover.coverage import Coverage
from mncover.data.writing import replacing
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.report import REPORTS, find_report
from mncover.report.columns import View
from mncover.report.html import write_html
from mncover.report.screen import Screen, say
from mncover.suites.judging import outline_of
from mncover.types import display_percent

FAILURES = "Show up to N failing cases of each test, with their texts."
MISSING = "Show what no text reaches; with --train, also the training texts that would."
REACHING = "For --missing: write these training texts as a suite (.jsonl) to be labelled."
SHOWS_CHANGES = ("text", "markdown", "github")  # the formats that list cases that fail newly


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
    since: Since = None,
    fail_on_new_failures: FailOnNew = False,
    missing: Annotated[bool, flag("--missing", MISSING)] = False,
    model: Annotated[str | None, option("For --missing: the model, if it has moved.")] = None,
    texts: Annotated[int, option("For --missing: training texts to print.", "N", min=1)] = 10,
    output: Annotated[Path | None, written(REACHING)] = None,
) -> int:
    """Print the coverage in a data file: by test, by layer and in total."""
    find_report(kind)
    if output is not None and not missing:
        raise SettingsError("-o writes texts that reach what is missing: give --missing too.")
    path = file or Path(config.output)
    for one in (junit, output):
        check_paths(file=one, reads=(path, since))
    view = _view(path, config, heads=heads, failures=failures)
    gates = Gates.of(config, _tests(view), since, fail_on_new_failures)
    view = gates.checked(view, path)
    if junit is not None:
        _write("junit", view, junit, path)
    _write(kind, view, None, path)
    if missing:
        show_missing(view, path, config, model, texts, output)
    return exit_code(view, listed=kind in SHOWS_CHANGES)


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
    path = file or Path(config.output)
    check_paths(file=output, reads=(path,))
    view = _view(path, config, texts=texts, pretty=pretty)
    view = Gates.of(config, _tests(view)).checked(view, path)
    _write("json", view, output, path)
    return exit_code(view, listed=True)


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
    check_paths(folder=output, reads=(path, since))
    earlier = None if since is None else (since, Coverage.load(since).data)
    data = Coverage.load(path).data
    first = write_html(data, path, output, config.adds_little / 100, earlier)
    if not quiet:
        say(f"The report is {first}; open it in a browser.")


def combine(
    files: Annotated[list[Path], argument("Data files to combine.", "FILES")],
    output: Annotated[Path, written("The data file to write.")],
    quiet: o.Quiet = False,
) -> None:
    """Combine data files of the same model, ranges and settings into one file."""
    check_paths(file=output, reads=files)
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
        say(f"Combined {len(files)} files into {output}: {', '.join(shares)}.")


def _view(path: Path, config: Config, **shown: Any) -> View:
    """Read a data file; refuse a criterion that it does not have before anything is printed."""
    cov = Coverage.load(path)
    cov.data.identity.metric(config.metric)
    return View(cov.data, cov.result(config.adds_little / 100), config.sort, **shown)


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
            REPORTS[kind].show(view, Screen())
            return
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            REPORTS[kind].show(view, Screen(file=file))
    except DataFileError as error:
        raise DataFileError(f"{data_file}: {str(error).rstrip('.')}.") from error
