"""A whole suite in one go: does `mncover run` judge as a plain script does, and what does it cost?

    python -m benchmarks.suites MODEL SUITE TRAIN [--tests PART] [-o FILE]

The plain script runs every distinct text once (sdpa attention, sorted by length over the whole
suite, no padding) and judges the cases by rules of its own (tests/test_failures.py). The suite is
run as `mncover run` does it, after calibration. Both take turns, window by window, so that a slow
quarter of an hour of the machine slows both. Failing and judged cases of every test must be equal.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tests.suites.test_judging import plain_rate

from benchmarks.speed import BATCH, MAX_LENGTH
from mncover.coverage import Coverage
from mncover.engine.batches import batches_by_length
from mncover.engine.engine import Engine
from mncover.engine.subject import Subject
from mncover.engine.windows import Window
from mncover.suites.formats import load_suite, read_texts
from mncover.suites.judging import neutral_band
from mncover.suites.model import Suite
from mncover.suites.rows import Rows
from mncover.types import Text

STATUS = Path("/proc/self/status")


class PlainPass:
    """A plain pass over the distinct texts of a suite, a piece at a time."""

    def __init__(self, subject: Subject, suite: Suite) -> None:
        self.subject, self.suite = subject, suite
        self.texts = list(dict.fromkeys(suite.each_text()))
        start = time.perf_counter()
        self.tokens = subject.encode(self.texts, MAX_LENGTH)
        self.batches = deque(batches_by_length(self.tokens.lengths, BATCH))
        self.seconds = time.perf_counter() - start
        self.found = np.empty((len(self.texts), subject.n_labels))

    @torch.inference_mode()
    def go_on(self, texts: float) -> None:
        """Run about so many more texts."""
        start = time.perf_counter()
        self.subject.model.set_attn_implementation("sdpa")
        while self.batches and texts > 0:
            rows = self.batches.popleft()
            inputs = self.subject.tensors(self.tokens.take(rows))
            self.found[rows] = self.subject.model(**inputs).logits.softmax(-1).numpy()
            texts -= len(rows)
        self.seconds += time.perf_counter() - start

    def answers(self) -> dict[Text, list[float]]:
        """Return the probabilities of every text in the suite's classes, once all are run."""
        self.go_on(np.inf)
        found = self.found
        if len(self.suite.labels) == 3 and self.subject.n_labels == 2:
            found = neutral_band(found[:, 1])
        return dict(zip(self.texts, found.tolist(), strict=True))


class Alternating(Engine):
    """An engine that lets a plain pass go on after each of its windows."""

    plain: PlainPass

    def windows(self, cases: Any, advance: Any, *options: Any, **more: Any) -> Iterator[Window]:
        """Yield windows, and run as many texts plainly after each."""
        own = super().windows(cases, advance, *options, **more)
        n = 0
        while True:
            self.plain.go_on(n)
            window = next(own, None)
            if window is None:
                return
            n = len(window.texts)
            yield window


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


def measure(model: str, path: Path, train: Path, part: str) -> dict[str, Any]:
    suite = load_suite(path)
    suite = replace(suite, tests=tuple(t for t in suite.tests if part in t.name))
    cov = Coverage(model, max_length=MAX_LENGTH, batch_size=BATCH)
    cov.engine.__class__ = Alternating
    engine: Any = cov.engine
    calibration = read_texts(train).texts
    engine.calibrate(calibration, cache=True)
    engine.plain = plain = PlainPass(engine.subject, suite)
    plain.go_on(20 * BATCH)  # the first batches are slower
    with tempfile.TemporaryDirectory() as folder, Resident() as resident:
        output = Path(folder) / "run.mncover"
        before, start = plain.seconds, time.perf_counter()
        run = cov.run(Rows.of_suite(path, suite), output, calibration, say=print)
        run_s = time.perf_counter() - start - (plain.seconds - before)
        size = output.stat().st_size
    answers = plain.answers()
    rates = plain_rates(suite, answers)
    result = run.result()
    return {
        "model": Path(model).name,
        "suite": path.name,
        "texts": suite.texts,
        "distinct": len(answers),
        "plain_s": plain.seconds,
        "run_s": run_s,
        "ratio": run_s / plain.seconds,
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
    console.print(
        f"{found['texts']:,} texts, {found['distinct']:,} distinct; "
        f"plain pass {found['plain_s']:.0f} s, run {found['run_s']:.0f} s, "
        f"ratio {found['ratio']:.3f} (limit 1.10); "
        f"data file {found['data_file_mb']:.1f} MB; resident MiB over time {found['mib']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "suite", "train"):
        parser.add_argument(name)
    parser.add_argument("--tests", default="", help="only tests whose name contains this")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/suite.json"))
    asked = parser.parse_args()
    found = measure(asked.model, Path(asked.suite), Path(asked.train), asked.tests)
    show(Console(), found)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
