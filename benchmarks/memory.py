"""Peak memory of each way of running texts, above the model's own, each in a process of its own.

    python -m benchmarks.memory WAY N MODEL

The model's own is the peak of a process that runs a plain forward pass over the same texts, with
everything imported and every kernel loaded; what a way needs beyond that is what coverage costs.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
from pathlib import Path

PLAIN = "plain forward"
PEAK = "VmHWM"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_mib(way: str, n: int, model: str) -> float:
    """Return the median of five fresh processes, whose heaps fragment by chance.

    NaN where the system does not tell.
    """
    if not CLEAR.exists():
        return float("nan")
    command = [sys.executable, "-m", "benchmarks.memory", way, str(n), model]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(5)]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def reset_peak() -> None:
    """Begin to look for the highest memory of this process anew."""
    gc.collect()
    CLEAR.write_text("5")


def resident_mib(name: str) -> float:
    """Return a number of this process's memory, such as its peak."""
    line = next(row for row in STATUS.read_text().splitlines() if row.startswith(name))
    return int(line.split()[1]) / 1024


def _measure(way: str, n: int, model: str) -> float:
    from benchmarks import speed

    subject = speed.subject_named(model, "cpu")
    texts = speed.tweets()[:n]
    for other in speed.coverage_ways(subject, texts[:8]).values():  # imports and kernels
        other(texts[:8])
    reset_peak()
    if way == PLAIN:
        speed.plain_forward(subject)(texts)
    elif way == "calibrate":  # making the ways calibrates; doing it again would hold ranges twice
        speed.coverage_ways(subject, texts)
    else:
        speed.coverage_ways(subject, texts[:64])[way](texts)
    return resident_mib(PEAK)


if __name__ == "__main__":
    print(_measure(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
