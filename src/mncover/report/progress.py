"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress as parts
from rich.text import Text

from mncover.report.screen import Screen


class _Speed(parts.ProgressColumn):
    """Texts per second."""

    def render(self, task: parts.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} texts/s", style="dim")


def is_shown(show: bool | None) -> bool:
    """Return whether there is a bar; None means: only if standard error is a terminal."""
    return sys.stderr.isatty() if show is None else show


@contextmanager
def bar(
    description: str, total: int, show: bool | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves a bar forward; the bar goes away when the work is done.

    `show` None means: only if standard error is a terminal. `done` is where the bar starts.
    """
    if not is_shown(show):
        yield lambda n: None
        return
    columns = (parts.BarColumn(), parts.MofNCompleteColumn(), _Speed(), parts.TimeRemainingColumn())
    shown: tuple[str | parts.ProgressColumn, ...] = ("{task.description}", *columns)
    with parts.Progress(*shown, console=Screen(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda n: progress.advance(task, n)
