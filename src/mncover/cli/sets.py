"""`mncover curve` and `mncover compare`: how lists of texts cover a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.errors import SettingsError
from mncover.types import Text


@o.configured(*o.MEASURING, "context")
def curve(
    model: o.Model,
    suite: o.Suite,
    *,
    config: Config,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this test or context; repeatable. [all]"),
    ] = None,
    texts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N texts of each.")
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Keep a text that adds more; repeatable. [0 1e-4 … 0.1]"),
    ] = None,
    shuffles: o.Shuffles = 5,
    output: o.Folder = None,
    quiet: o.Quiet = False,
) -> int:
    """Draw how coverage grows with the number of texts, unfiltered and filtered."""
    ...
    return 0
