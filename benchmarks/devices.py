"""Do a GPU and a CPU cover the same bins? Measure on each machine, then compare the files.

    python -m benchmarks.devices measure MODEL OUT.mncover [--device cuda] [--dtype float16]
    python -m benchmarks.devices compare A.mncover B.mncover

Each device calibrates for itself, on the same texts. Rounding differs, so values close to the
edge of a bin may fall on either side: what is compared is how many bins that concerns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.speed import tweets
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.results import summarize
from mncover.engine.loading import load_subject

TRAIN, TEXTS = 1000, 1000


def measure(model: str, output: Path, device: str, dtype: str) -> None:
    subject = load_subject(model, device=device, dtype=dtype)
    texts = tweets()
    cov = Coverage(subject.model, subject.tokenizer)
    cov.calibrate(texts[:TRAIN], cache=False)
    cov.update(texts[TRAIN - 100 : TRAIN + TEXTS], context="tweets", gains=True)
    cov.save(output)
    result = cov.result()
    print(f"{device} {dtype}: Cover {result.cover:.6f}", end=" ")
    print(f"words {result.word.covered:,} attention {result.attention.covered:,}")


def compare(one: Path, two: Path) -> None:
    a, b = datafile.read(one), datafile.read(two)
    either = np.bitwise_count(a.total() | b.total()).sum()
    differ = np.bitwise_count(a.total() ^ b.total()).sum()
    for path, data in ((one, a), (two, b)):
        result = summarize(data)
        print(f"{path}: words {result.word.covered:,} attention {result.attention.covered:,}")
    print(f"bins covered by only one of them: {differ:,} of {either:,} ({differ / either:.4%})")
    same = (a.table["prediction"] == b.table["prediction"]).mean()
    print(f"texts with the same prediction: {same:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("model")
    measuring.add_argument("output", type=Path)
    measuring.add_argument("--device", default="cpu")
    measuring.add_argument("--dtype", default="float32")
    comparing = commands.add_parser("compare")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("two", type=Path)
    asked = parser.parse_args()
    if asked.command == "measure":
        measure(asked.model, asked.output, asked.device, asked.dtype)
    else:
        compare(asked.one, asked.two)


if __name__ == "__main__":
    main()
