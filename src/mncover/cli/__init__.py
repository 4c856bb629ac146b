"""The command line: a thin shell around the library. Importing it does not import torch.

A command prints what a person needs, and an error is one line. Exit codes: 0 fine, 1 error,
2 a gate such as `--max-failing` or `--fail-under` does not hold, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mncover.cli import (
    augment,
    cache,
    criteria,
    debug,
    demo,
    found,
    gaps,
    masks,
    next,
    plan,
    reports,
    reproduce,
    run,
    select,
    sets,
    suite,
)
from mncover.cli.options import Command
from mncover.cli.signals import Watch, interrupted, watching
from mncover.data.harmless import on_a_line
from mncover.data.writing import protecting
from mncover.errors import MnCoverError, elided, needs_run
from mncover.report.screen import encodable, say, tell, warnings_in_a_line
from mncover.types import __version__

OK, ERROR, INTERRUPTED = 0, 1, 130

app = typer.Typer(
    name="mncover",
    help="coverage.py for transformers: how thoroughly do texts exercise the inside of a model?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error was raised, for a bug report.")
    ] = False,
) -> None:
    if debug and context.invoked_subcommand is not None:
        context.find_root().obj.append(True)
    if version:
        say(f"mncover {__version__}")
        raise typer.Exit(0)


_COMMANDS: tuple[Command, ...] = (
    *(
        run.run,
        reports.report,
        reports.json,
        reports.html,
        reports.combine,
        select.select,
        plan.plan,
    ),
    *(
        next.next,
        found.found,
        gaps.gaps,
        sets.curve,
        sets.compare,
        augment.augment,
        augment.transform,
        masks.masks,
        criteria.criteria,
    ),
    demo.demo,
)
for _command in _COMMANDS:
    app.command()(_command)
for _group in (suite, reproduce, cache, debug):
    app.add_typer(_group.app, name=_group.__name__.rpartition(".")[2])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    # A suite is a million objects that stay: looking among them for garbage again and again, as
    # Python does after every 700 new ones, takes longer than reading and judging the suite.
    gc.set_threshold(100_000)
    command = typer.main.get_command(app)
    args = None if arguments is None else list(arguments)
    debug: list[bool] = []  # not empty once the option was met
    with encodable(), warnings_in_a_line(), watching() as watch:
        try:
            with needs_run(), protecting():
                found = command.main(
                    args=args, prog_name="mncover", standalone_mode=False, obj=debug
                )
            code = found if isinstance(found, int) else OK
            if watch.came and code == INTERRUPTED:  # Typer's own answer to Ctrl-C
                code = interrupted(watch)
        except KeyboardInterrupt:
            code = interrupted(watch)
        except Exception as error:
            if debug:
                tell("".join(traceback.format_exception(error)))
            code = interrupted(watch) if watch.came else _explain(error)
        watch.over = True
        return _flushed(code)


def _flushed(code: int) -> int:
    """Return the exit code once everything is printed; a full disk may be in the way."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == OK and not isinstance(error, BrokenPipeError):
            return _fail(f"standard output: {error.strerror}.")
        return code or ERROR
    return code


_BUG = "This is a bug: please report this with the output of `mncover --debug …`, the same command."


def _explain(error: Exception) -> int:
    """Say in one line what went wrong, also if nobody foresaw it."""
    if isinstance(error, MnCoverError):
        return _fail(str(error))
    if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
        return ERROR
    if isinstance(error, OSError):
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}.")
    if isinstance(error, MemoryError):
        return _fail("out of memory: try a smaller --max-length, --bins or --batch-size.")
    # Typer may bring its own copy of click, so its exceptions are recognised by name.
    if type(error).__name__ == "Abort":
        return interrupted(Watch())
    if hasattr(error, "format_message"):
        return _explain_usage(error)
    return _fail(elided(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}. {_BUG}"))


def _explain_usage(error: Any) -> int:
    """Say what is wrong with a command line, or show the help if there was none."""
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return OK
    context = getattr(error, "ctx", None)
    hint = f" See: {context.command_path} --help" if context is not None else ""
    end = "" if message.endswith((".", "?", "!")) else "."
    return _fail(f"{message}{end}{hint}")


def _fail(message: str) -> int:
    tell(f"mncover: {on_a_line(message)}")
    return ERROR
