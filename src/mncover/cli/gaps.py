"""`mncover gaps`: which texts of the traffic exercise the model as no test does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mncover.cli import options as o
from mncover.cli.checks import check_measuring, check_paths
from mncover.cli.gates import GATE_BROKEN
from mncover.cli.options import Config, option, written
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.results import below
from mncover.errors import SettingsError
from mncover.report.gaps import check_flagged, print_gaps, to_json, write_flagged
from mncover.report.html_gaps import write_page
from mncover.report.screen import Screen, in_json, say
from mncover.selection.gap_groups import Gaps
from mncover.selection.journal import journal_path
from mncover.suites.formats import field_names, is_test_suite
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.suites.traffic import MOST, read_traffic
from mncover.types import display_percent

DATA_FILE = ".mncover"
TRAFFIC = "What people sent to the model: a file of texts, one record a line."
SPACE = "Where texts are compared: middle, last, the number of a layer, or an encoder's folder."
FDR = "How many of the flagged texts may be false alarms."
LIMIT = "Look at N lines, drawn at random."
BELOW = "Exit with 2 if less of the traffic is within reach of a test."
OUTPUT = "Write the flagged texts, to label or for `mncover next`: .jsonl, .csv, .tsv or .mncover."


@o.configured(
    *("train", "train_limit", *o.FIELDS, "max_length"),
    *("batch_size", "device", "device_map", "dtype", *o.SPREAD),
    train="Training texts: say which flagged texts are like these.",
)
def gaps(
    model: o.Model,
    suite: o.Suite,
    traffic: Annotated[Path, option(TRAFFIC, "FILE")],
    *,
    config: Config,
    space: Annotated[str, option(SPACE, "SPACE")] = "middle",
    fdr: Annotated[str, option(FDR, "PERCENT")] = "10%",
    limit: Annotated[int, option(LIMIT, "N", min=1)] = MOST,
    seed: o.Seed = 0,
    fail_under: Annotated[float | None, option(BELOW, "PERCENT", min=0, max=100)] = None,
    output: Annotated[Path | None, written(OUTPUT)] = None,
    html: Annotated[Path | None, option("Write a web page with a map.", "FILE")] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int | None:
    """Find the texts of traffic that no test is like, and the tests that no traffic is like."""
    rate = _rate(fdr)
    _check(model, config, suite, traffic, output, html)
    tests = o.suite_texts(suite, config)
    given = read_traffic(traffic, _fields(suite, traffic, config), limit, seed)
    train = None if config.train is None else o.train_texts(config)
    cov = o.coverage_for(model, config, quiet)
    where = _space(space, config, quiet)
    found = cov.gaps(tests, given, train, space=where, fdr=rate, seed=seed)
    if output is not None and found.flagged:
        _write(cov, found, output, config)
    if html is not None:
        write_page(found, html)
    if as_json:
        say(in_json(to_json(found)))
    elif not quiet:
        _tell(found, output, html)
    return _gate(found, fail_under)


def _rate(given: str) -> float:
    """Return a rate of false alarms that people write as 10% or 10."""
    try:
        rate = float(given.strip().removesuffix("%")) / 100
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1:
        raise SettingsError(f"--fdr must be a percentage such as 10%, got {given!r}.")
    return rate


def _check(
    model: str,
    config: Config,
    suite: Path,
    traffic: Path,
    output: Path | None,
    html: Path | None,
) -> None:
    check_measuring(model, config, suite, traffic, file=output)
    check_paths(file=html)
    if html is not None and html.suffix not in (".html", ".htm"):
        raise SettingsError(f"{html}: a page must end with .html.")
    if output is None:
        return
    if output.suffix != DATA_FILE:
        check_flagged(output)
    elif config.train is None:
        raise SettingsError(f"{output}: a data file needs the training texts: give --train FILE.")
    if journal_path(output).exists():
        raise SettingsError(
            f"{journal_path(output)} holds verdicts on {output}: choose another name."
        )


def _fields(suite: Path, traffic: Path, config: Config) -> Fields:
    """Return the fields of the traffic: those asked for, unless only the suite has them."""
    asked = {name for name in (config.text, config.pair) if name is not None}
    if is_test_suite(suite) or asked <= field_names(traffic):
        return Fields(config.text, config.pair)
    return Fields()


def _space(asked: str, config: Config, quiet: bool) -> str | Coverage:
    """Return the space as it was asked for, or the encoder that a folder holds."""
    if asked in ("middle", "last") or asked.isdigit() or not Path(asked).is_dir():
        return asked
    return o.coverage_for(asked, config, quiet)


def _write(cov: Coverage, found: Gaps, output: Path, config: Config) -> None:
    if output.suffix != DATA_FILE:
        write_flagged(found, output)
        return
    from mncover.engine.recorder import answered

    cov.calibrate(o.train_texts(config))
    rows = Rows.make([one.text for one in found.flagged])
    datafile.write(answered(cov.engine, rows, cov.engine.identity()), output)


def _tell(found: Gaps, output: Path | None, html: Path | None) -> None:
    print_gaps(found, Screen())
    if output is not None and not found.flagged:
        say(f"{output} was not written: no text is flagged.")
    elif output is not None:
        then = (
            f"judge them with: mncover next {output} --review"
            if output.suffix == DATA_FILE
            else "fill in the field 'label' with the right class and run them with the suite, or "
            f"judge them with: mncover next {output} --review"
        )
        say(f"{output}: {len(found.flagged):,} texts; {then}.")
    if html is not None:
        say(f"The page is {html}; open it in a browser.")


def _gate(found: Gaps, least: float | None) -> int | None:
    if least is None or not below(found.within.value, least):
        return None
    share = display_percent(found.within.value, 1)
    Screen(stderr=True).print(
        f"{share} % of the traffic is within reach of a test, less than {least:g} %.",
        highlight=False,
    )
    return GATE_BROKEN
