"""What people read on a screen or in the log of a build: the one way to print.

Whatever a file of a stranger holds is shown, never obeyed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mncover.data.harmless import in_build_log, on_a_line, on_build_server, on_screen
from mncover.types import visible


class Screen(Console):
    """A console that takes nothing in a text for markup or for a command to a terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed, with control characters written out."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    @property
    def file(self) -> IO[str]:
        """Where to print to."""
        found = super().file
        to_log = self._file is None and on_build_server()
        return _Log(found) if to_log else found  # type: ignore[return-value]

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new


class _Log:
    """The log of a build: lines that would be commands there are not."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(in_build_log(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def say(line: str, error: bool = False) -> None:
    """Print a line, on standard error if it is not what was asked for."""
    print(on_screen(line), file=sys.stderr if error else sys.stdout)


def tell(line: str) -> None:
    """Tell people how it goes, on standard error."""
    say(line, error=True)


def print_verbatim(text: str, console: Console) -> None:
    """Print a text for programs, which is harmless already: nothing is wrapped or changed."""
    if not console.quiet:
        file = console.file
        print(text, file=file._file if isinstance(file, _Log) else file)


def in_json(content: Any, indent: int | None = 1) -> str:
    """Return plain values as JSON in ASCII; no line of it is a command to a build server."""
    return json.dumps(content, indent=indent).replace("\x7f", "\\u007f").replace("##", "#\\u0023")


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """In this block, a warning of mncover's own is one line on standard error."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *more: Any, **named: Any) -> None:
        if category is UserWarning:
            tell(on_a_line(f"mncover: warning: {message}"))
        else:
            before(message, category, *more, **named)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@contextmanager
def encodable() -> Iterator[None]:
    """In this block, what a terminal's encoding lacks is printed as a question mark."""
    changed = []
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and stream.errors != "replace":
            changed.append((stream, stream.errors))
            stream.reconfigure(errors="replace")
    try:
        yield
    finally:
        for stream, errors in changed:
            if not stream.closed:
                stream.reconfigure(errors=errors)
