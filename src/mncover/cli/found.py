"""`mncover found`: what judging has found so far. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.options import Config, option
from mncover.errors import SettingsError
from mncover.report.findings import found_by, print_found, to_json
from mncover.report.html_findings import write_page
from mncover.report.screen import Screen, in_json, say
from mncover.selection.finder import Finder
from mncover.selection.journal import journal_path


@o.configured()
def found(
    file: o.DataFile = None,
    html: Annotated[Path | None, option("Write a web page instead.", "FILE")] = None,
    *,
    config: Config,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Show the failures that judging has found, and how many are left."""
    path = file or Path(config.output)
    if html is not None and html.suffix not in (".html", ".htm"):
        raise SettingsError(f"{html}: a page must end with .html.")
    check_paths(file=html, reads=(path,))
    finder = Finder(path, journal=journal_path(path))
    shown = found_by(finder, path)
    if html is not None:
        write_page(shown, html)
        if not quiet and not as_json:
            say(f"The page is {html}; open it in a browser.")
    if as_json:
        say(in_json(to_json(shown)))
    elif html is None:
        print_found(shown, Screen(quiet=quiet))
