"""A whole suite in one go: does `mncover run` judge as a plain script does, and what does it cost?

    python -m benchmarks.suites MODEL SUITE TRAIN [--tests PART] [--once] [-o FILE]

The plain script runs every distinct text once (sdpa attention, length-sorted, no padding) and
judges the cases by rules of its own (tests/test_failures.py). Then the suite is run as `mncover
run` does it, after calibration. Failing and judged cases of every test must be equal.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tests.test_failures import plain_rate

from benchmarks.speed import BATCH, MAX_LENGTH, tensors
from mncover.batches import batches_by_length
from mncover.engine import Engine
from mncover.loading import load_subject
from mncover.results import summarize
from mncover.run import Job, run_suite
from mncover.settings import Settings
from mncover.subject import Subject
from mncover.suites.answers import neutral_band
from mncover.suites.files import load_suite
from mncover.suites.model import Suite
from mncover.suites.textfile import TextFile, read_texts
from mncover.texts import Text

STATUS = Path("/proc/self/status")


def plain_answers(subject: Subject, suite: Suite) -> dict[Text, list[float]]:
    """Return the probabilities of every distinct text, in the suite's classes."""
    texts = list(dict.fromkeys(suite.each_text()))
    subject.model.set_attn_implementation("sdpa")
    found = np.empty((len(texts), subject.n_labels))
    encodings = subject.encode(texts, MAX_LENGTH)
    with torch.inference_mode():
        for rows in batches_by_length([e.length for e in encodings], BATCH):
            inputs = tensors(subject, [encodings[row] for row in rows])
            found[rows] = subject.model(**inputs).logits.softmax(-1).numpy()
    if len(suite.labels) == 3 and subject.n_labels == 2:
        found = neutral_band(found[:, 1])
    return dict(zip(texts, found.tolist(), strict=True))


def plain_rates(suite: Suite, answers: dict[Text, list[float]]) -> list[tuple[int, int]]:
    return [
        plain_rate(test, [answers[text] for case in test.cases for text in case.texts])
        for test in suite.tests
    ]


class Resident:
    """Looks every second how much memory the process holds."""

    def __enter__(self) -> Resident:
        self.mib: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(1):
            line = next(x for x in STATUS.read_text().splitlines() if x.startswith("VmRSS"))
            self.mib.append(int(line.split()[1]) / 1024)


def measure(model: str, path: Path, train: Path, part: str, once: bool) -> dict[str, Any]:
    suite = load_suite(path)
    suite = replace(suite, tests=tuple(t for t in suite.tests if part in t.name))
    subject = load_subject(model)
    engine = Engine(subject, Settings(10, MAX_LENGTH, 1.0), BATCH, None)
    calibration = read_texts(train).texts
    engine.calibrate(calibration, cache=True)
    start = time.perf_counter()
    answers = plain_answers(subject, suite)
    plain_s = time.perf_counter() - start
    rates = plain_rates(suite, answers)
    with tempfile.TemporaryDirectory() as folder, Resident() as resident:
        output = Path(folder) / "run.mncover"
        job = Job(engine, TextFile.of_suite(path, suite), calibration, output, print)
        start = time.perf_counter()
        data = run_suite(job)
        run_s = time.perf_counter() - start
        size = output.stat().st_size
    result = summarize(data)
    plain = [plain_s]
    if not once:
        start = time.perf_counter()
        plain_answers(subject, suite)
        plain.append(time.perf_counter() - start)
    return {
        "model": Path(model).name,
        "suite": path.name,
        "texts": suite.texts,
        "distinct": len(answers),
        "plain_s": plain,
        "run_s": run_s,
        "ratio": run_s / float(np.mean(plain)),
        "mib": [round(x) for x in resident.mib[:: max(1, len(resident.mib) // 20)]],
        "data_file_mb": size / 1e6,
        "cover": result.cover,
        "tests": [
            {
                "test": test.name,
                "failing": context.failing,
                "judged": context.judged,
                "plain": list(rate),
            }
            for test, context, rate in zip(suite.tests, result.contexts, rates, strict=True)
        ],
    }


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table(title=f"{found['model']}, {found['suite']}", title_justify="left")
    for name in ("test", "failing", "judged", "%", "plain script"):
        table.add_column(name, justify="left" if name == "test" else "right")
    for row in found["tests"]:
        mine = (row["failing"], row["judged"])
        rate = f"{100 * mine[0] / mine[1]:.2f}" if mine[1] else "-"
        verdict = "equal" if mine == tuple(row["plain"]) else f"DIFFERS: {row['plain']}"
        table.add_row(row["test"], f"{mine[0]:,}", f"{mine[1]:,}", rate, verdict)
    console.print(table)
    plain = ", ".join(f"{s:.0f}" for s in found["plain_s"])
    console.print(
        f"{found['texts']:,} texts, {found['distinct']:,} distinct; plain pass {plain} s, run "
        f"{found['run_s']:.0f} s, ratio {found['ratio']:.3f} (limit 1.10); "
        f"data file {found['data_file_mb']:.1f} MB; resident MiB over time {found['mib']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "suite", "train"):
        parser.add_argument(name)
    parser.add_argument("--once", action="store_true", help="one plain pass, not two")
    parser.add_argument("--tests", default="", help="only tests whose name contains this")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/suite.json"))
    asked = parser.parse_args()
    found = measure(asked.model, Path(asked.suite), Path(asked.train), asked.tests, asked.once)
    show(Console(), found)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
