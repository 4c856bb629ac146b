"""Give `run`, `report`, `html` and `select` in a loop in one process: `python -m tests.soak`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tests.soak.harness import Sample, passes, summary

EVERY = 1 / 6  # hours between two lines


def main() -> int:
    """Soak for as long as was asked for; print how memory and open files grow, now and then."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120, help="[120]")
    parser.add_argument("--skip", type=float, default=10, help="minutes to warm up [10]")
    parser.add_argument("--samples", type=Path, help="also write every sample, as CSV")
    given = parser.parse_args()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as place:
        for sample in passes(Path(place), given.minutes * 60):
            if int(sample.hours / EVERY) > (int(samples[-1].hours / EVERY) if samples else 0):
                now = f"{sample.megabytes:.0f} MB, {sample.files} open files"
                print(f"{sample.hours * 60:.0f} min: {now}; {summary(samples, given.skip / 60)}")
                sys.stdout.flush()
            samples.append(sample)
            if given.samples:
                with given.samples.open("a") as file:
                    file.write(f"{sample.hours * 60:.3f},{sample.megabytes:.2f},{sample.files}\n")
    print(summary(samples, given.skip / 60))
    return 0


if __name__ == "__main__":
    sys.exit(main())
