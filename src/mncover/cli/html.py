"""`mncover html`: the report as web pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mncover.cli import options as o
from mncover.cli.config import load_config
from mncover.data import datafile


def html(
    file: o.DataFile = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder to write; an earlier one is replaced."),
    ] = Path("mncover-html"),
    since: Annotated[
        Path | None, typer.Option(help="An earlier data file: what changed since then?")
    ] = None,
    redundant: o.Redundant = None,
    quiet: o.Quiet = False,
) -> int:
    """Write the report of a data file as web pages that open from disk."""
    config = load_config(Path.cwd()).overridden(
        output=None if file is None else str(file), redundant=redundant
    )
    from mncover.report.html import write_html

    path = Path(config.output)
    earlier = None if since is None else (since, datafile.read(since))
    first = write_html(datafile.read(path), path, output, config.redundant / 100, earlier)
    if not quiet:
        print(f"The report is {first}; open it in a browser.")
    return 0
