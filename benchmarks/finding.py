"""How long `mncover next` takes over a large pool, and how often its estimate holds.

    python -m benchmarks.finding next [--texts 100000]
    python -m benchmarks.finding estimate RUN [--rounds 100] [--cases 2000] [--batches 8]

`next` times whole commands, from the call to the batch file, on a pool of made-up texts with
random signatures. `estimate` judges pools drawn from a run whose verdicts are known, and counts how
often the 95 % interval of what is left holds the truth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.store import CoverageData
from mncover.selection.batches import Chooser
from mncover.selection.cases import cases_of
from mncover.selection.diverse import cells_of
from mncover.selection.findings import summarize_findings
from mncover.selection.pool import cluster, pool_of
from mncover.selection.rehearsal import BATCH, rehearse
from mncover.suites.judging import FAILS, NOT_JUDGED


def large_file(path: Path, texts: int) -> None:
    """Write a data file of made-up texts, by repeating a few rows that the demo model gave."""
    from mncover.cli.demo import demo_model

    cov = Coverage(str(demo_model()), max_length=32, progress=False)
    few = [f"The flight number {n} was {'late' if n % 3 else 'fine'}." for n in range(200)]
    cov.calibrate(few, cache=False)
    cov.update(few, context="made up")
    data, rng = cov.data, np.random.default_rng(0)
    table = data.table.take(np.arange(texts) % len(few))
    names = tuple(f"{text} {place}" for place, text in enumerate(table.texts))
    spread = table.signatures.astype(np.float32).std(axis=0)
    noise = rng.normal(size=table.signatures.shape) * spread
    columns = table.columns | {"number": np.arange(texts), "index": np.arange(texts)}
    chance = rng.random(texts, dtype=np.float32)
    large = CoverageData(data.identity)
    large.runs, large.space = data.runs, data.space
    for context in data.contexts:
        large.put_packed(context, data.packed(context))
    large.table = type(table)(
        columns,
        table.new,
        np.stack([chance, 1 - chance], axis=1),
        names,
        (table.signatures + noise).astype(np.float16),
    )
    datafile.write(large, path)


def time_next(texts: int) -> None:
    """Print how long the first four calls of `mncover next` take."""
    with tempfile.TemporaryDirectory() as folder:
        path, batch = Path(folder) / "run.mncover", Path(folder) / "batch.jsonl"
        large_file(path, texts)
        print(f"{texts:,} texts, {path.stat().st_size / 1e6:.0f} MB")
        command = [sys.executable, "-m", "mncover", "next", str(path), "-o", str(batch), "--quiet"]
        for number in range(1, 5):
            start = time.perf_counter()
            more = ["--verdicts", str(batch)] if number > 1 else []
            subprocess.run([*command, *more], check=True)
            print(f"call {number}: {time.perf_counter() - start:.2f} s (limit 3)")
            answers = ("ok", "wrong")
            lines = batch.read_text().splitlines()
            filled = [
                line.replace('"verdict": ""', f'"verdict": "{answers[place % 2]}"')
                for place, line in enumerate(lines)
            ]
            batch.write_text("\n".join(filled) + "\n")


def check_estimate(run: Path, rounds: int, size: int, batches: int) -> None:
    """Print in how many rounds of judging the interval of what is left holds the truth."""
    cases = cases_of(datafile.read(run))
    judged = np.flatnonzero(cases.verdicts != NOT_JUDGED)
    held, widths = [], []
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        part = cases.part(np.sort(rng.choice(judged, min(size, len(judged)), replace=False)))
        fails, pool = part.verdicts == FAILS, pool_of(part.data.table, part.rows)
        cells = None if part.data.space is None else cells_of(pool.inside, part.data.space)
        chooser = Chooser(pool, cluster(pool.inside, seed), cells, seed=seed)
        found = summarize_findings(rehearse(chooser, fails, batches * BATCH), len(part))
        if found.left is None:
            continue
        truth = int(fails.sum()) - found.failing
        held.append(found.left.low <= truth <= found.left.high)
        widths.append((found.left.high - found.left.low) / len(part))
    print(
        f"{run.name}: {np.mean(held):.0%} of {len(held)} rounds of {batches} batches hold the "
        f"truth; {cases.verdicts[judged].tolist().count(FAILS) / len(judged):.0%} fail; mean width "
        f"{np.mean(widths):.0%} of a pool of {size:,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("next", "estimate"))
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=8)
    asked = parser.parse_args()
    if asked.what == "next":
        time_next(asked.texts)
    else:
        check_estimate(asked.run, asked.rounds, asked.cases, asked.batches)


if __name__ == "__main__":
    main()
