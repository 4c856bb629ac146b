"""The command line: a thin shell around the library.

A command prints what a person needs, and an error is one line. Exit codes: 0 fine, 1 error,
2 coverage below `--fail-under`, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from mncover.cli.commands import app
from mncover.errors import MnCoverError

OK, ERROR, BELOW, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(
            args=None if arguments is None else list(arguments),
            prog_name="mncover",
            standalone_mode=False,
        )
    except MnCoverError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted.")
        return INTERRUPTED
    except Exception as error:
        # A mistake on the command line. Typer brings its own copy of click on some versions, so
        # the exceptions are told by what they can do, not by their class.
        if type(error).__name__ == "Abort":
            return INTERRUPTED
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        hint = f" See: {context.command_path} --help" if context is not None else ""
        return _fail(f"{error.format_message()}{hint}")
    return code if isinstance(code, int) else OK


def _fail(message: str) -> int:
    print(f"mncover: {message}", file=sys.stderr)
    return ERROR
