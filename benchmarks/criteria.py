"""What several criteria at once cost beside Cover alone.

    python -m benchmarks.criteria [--texts 1500] [--rounds 6] [--model FOLDER] [-o FILE]

All ways run the same tweets in alternating rounds of one process, from strings to maps. "Ratio"
compares the best round of a set of criteria with the best round of Cover alone, "median" is the
median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.speed import FIVE, Way, other_ways, seconds, subject_named, tweets
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


def compare(subject: Subject, texts: list[str], rounds: int) -> dict[str, list[float]]:
    """Time all ways in turns; return the seconds of each round."""
    every = ways_of(subject, texts[:500])
    for way in every.values():
        way(texts[:64])
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(rounds):
        for name, way in every.items():
            times[name].append(seconds(way, texts))
    return times


def rows_of(times: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return for each way its best round, and its ratios to Cover alone."""
    rows = []
    for name, spent in times.items():
        kind, _, criteria = name.partition(", ")
        floor = np.array(times[f"{kind}, {ALONE}"])
        ratios = {"ratio": min(spent) / floor.min(), "median": float(np.median(spent / floor))}
        rows.append({"what": kind, "criteria": SETS[criteria], "seconds": min(spent), **ratios})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--model", default="demo", help="a folder; the demo model if not given")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("benchmarks/results/criteria.json")
    )
    asked = parser.parse_args()
    times = compare(subject_named(asked.model, "cpu"), tweets()[: asked.texts], asked.rounds)
    table = Table("", "criteria", "seconds", "ratio", "median", f"limit {LIMIT}")
    for row in rows_of(times):
        numbers = [f"{row['seconds']:.2f}", f"{row['ratio']:.3f}", f"{row['median']:.3f}"]
        verdict = "met" if row["ratio"] <= LIMIT else "missed"
        table.add_row(row["what"], ", ".join(row["criteria"]), *numbers, verdict)
    Console(width=110).print(table)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps({"rows": rows_of(times), "all_seconds": times}, indent=1))


if __name__ == "__main__":
    main()
