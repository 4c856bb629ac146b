"""`mncover cache`: what is kept between runs, and how to be rid of it. No torch here."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from mncover.cli import options as o
from mncover.cli.options import option
from mncover.data.cache import clear as delete
from mncover.data.cache import entries
from mncover.data.files import cache_folder
from mncover.data.places import in_bytes
from mncover.report.screen import Screen, say
from mncover.report.tables import plain_table

app = typer.Typer(help="List what the cache holds, or delete it.", invoke_without_command=True)
OLDER = "Only what was not used for this many days."


@app.callback()
def cache(context: typer.Context) -> None:
    """List what the cache holds, or delete it."""
    if context.invoked_subcommand is not None:
        return
    found, console = entries(), Screen()
    if found:
        table = plain_table("Kind", "What", "Size", "Used", left=2)
        for entry in found:
            used = (
                f"{entry.days:,} days ago" if entry.days > 1 else ("today", "1 day ago")[entry.days]
            )
            table.add_row(entry.kind, Text(entry.about()), in_bytes(entry.size), used)
        console.print(table)
    size = in_bytes(sum(entry.size for entry in found))
    line = f"{cache_folder()} holds {size}."
    hint = " To delete it: mncover cache clear" if found else ""
    console.print(line + hint, markup=False, highlight=False, soft_wrap=True)


@app.command()
def clear(
    older_than: Annotated[float, option(OLDER, "DAYS", min=0)] = 0,
    quiet: o.Quiet = False,
) -> None:
    """Delete what the cache holds; what is needed again is made again."""
    chosen = [entry for entry in entries() if entry.days >= older_than]
    delete(chosen)
    if not quiet:
        size = in_bytes(sum(entry.size for entry in chosen))
        say(f"Deleted {size} from {cache_folder()}.")
