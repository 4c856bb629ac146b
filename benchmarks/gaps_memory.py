"""What `mncover gaps` holds in memory while traffic passes by.

    python -m benchmarks.gaps_memory MODEL SUITE [--lines 25000,200000] [-o FILE]

The command itself runs, in a process of its own, over so many lines drawn from the suite's texts,
with one thread, and is asked every second what it holds. The table has the highest memory in each
eighth of its time; the first has imports and the tests in it, the last flagging and grouping.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.gaps import write_traffic
from mncover.suites.formats import load_suite
from mncover.suites.rows import Rows

ASKED = ("VmRSS", "RssAnon")  # all that is resident, and what of it is no file


def held_mib(process: int) -> tuple[float, ...]:
    """Return what a process holds now."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return tuple(int(found[name].split()[0]) / 1024 for name in ASKED)


def watch(command: list[str]) -> list[tuple[float, ...]]:
    """Run a command; return what it held every second."""
    held = list[tuple[float, ...]]()
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        while process.poll() is None:
            try:
                held.append(held_mib(process.pid))
            except (FileNotFoundError, KeyError):  # it has just ended
                break
            time.sleep(1)
    if process.returncode:
        raise SystemExit(process.returncode)
    return held


def eighths(held: list[tuple[float, ...]]) -> dict[str, list[int]]:
    """Return the highest of each eighth."""
    parts = [part for part in np.array_split(np.array(held), 8) if len(part)]
    return {
        name: [round(float(part[:, i].max())) for part in parts] for i, name in enumerate(ASKED)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("suite", type=Path)
    parser.add_argument("--lines", default="25000,200000")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    suite = Rows.of_suite(asked.suite, load_suite(asked.suite))
    table, found = Table("lines", "seconds", "", *map(str, range(1, 9))), {}
    with TemporaryDirectory() as folder:
        for lines in map(int, asked.lines.split(",")):
            logs = write_traffic(suite, lines, Path(folder) / "logs.jsonl")
            given = ["gaps", asked.model, str(asked.suite), "--traffic", str(logs), "--quiet"]
            held = watch([sys.executable, "-m", "mncover", *given])
            found[lines] = eighths(held)
            for name, values in found[lines].items():
                table.add_row(f"{lines:,}", str(len(held)), f"{name}, MiB", *map(str, values))
    Console(width=140).print(table)
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
