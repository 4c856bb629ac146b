"""Give the same commands again and again in one process, and watch its memory and open files.

Every pass has a suite of its own, and every second one an empty cache, so that whatever is kept of
texts, models, ranges or data files is kept over and over.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from mncover.cli import main
from mncover.suites.formats import save_suite
from tests.folders import suite_of, write_material

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run", "model", "tests.jsonl", "--train", "train.txt", "--max-length", "12", "-q"),
    ("report", "run.mncover", "--failures", "3"),
    ("html", "run.mncover", "-o", "pages", "-q"),
    ("select", "run.mncover", "--budget", "50%", "-o", "less.jsonl", "-q"),
)
PIECES = 60  # samples that follow each other are alike: their means over pieces of time less so


@dataclass(frozen=True)
class Sample:
    """What the process held after a pass: when, resident megabytes, and open files."""

    hours: float
    megabytes: float
    files: int


@dataclass(frozen=True)
class Slope:
    """How much something grows an hour, by least squares, and half its 95% interval."""

    per_hour: float
    within: float

    def __str__(self) -> str:
        return f"{self.per_hour:+.3f} ± {self.within:.3f}"


def passes(folder: Path, seconds: float) -> Iterator[Sample]:
    """Give the commands in a folder for so long, at least once; yield a sample after each pass."""
    write_material(folder)
    start, number = time.monotonic(), 0
    while not number or time.monotonic() - start < seconds:
        save_suite(suite_of(seed=number), folder / "tests.jsonl")
        if number % 2:
            shutil.rmtree(folder / "cache", ignore_errors=True)
        _commands(folder)
        number += 1
        gc.collect()
        yield Sample((time.monotonic() - start) / 3600, _resident(), _open_files())


def _commands(folder: Path) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _inside(folder):
        for arguments in COMMANDS:
            code = main(arguments)
            if code:
                raise RuntimeError(f"{arguments[0]} ended with {code}: {said.getvalue()}")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.environ["MNCOVER_CACHE_DIR"] = str(folder / "cache")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def slope(hours: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a line to means over pieces of time."""
    n = min(PIECES, len(hours))
    if n < 3:
        return Slope(float("nan"), float("nan"))
    x, y = (
        np.array([piece.mean() for piece in np.array_split(np.array(one), n)])
        for one in (hours, values)
    )
    if not np.ptp(y):
        return Slope(0.0, 0.0)
    found = stats.linregress(x, y)
    return Slope(float(found.slope), float(stats.t.ppf(0.975, n - 2) * found.stderr))


def summary(samples: Sequence[Sample], skip_hours: float) -> str:
    """Say in a line how memory and open files grew after the first so many hours."""
    kept = [one for one in samples if one.hours >= skip_hours]
    if len(kept) < 3:
        return f"{len(samples)} passes, too few after the first {skip_hours * 60:g} minutes"
    hours = [one.hours for one in kept]
    memory, files = [one.megabytes for one in kept], [one.files for one in kept]
    return (
        f"{len(samples)} passes in {samples[-1].hours * 60:.0f} minutes; after the first"
        f" {skip_hours * 60:g}: memory {min(memory):.0f} to {max(memory):.0f} MB,"
        f" {slope(hours, memory)} MB an hour; open files {min(files)} to {max(files)},"
        f" {slope(hours, files)} an hour"
    )
