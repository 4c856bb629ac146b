"""Kill a command in a process of its own, give it again, and compare with an undisturbed one.

Processes are forked off one that has imported everything. They kill themselves before, or after, a
write: whenever a file is flushed to disk, renamed or deleted. Or they are killed, or asked to end,
after some time, wherever they are then.
"""

from __future__ import annotations

import datetime
import io
import math
import os
import random
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mncover.coverage
import mncover.engine.recorder  # noqa: F401  everything is imported before processes fork
from mncover.__main__ import leave
from mncover.cli import main
from mncover.data import files, identity
from mncover.data.writing import SUFFIX
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
    """Where a process kills itself: before or after its write with a number."""

    number: int
    after: bool = False


@dataclass(frozen=True)
class Stop:
    """The signal that a process gets after some seconds."""

    number: signal.Signals
    seconds: float

    @property
    def codes(self) -> tuple[int, ...]:
        """How the process may end: by the signal, or as the command line does on it."""
        asked = () if self.number is signal.SIGKILL else (128 + self.number,)
        return (-self.number, *asked)


@dataclass(frozen=True)
class Ended:
    """How a process ended (negative: by a signal), its writes, and what it said."""

    code: int
    writes: int
    said: str


def prepare(folder: Path) -> Path:
    """Make what the commands read, files of a user among it, and results of an earlier call."""
    work = folder / HERE
    work.mkdir(parents=True)
    write_material(work)
    save_suite(suite_of(), work / "tests.jsonl")
    lines = (work / "train.txt").read_text().splitlines()
    (work / "seeds.txt").write_text("\n".join(lines[:6]))
    assert call(folder, [*COMMANDS["run"], "-o", "old.mncover"]).code == 0
    assert call(folder, COMMANDS["html"]).code == 0
    (work / "pages" / "tests" / "mine.txt").write_text("of a user")
    (work / ".run.mncover.abcdefgh.tmp").write_text("of a user")
    with (work / "pages" / ".mncover-html").open("a") as mark:
        mark.write("tests/0900.html\n")
    (work / "pages" / "tests" / "0900.html").write_text("of an earlier report")
    shutil.rmtree(folder / CACHE)
    return folder


def call(folder: Path, arguments: list[str], end: Kill | Stop | None = None) -> Ended:
    """Run a command in a process, and perhaps end it."""
    said = folder.with_name(f"{folder.name}.said")
    said.touch()
    read, write = os.pipe()
    before = signal.signal(signal.SIGINT, leave)  # for the child, from its first moment
    child = os.fork()
    if not child:
        os.close(read)
        code = 70
        with suppress(BaseException), said.open("w", encoding="utf-8") as sys.stderr:
            os.dup2(sys.stderr.fileno(), 2)
            code = _in_child(folder, arguments, end, write)
        os._exit(code)
    signal.signal(signal.SIGINT, before)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        if isinstance(end, Stop):
            time.sleep(end.seconds)
            os.kill(child, end.number)  # it is there until somebody waits for it
        writes = len(pipe.read())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, writes, said.read_text(encoding="utf-8"))


def _in_child(folder: Path, arguments: list[str], end: Kill | Stop | None, pipe: int) -> int:
    os.chdir(folder / HERE)
    os.environ["MNCOVER_CACHE_DIR"] = str(folder / CACHE)
    sys.stdout = io.StringIO()
    # Small windows, a checkpoint after each, and the same name and time for every run.
    windows.WINDOW_TEXTS, files.SECONDS, files.SHARE = 8, 0, 0
    measure.PIECE = 8
    ranges.CHUNK = 7
    secrets.token_hex = lambda nbytes=None: "0" * 16
    start = datetime.datetime(2022, 5, 1, tzinfo=datetime.timezone.utc)
    clock = SimpleNamespace(now=lambda zone: start)
    setattr(identity, "datetime", SimpleNamespace(datetime=clock, timezone=datetime.timezone))  # noqa: B010
    for name in WRITES:
        kill = end if isinstance(end, Kill) else None
        setattr(os, name, _counted(getattr(os, name), kill, pipe))
    return main(arguments)


def _counted(write: Callable[..., Any], kill: Kill | None, pipe: int) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        os.write(pipe, b".")
        _COUNT[0] += 1
        mine = kill is not None and _COUNT[0] == kill.number
        if kill is not None and mine and not kill.after:
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


def temporaries(folder: Path) -> set[str]:
    """Return the names of files that are there only while another is written."""
    return {path.name for path in folder.rglob(f"*{SUFFIX}")}


class Trial:
    """A command, what it does undisturbed, how many writes and how long that takes."""

    def __init__(self, name: str, start: Path, place: Path) -> None:
        self.arguments, self.start, self.place = COMMANDS[name], start, place
        self.number = self.kills = 0
        self.seconds = math.inf
        for _ in range(2):  # the first may be slow
            whole, began = self._fresh(), time.monotonic()
            done = call(whole, self.arguments)
            assert done.code == 0, f"{name} ends with {done.code}: {done.said}"
            self.seconds = min(self.seconds, time.monotonic() - began)
        self.writes, self.expected = done.writes, contents(whole)

    def _fresh(self) -> Path:
        folder = self.place / str(self.number)
        self.number += 1
        shutil.copytree(self.start, folder)
        return folder

    def end_at(self, *ends: Kill | Stop) -> str:
        """End the command, one call after the other; give it again; say what is wrong."""
        folder = self._fresh()
        for end in ends:
            wrong = self._ended(folder, end)
            if wrong:
                return f"{end}: {wrong}"
        again = call(folder, self.arguments)
        found = contents(folder)
        shutil.rmtree(folder)
        if again.code:
            return f"{ends}: given again, it ended with {again.code}: {again.said}"
        names = {*self.expected, *found}
        differ = sorted(n for n in names if self.expected.get(n) != found.get(n))
        return f"{ends}: {', '.join(differ)} differ" if differ else ""

    def _ended(self, folder: Path, end: Kill | Stop) -> str:
        """Call the command and end it; say what is wrong with how it ended."""
        before = temporaries(folder)
        done = call(folder, self.arguments, end)
        self.kills += done.code != 0  # a later call may have fewer writes, or be done earlier
        codes = end.codes if isinstance(end, Stop) else (-signal.SIGKILL,)
        if done.code not in (0, *codes):
            return f"ended with {done.code}: {done.said}"
        if "Traceback" in done.said:
            return done.said
        if done.code >= 0:  # it had the time to clear up
            left = temporaries(folder) - before
            return f"{', '.join(left)} left behind" if left else ""
        return ""

    def every(self) -> list[tuple[Kill, ...]]:
        """Return a kill before and after every write."""
        return [(Kill(n, after),) for n in range(1, self.writes + 1) for after in (False, True)]

    def at_random(self, n: int, seed: int) -> list[tuple[Kill, ...]]:
        """Return kills of one to three calls in a row, each at a write."""
        rng = random.Random(seed)

        def kill() -> Kill:
            return Kill(rng.randint(1, self.writes), rng.random() < 0.5)

        return [tuple(kill() for _ in range(rng.randint(1, 3))) for _ in range(n)]

    def at_times(self, n: int, seed: int) -> list[tuple[Stop, ...]]:
        """Return ends of one to three calls in a row, each at any time, every second a kill."""
        rng = random.Random(seed)
        signals = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

        def stop() -> Stop:
            return Stop(rng.choice(signals), rng.uniform(0, self.seconds))

        return [tuple(stop() for _ in range(rng.randint(1, 3))) for _ in range(n)]
