"""Kill a command in a process of its own, give it again, and compare with an undisturbed one.

Processes are forked off one that has imported everything. They kill themselves before, or after, a
write: whenever a file is flushed to disk, renamed or deleted.
"""

from __future__ import annotations

import datetime
import io
import os
import random
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mncover.coverage
import mncover.engine.recorder  # noqa: F401  everything is imported before processes fork
from mncover.cli import main
from mncover.data import files, identity
from mncover.engine import measure, ranges, windows
from mncover.suites.formats import save_suite
from tests.folders import suite_of, write_material

HERE, CACHE = "work", "cache"
WRITES = ("fsync", "replace", "unlink")
MEASURED = ("--train", "train.txt", "--max-length", "12", "-q")
COMMANDS: dict[str, list[str]] = {
    "run": ["run", "model", "tests.jsonl", *MEASURED],
    "masks": ["masks", "model", "--train", "train.txt", "--set", "epochs=2", "--max-length", "12"],
    "augment": ["augment", "model", "seeds.txt", *MEASURED, "-o", "new.jsonl"],
    "html": ["html", "old.mncover", "-o", "pages", "-q"],
    "select": ["select", "old.mncover", "--budget", "1", "-q", "-o", "less.jsonl"],
    "suite convert": ["suite", "convert", "tests.jsonl", "-o", "converted.jsonl", "-q"],
}
COMMANDS["augment"] += [
    "--transform",
    "WordSwapQWERTY",
    "--transform",
    "WordSwapRandomCharacterDeletion",
]
COMMANDS["augment"] += ["--similarity", "-1", "--max-iter", "2"]


@dataclass(frozen=True)
class Kill:
    """Where a process kills itself: before or after its write with a number; None for never."""

    number: int | None = None
    after: bool = False


def prepare(folder: Path) -> Path:
    """Make what the commands read, files of a user among it, and results of an earlier call."""
    work = folder / HERE
    work.mkdir(parents=True)
    write_material(work)
    save_suite(suite_of(), work / "tests.jsonl")
    lines = (work / "train.txt").read_text().splitlines()
    (work / "seeds.txt").write_text("\n".join(lines[:6]))
    done, _ = call(folder, [*COMMANDS["run"], "-o", "old.mncover"])
    assert done == 0
    assert call(folder, COMMANDS["html"])[0] == 0
    (work / "pages" / "tests" / "mine.txt").write_text("of a user")
    (work / ".run.mncover.abcdefgh.tmp").write_text("of a user")
    with (work / "pages" / ".mncover-html").open("a") as mark:
        mark.write("tests/0900.html\n")
    (work / "pages" / "tests" / "0900.html").write_text("of an earlier report")
    shutil.rmtree(folder / CACHE)
    return folder


def call(folder: Path, arguments: list[str], kill: Kill | None = None) -> tuple[int, int]:
    """Run a command in a process; return how it ended (negative: a signal) and its writes."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        code = 70
        with suppress(BaseException):
            code = _in_child(folder, arguments, kill or Kill(), write)
        os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        writes = len(pipe.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), writes


def _in_child(folder: Path, arguments: list[str], kill: Kill, pipe: int) -> int:
    os.chdir(folder / HERE)
    os.environ["MNCOVER_CACHE_DIR"] = str(folder / CACHE)
    sys.stdout = sys.stderr = io.StringIO()
    # Small windows, a checkpoint after each, and the same name and time for every run.
    windows.WINDOW_TEXTS, files.SECONDS, files.SHARE = 8, 0, 0
    measure.PIECE = 8
    ranges.calibrate.__defaults__ = (None, 7)
    secrets.token_hex = lambda nbytes=None: "0" * 16
    start = datetime.datetime(2022, 5, 1, tzinfo=datetime.timezone.utc)
    clock = SimpleNamespace(now=lambda zone: start)
    setattr(identity, "datetime", SimpleNamespace(datetime=clock, timezone=datetime.timezone))  # noqa: B010
    for name in WRITES:
        setattr(os, name, _counted(getattr(os, name), kill, pipe))
    return main(arguments)


def _counted(write: Callable[..., Any], kill: Kill, pipe: int) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        os.write(pipe, b".")
        _COUNT[0] += 1
        mine = _COUNT[0] == kill.number
        if mine and not kill.after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = write(*arguments, **named)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return counted


_COUNT = [0]


# How many texts a search has run is not an outcome: what was guessed before a kill is run again.
_WORK = re.compile(rb'"texts_run": \d+')


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _WORK.sub(b"", path.read_bytes()) for path in found}


class Trial:
    """A command, what it does undisturbed, and how often."""

    def __init__(self, name: str, start: Path, place: Path) -> None:
        self.arguments, self.start, self.place = COMMANDS[name], start, place
        self.number = 0
        whole = self._fresh()
        code, self.writes = call(whole, self.arguments)
        assert code == 0, f"{name} ends with {code}"
        self.expected = contents(whole)

    def _fresh(self) -> Path:
        folder = self.place / str(self.number)
        self.number += 1
        shutil.copytree(self.start, folder)
        return folder

    def kill_at(self, *kills: Kill) -> str:
        """Kill the command at writes, one call after the other; give it again; say what differs."""
        folder = self._fresh()
        for kill in kills:
            code, _ = call(folder, self.arguments, kill)
            if code not in (-signal.SIGKILL, 0):  # a later call may have fewer writes
                return f"{kill}: ended with {code}"
        code, _ = call(folder, self.arguments)
        found = contents(folder)
        shutil.rmtree(folder)
        if code:
            return f"{kills}: given again, it ended with {code}"
        names = {*self.expected, *found}
        wrong = sorted(n for n in names if self.expected.get(n) != found.get(n))
        return f"{kills}: {', '.join(wrong)} differ" if wrong else ""

    def every(self) -> list[tuple[Kill, ...]]:
        """Return a kill before and after every write."""
        return [(Kill(n, after),) for n in range(1, self.writes + 1) for after in (False, True)]

    def at_random(self, n: int, seed: int) -> list[tuple[Kill, ...]]:
        """Return kills of one to three calls in a row."""
        rng = random.Random(seed)

        def kill() -> Kill:
            return Kill(rng.randint(1, self.writes), rng.random() < 0.5)

        return [tuple(kill() for _ in range(rng.randint(1, 3))) for _ in range(n)]
