"""What several criteria at once cost beside Cover alone.

    python -m benchmarks.criteria [--texts 1500] [--rounds 6] [--kinds update gains]
        [--model FOLDER] [-o FILE]

All ways run the same tweets in alternating rounds of one process, from strings to maps. "Ratio"
compares the best round of a set of criteria with the best round of Cover alone, "median" is the
median over the rounds of the ratio within a round, and "busy" the ratio of the processor time of
all threads, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.speed import FIVE, Way, other_ways, subject_named, tweets
from mncover.engine.subject import Subject

RESULTS = Path("benchmarks/results/criteria.json")
LIMIT = 1.15
ALONE = "cover"
SETS = {
    ALONE: [ALONE],
    "five": FIVE,
    "hidden neurons": ["kmnc", "nbc", "snac", "nc", "tknc"],
    "with surprise": ["cover", "pairs", "lsc", "dsc", "mdsc"],
}


def ways_of(subject: Subject, train: list[str]) -> dict[str, Way]:
    """Return updates and gains by each set of criteria."""
    found: dict[str, Way] = {}
    for name, criteria in SETS.items():
        found |= other_ways(subject, train, name, criteria=criteria)
    return found


class Round(NamedTuple):
    """What one call took: seconds on the clock, and those of all threads together."""

    seconds: float
    busy: float


def timed(way: Way, texts: list[str]) -> Round:
    """Time one call."""
    start, busy = time.perf_counter(), time.process_time()
    way(texts)
    return Round(time.perf_counter() - start, time.process_time() - busy)


def compare(
    subject: Subject, texts: list[str], rounds: int, kinds: list[str]
) -> dict[str, list[Round]]:
    """Time all ways of some kinds in turns; return what each round took."""
    every = ways_of(subject, texts[:500])
    every = {name: way for name, way in every.items() if name.partition(", ")[0] in kinds}
    for way in every.values():
        way(texts[:64])
    times: dict[str, list[Round]] = {name: [] for name in every}
    for _ in range(rounds):
        for name, way in every.items():
            times[name].append(timed(way, texts))
    return times


def rows_of(times: dict[str, list[Round]]) -> list[dict[str, Any]]:
    """Return for each way its best round, and its ratios to Cover alone."""
    rows = []
    for name, rounds in times.items():
        kind, _, criteria = name.partition(", ")
        mine, floor = np.array(rounds), np.array(times[f"{kind}, {ALONE}"])
        ratio, busy = mine.min(axis=0) / floor.min(axis=0)
        median = np.median(mine[:, 0] / floor[:, 0])
        ratios = {"ratio": float(ratio), "median": float(median), "busy": float(busy)}
        seconds = float(mine[:, 0].min())
        rows.append({"what": kind, "criteria": SETS[criteria], "seconds": seconds, **ratios})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--kinds", nargs="+", default=["update", "gains"])
    parser.add_argument("--model", default="demo", help="a folder; the demo model if not given")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("benchmarks/results/criteria.json")
    )
    asked = parser.parse_args()
    subject, texts = subject_named(asked.model, "cpu"), tweets()[: asked.texts]
    times = compare(subject, texts, asked.rounds, asked.kinds)
    table = Table("", "criteria", "seconds", "ratio", "median", "busy", f"limit {LIMIT}")
    for row in rows_of(times):
        ratios = [f"{row[name]:.3f}" for name in ("ratio", "median", "busy")]
        numbers = [f"{row['seconds']:.2f}", *ratios]
        verdict = "met" if row["ratio"] <= LIMIT else "missed"
        table.add_row(row["what"], ", ".join(row["criteria"]), *numbers, verdict)
    Console(width=110).print(table)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps({"rows": rows_of(times), "all_seconds": times}, indent=1))


if __name__ == "__main__":
    main()
