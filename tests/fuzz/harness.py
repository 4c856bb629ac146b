"""Runs a kind of file through many damaged copies, each with limits on time and memory.

Cases run in a child process that is forked with everything imported. If one takes too long or ends
the process, the parent notes it and forks another child for the rest.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mncover.errors import LONGEST, MnCoverError
from tests.fuzz.mutations import Damage

SECONDS = 5.0  # of processor time
PATIENCE = 40.0  # seconds until a case is given up, on a machine that does other work too
MEMORY = 2 * 2**30

Read = Callable[[Path], None]


@dataclass(frozen=True)
class Kind:
    """A kind of file: how a sound one is made, how it is damaged, and what reads it.

    `make` writes sound files to a folder and returns the paths that are damaged; `read` is given
    the path of the damaged one, in a folder of its own with the others beside it.
    """

    make: Callable[[Path], Sequence[Path]]
    read: Read
    damages: Sequence[Damage]
    cost: float = 1.0  # of a case, compared with others: the short form has fewer of them


@dataclass
class Outcome:
    """What became of the cases of a kind."""

    cases: int = 0
    fine: int = 0
    refused: int = 0
    slowest: float = 0.0
    faults: dict[int, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The faults by their last line, the most frequent first."""
        last = Counter(fault.strip().splitlines()[-1][:150] for fault in self.faults.values())
        return "; ".join(f"{n} x {what}" for what, n in last.most_common())


class Escaped(Exception):
    """A command ended with an error that nobody foresaw."""


def case_of(kind: Kind, sources: Sequence[Path], seed: int, number: int) -> tuple[Path, bytes]:
    """Return which file a case damages, and the damaged content."""
    rng = random.Random(f"{seed} {number}")
    source = rng.choice(list(sources))
    content = source.read_bytes()
    try:
        return source, rng.choice(list(kind.damages))(content, rng)
    except (ValueError, KeyError, IndexError, OverflowError):  # it does not apply to this file
        from tests.fuzz.mutations import damaged_bytes

        return source, damaged_bytes(content, rng)


def run_case(kind: Kind, path: Path, content: bytes) -> str:
    """Read a damaged file; return "" if it was read, "refused", or what went wrong."""
    path.write_bytes(content)
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            kind.read(path)
    except MnCoverError as error:
        long = len(str(error)) > LONGEST
        return f"a message of {len(str(error))} characters" if long else "refused"
    except BaseException:
        return traceback.format_exc()
    return ""


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _child(
    kind: Kind, folder: Path, sources: Sequence[Path], seed: int, cases: range, pipe: Connection
) -> None:
    """Run cases, telling the parent before and after each."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # libraries print past Python
        os.dup2(null, stream)
    _limit_memory()
    own = Path(tempfile.mkdtemp(dir=folder))
    os.environ["MNCOVER_CACHE_DIR"] = str(own / "cache")
    shutil.copytree(sources[0].parent, own / "in")
    for number in cases:
        source, content = case_of(kind, sources, seed, number)
        path = own / "in" / source.name
        whole = source.read_bytes()
        pipe.send(number)
        start = time.process_time()
        found = run_case(kind, path, content)
        pipe.send((found, time.process_time() - start))
        path.write_bytes(whole)
    pipe.send(None)


def fuzz(kind: Kind, folder: Path, seed: int, cases: int) -> Outcome:
    """Run damaged files of a kind; `folder` is for its files."""
    (folder / "sound").mkdir(parents=True)
    sources = [folder / "sound" / path.name for path in kind.make(folder / "sound")]
    for source in sources:  # what is not damaged can be read
        kind.read(source)
    outcome, left = Outcome(), range(cases)
    while len(left):
        left = _batch(kind, folder, sources, seed, left, outcome)
    return outcome


def _batch(
    kind: Kind, folder: Path, sources: Sequence[Path], seed: int, left: range, outcome: Outcome
) -> range:
    """Run cases until one ends its process; return those that are left."""
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe()
    child = fork.Process(target=_child, args=(kind, folder, sources, seed, left, theirs))
    child.start()
    theirs.close()
    number = left.start
    try:
        while (now := _heard(mine)) is not None:
            number = now
            outcome.cases += 1
            found, seconds = _heard(mine)
            _note(outcome, number, found, seconds)
        return range(0)
    except TimeoutError:
        outcome.faults[number] = f"no end after {PATIENCE:.0f} s"
    except EOFError:
        child.join()
        outcome.faults[number] = f"the process ended with {child.exitcode}"
    finally:
        child.kill()
        child.join()
        mine.close()
    return range(number + 1, left.stop)


def _heard(pipe: Connection) -> Any:
    if not pipe.poll(PATIENCE):
        raise TimeoutError
    return pipe.recv()


def _note(outcome: Outcome, number: int, found: str, seconds: float) -> None:
    outcome.slowest = max(outcome.slowest, seconds)
    if seconds > SECONDS:
        outcome.faults[number] = f"{seconds:.1f} s of processor time"
    elif found == "":
        outcome.fine += 1
    elif found == "refused":
        outcome.refused += 1
    else:
        outcome.faults[number] = found
