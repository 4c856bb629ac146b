"""Damage files of every kind and see what becomes of them: `python -m tests.fuzz`.

What is damaged, and how, follows from a seed. What fails is kept in a folder, with its traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # as in conftest.py

from tests.fuzz.harness import Outcome, case_of, fuzz
from tests.fuzz.kinds import KINDS


def keep(name: str, outcome: Outcome, sound: Path, seed: int, folder: Path) -> None:
    """Write the cases that failed, and why."""
    kind = KINDS[name]
    sources = [sound / path.name for path in kind.make(sound)]
    for number, fault in list(outcome.faults.items())[:20]:
        source, content = case_of(kind, sources, seed, number)
        place = folder / name.replace(" ", "_").replace(",", "") / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / source.name).write_bytes(content)
        (place / "fault.txt").write_text(fault)


def main() -> int:
    """Run what was asked for, and print a line for each kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of each kind [2000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-faults"), help="folder for faults")
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    given = parser.parse_args()
    failed = 0
    print(f"{'kind':24} {'cases':>7} {'read':>7} {'refused':>8} {'faults':>7} {'slowest':>8}")
    for name in given.kinds or KINDS:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = fuzz(KINDS[name], Path(folder) / "run", given.seed, given.cases)
            (again := Path(folder) / "again").mkdir()
            keep(name, found, again, given.seed, given.keep)
        counts = f"{found.cases:7,} {found.fine:7,} {found.refused:8,} {len(found.faults):7,}"
        taken = time.monotonic() - start
        print(f"{name:24} {counts} {found.slowest:6.2f} s   {taken:.0f} s in all", flush=True)
        if found.faults:
            print(f"    {found.summary}", flush=True)
        failed += len(found.faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
