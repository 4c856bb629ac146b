"""`mncover run`: calibrate, run a suite, write the data file, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Console

from mncover.cli import options as o
from mncover.cli.options import Config, flag
from mncover.cli.reports import exit_code
from mncover.coverage import Coverage
from mncover.data.identity import OF_ALL
from mncover.report.text import print_report
from mncover.suites.model import known_way

NO_SIGNATURES = "Do not keep a small vector of each text's inside, which `mncover next` needs."


@o.configured(
    *o.MEASURING, "label", "context", "classes", "output", *o.CHECKING, "sort", "adds_little"
)
def run(
    model: o.Model,
    suite: o.Suite,
    *,
    config: Config,
    no_signatures: Annotated[bool, flag("--no-signatures", NO_SIGNATURES)] = False,
    quiet: o.Quiet = False,
) -> int:
    """Run a suite through a model, write the data file and print the report."""
    cov = measure(model, suite, config, quiet, not no_signatures)
    result = cov.result(config.adds_little / 100)
    if not quiet:
        print_report(result, Console(), config.sort)
        print(f"The data file is {config.output}. To see it again: mncover report {config.output}")
    return exit_code(result, config)


def measure(
    model: str, suite: Path, config: Config, quiet: bool, signatures: bool = True
) -> Coverage:
    """Run a suite, or resume an interrupted run, and write the data file."""
    train = o.train_rows(config)
    texts = o.suite_texts(suite, config)
    cov = o.coverage_for(model, config, quiet, signatures)
    cov.engine.check((config.metric or cov.engine.main).removesuffix(OF_ALL))
    way = known_way(config.classes)
    return cov.run(texts, config.output, train, way, o.speaker(quiet))
