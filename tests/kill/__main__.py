"""Kill every command that writes, at every write and at random: `python -m tests.kill`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # as in conftest.py

from tests.kill.harness import COMMANDS, Kill, Stop, Trial, prepare


def main() -> int:
    """Run what was asked for, and print a line for each command."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--random", type=int, default=20, help="at random writes, of each [20]")
    parser.add_argument("--timed", type=int, default=20, help="at random times, of each [20]")
    parser.add_argument("--every", type=int, default=1, help="only every Nth write [1]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("commands", nargs="*", help=f"{', '.join(COMMANDS)} [all]")
    given = parser.parse_args()
    kills = faults = 0
    with tempfile.TemporaryDirectory() as place:
        start = prepare(Path(place) / "start")
        for name in given.commands or COMMANDS:
            trial = Trial(name, start, Path(place) / name.replace(" ", "-"))
            plan: list[Sequence[Kill | Stop]] = [
                *trial.every()[:: given.every],
                *trial.at_random(given.random, given.seed),
                *trial.at_times(given.timed, given.seed),
            ]
            wrong = [fault for fault in (trial.end_at(*one) for one in plan) if fault]
            counts = f"{trial.writes} writes, {trial.kills} kills, {len(wrong)} faults"
            print(f"{name}: {counts}", flush=True)
            print("".join(f"  {fault}\n" for fault in wrong[:20]), end="")
            kills, faults = kills + trial.kills, faults + len(wrong)
    print(f"{kills} kills, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
