"""The peak of a process's resident memory while something runs, above what it had before."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_above(work: Callable[[], object]) -> float:
    """Return the peak in MiB above the resident size at the start; NaN where /proc is not.

    The work has been done before, so that what a library allocates once is not counted.
    """
    if not CLEAR.exists():
        return float("nan")
    gc.collect()
    CLEAR.write_text("5")  # resets the high-water mark
    before = _resident("VmRSS")
    work()
    return (_resident("VmHWM") - before) / 1024


def _resident(name: str) -> int:
    line = next(row for row in STATUS.read_text().splitlines() if row.startswith(name))
    return int(line.split()[1])
