"""Do workers give what one process gives, and what do they cost?

    python -m benchmarks.workers same MODEL SUITE TRAIN [--texts 20000] [--workers 1,2,4]
    python -m benchmarks.workers kill MODEL SUITE TRAIN --texts 4000 [--kills 20]
    python -m benchmarks.workers lose MODEL SUITE TRAIN --texts 4000 [--kills 5]
    python -m benchmarks.workers speed MODEL SUITE TRAIN [--texts N] [--workers 2] [--threads 1]
    python -m benchmarks.workers memory MODEL SUITE TRAIN [--workers 1,2,4,8] [--texts 2000]
    python -m benchmarks.workers asking MODEL SUITE TRAIN [--texts N] [--workers 2]
    python -m benchmarks.workers shards MODEL SUITE TRAIN [--texts 20000]

`same` compares data files byte by byte, `kill` too, while workers are killed at random moments,
and `lose` while a machine of a simulated cluster of two is lost, and another one comes.
`speed` times one process and workers, each once, after calibration and with the workers ready, and
what adding up takes of that, without the checkpoints that one process writes as well;
with `--threads 1` it times one worker against several, each of one thread. `memory` prints the
peak of the resident memory of the process that asks, which is to depend neither on workers nor on
texts, and of what of it is no file's: before a run, after it, and after its report and its pages.
`asking` prints how long the process that asks computes for each text, which no worker takes off it:
its processor time, best seen with a tiny model. `shards` prints how large what workers send is.
"""

from __future__ import annotations

import argparse
import atexit
import os
import pickle
import random
import resource
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mncover import Coverage
from mncover.data import datafile
from mncover.data.files import Unfinished
from mncover.data.identity import Run
from mncover.data.store import CoverageData
from mncover.engine import crew as crews
from mncover.engine import windows
from mncover.engine.asked import Stretch
from mncover.engine.jobs import JOBS
from mncover.engine.shards import Adder, Shard, joined
from mncover.engine.suite_run import SuiteRun
from mncover.report.columns import View
from mncover.report.html import write_html
from mncover.report.screen import Screen
from mncover.report.text import show
from mncover.selection.planned_runs import full_result
from mncover.suites.formats import read_rows, read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.parts import Part
from mncover.suites.rows import Rows

SECONDS: dict[str, float] = {"merging": 0.0}


def one_name(*what: Any) -> Run:
    """Return a run that has the same name and time whenever it is started."""
    return Run("run", "2026-01-01", *(what or ("", "", 0)))


def suite_of(path: Path, texts: int | None) -> Rows:
    """Return a suite, or a sample of it with about so many texts."""
    rows = read_rows(path, Fields())
    if texts is None or texts >= len(rows):
        return rows
    return Part((), "", max(1, round(texts * _cases(rows) / len(rows))), 0).of(rows)


def _cases(rows: Rows) -> int:
    assert rows.suite is not None
    return sum(len(test.cases) for test in rows.suite.tests)


class Measured:
    """Runs a suite with some workers; None is one process without Ray."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.model, self.length = str(arguments.model), arguments.max_length
        self.train = read_texts(arguments.train, Fields(), arguments.train_limit).texts
        self.rows = suite_of(arguments.suite, arguments.texts)
        self.folder = Path(tempfile.mkdtemp(prefix="mncover-workers-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        print(f"{len(self.rows):,} texts, calibrated on {len(self.train):,}", flush=True)

    def coverage(
        self, workers: int | None, calibrate: bool = False, ray: str | None = None
    ) -> Coverage:
        """Return a calibrated coverage whose workers are ready; `calibrate` does it anew."""
        how: dict[str, Any] = {"workers": workers, "ray": ray, "progress": False}
        cov = Coverage(self.model, max_length=self.length, **how)
        cov.calibrate(self.train, cache=not calibrate, yardstick=False)
        cov.signatures(self.train[:8])
        return cov

    def data(self, cov: Coverage, name: str) -> tuple[CoverageData, Path]:
        """Run the suite; return its data, and the file that it wrote."""
        path = self.folder / f"{name}.mncover"
        path.unlink(missing_ok=True)
        return SuiteRun(cov.engine, self.rows, path, "auto").run(), path

    def run(self, cov: Coverage, name: str) -> tuple[bytes, float]:
        """Return the data file of a run, and how long it took."""
        start = time.perf_counter()
        _, path = self.data(cov, name)
        took = time.perf_counter() - start
        return path.read_bytes(), took


def same(arguments: argparse.Namespace) -> None:
    measured = Measured(arguments)
    alone, seconds = measured.run(measured.coverage(None, calibrate=True), "alone")
    print(f"one process: {len(alone):,} bytes, {seconds:.1f} s", flush=True)
    for workers in arguments.workers:
        cov = measured.coverage(workers, calibrate=True)
        found, seconds = measured.run(cov, str(workers))
        equal = "the same file" if found == alone else "ANOTHER FILE"
        print(f"{workers} workers: {equal}, {seconds:.1f} s", flush=True)
        cov.close()


def kill(arguments: argparse.Namespace) -> None:
    def kill_one() -> bool:
        pids = _pids()
        if pids:
            os.kill(random.choice(pids), signal.SIGKILL)
        return bool(pids)

    # Of a third that dies of the same shard a crew believes that the shard is to blame.
    _while(arguments, "workers killed", kill_one, most=2)


def lose(arguments: argparse.Namespace) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})

    def lose_one() -> bool:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        return True

    def prepare() -> None:
        if not cluster.worker_nodes:
            cluster.add_node(num_cpus=1)

    _while(arguments, "machines lost", lose_one, 1, prepare, cluster.address)
    cluster.shutdown()


def _while(
    arguments: argparse.Namespace,
    what: str,
    harm: Callable[[], bool],
    most: int,
    prepare: Callable[[], None] = lambda: None,
    ray: str | None = None,
) -> None:
    """Run a suite, again and again, while harm is done at random moments; compare its files.

    `harm` says whether it found something to harm. It is done at most `most` times in a run.
    """
    # Small shards: there must be something left to do after a harm.
    windows.WINDOW_TEXTS = arguments.shard
    measured = Measured(arguments)
    alone, seconds = measured.run(measured.coverage(None), "alone")
    done, runs = 0, 0
    while done < arguments.kills:
        prepare()
        cov = measured.coverage(2, ray=ray)
        with _harming(harm, most, seconds) as count:
            found, took = measured.run(cov, "harmed")
        done, runs = done + count[0], runs + 1
        equal = "the same file" if found == alone else "ANOTHER FILE"
        print(f"run {runs}, {count[0]} {what}: {equal}, {took:.1f} s", flush=True)
        cov.close()


@contextmanager
def _harming(harm: Callable[[], bool], most: int, within: float) -> Iterator[list[int]]:
    """Do harm at random moments, `within` seconds of each other, as long as the block lasts."""
    count, over = [0], threading.Event()

    def harms() -> None:
        while count[0] < most and not over.wait(random.uniform(0, within)):
            count[0] += harm()

    thread = threading.Thread(target=harms, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def _pids() -> list[int]:
    """Return the processes that hold workers."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                words = (one / "cmdline").read_bytes()
            except OSError:
                continue
            if words.startswith(b"ray::Worker"):
                found.append(int(one.name))
    return found


def speed(arguments: argparse.Namespace) -> None:
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    measured = Measured(arguments)
    merge = crews._Call._taken

    def timed(self: Any) -> Iterator[Any]:
        for found in merge(self):
            start = time.perf_counter()
            yield found
            SECONDS["merging"] += time.perf_counter() - start

    crews._Call._taken = timed  # type: ignore[method-assign]
    save = Unfinished.save

    def not_counted(self: Unfinished, write: Any) -> None:
        start = time.perf_counter()
        save(self, write)
        SECONDS["merging"] -= time.perf_counter() - start  # one process does it, too

    Unfinished.save = not_counted  # type: ignore[method-assign]
    first = 1 if arguments.threads is not None else None
    seconds = {}
    for workers in (first, *arguments.workers):
        cov = measured.coverage(workers)
        if workers is not None and arguments.threads is not None:
            crew = cov.engine.crew
            assert isinstance(crew, crews.Crew)
            assert crew.cluster is not None
            assert crew.cluster.threads == arguments.threads
        SECONDS["merging"] = 0.0
        _, seconds[workers] = measured.run(cov, str(workers))
        name = "one process" if workers is None else f"{workers} workers"
        print(f"{name}: {seconds[workers]:.1f} s", end="", flush=True)
        print(f" ({seconds[workers] / seconds[first]:.3f})", end="", flush=True)
        share = SECONDS["merging"] / seconds[workers]
        print("" if workers is None else f", adding up {share:.1%}", flush=True)
        cov.close()


def memory(arguments: argparse.Namespace) -> None:
    windows.WINDOW_TEXTS = arguments.shard
    measured = Measured(arguments)
    for workers in arguments.workers:
        pid = os.fork()  # so that each has a peak of its own
        if pid == 0:
            with _peaks() as peak:
                _report(measured, workers, peak)
            os._exit(0)
        os.waitpid(pid, 0)


def _report(measured: Measured, workers: int, peak: Callable[[], str]) -> None:
    """Run a suite, report it as `mncover run` does, read the file again and write pages of it."""
    cov = measured.coverage(workers)
    print(f"{workers} workers: {peak()} before the run", end="", flush=True)
    data, path = measured.data(cov, str(workers))
    print(f", {peak()} after it", end="", flush=True)
    with open(os.devnull, "w") as nothing:
        show(View(data, full_result(data, 0.01)), Screen(file=nothing))
    print(f", {peak()} after its report", end="", flush=True)
    write_html(datafile.read(path), path, measured.folder / f"{workers}-pages", 0.01)
    print(f", {peak()} after its pages", flush=True)
    cov.close()


@contextmanager
def _peaks() -> Iterator[Callable[[], str]]:
    """Yield what tells the peaks so far: of all resident memory, and of what is no file's."""
    highest, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            highest[0] = max(highest[0], _anonymous())

    def told() -> str:
        return f"{_most() / 1024:.0f} MiB, {max(highest[0], _anonymous()) / 1024:.0f} of its own"

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield told
    over.set()
    thread.join()


def _most() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _anonymous() -> int:
    """Return how much memory, in KiB, is neither a file's nor shared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def asking(arguments: argparse.Namespace) -> None:
    start = time.process_time()
    n = len(suite_of(arguments.suite, arguments.texts))
    _print_asking("reading the suite", time.process_time() - start, n)
    measured = Measured(arguments)
    for workers in arguments.workers:
        cov = measured.coverage(workers)
        start = time.process_time()
        _, took = measured.run(cov, str(workers))
        _print_asking(f"running it, {workers} workers", time.process_time() - start, n)
        print(f"{took:.1f} s by the clock", flush=True)
        cov.close()


def _print_asking(what: str, seconds: float, texts: int) -> None:
    print(f"{what}: {seconds:.1f} s, {1e6 * seconds / texts:.0f} µs a text", flush=True)


def shards(arguments: argparse.Namespace) -> None:
    """Print how large the shards of a suite are, how they join, and how long adding takes."""
    measured = Measured(arguments)
    engine = measured.coverage(None).engine
    rows = measured.rows.by_context()
    found: list[Shard] = []
    for start in range(0, len(rows), windows.WINDOW_TEXTS):
        part = slice(start, start + windows.WINDOW_TEXTS)
        asked = Stretch(rows.texts[part], rows.contexts[part])
        found += JOBS["record"].run(engine, asked, lambda n: None)
    sizes = [len(pickle.dumps(one, protocol=5)) for one in found]
    cells = [sum(len(hits.cells) for hits in one.hits.values()) for one in found]
    print(f"{len(found)} shards of up to {windows.WINDOW_TEXTS:,} texts:", end=" ")
    print(f"{min(sizes):,} to {max(sizes):,} bytes, {min(cells):,} to {max(cells):,} cells")
    adder, seconds = Adder(engine.setups), []
    maps = {name: adder.empty(name) for name in engine.criteria}
    for one in found:
        begin = time.perf_counter()
        for name, hits in one.hits.items():
            adder.add(name, hits, maps[name])
        seconds.append(time.perf_counter() - begin)
    print(f"adding one: {1000 * min(seconds):.1f} to {1000 * max(seconds[1:]):.1f} ms")
    begin = time.perf_counter()
    whole = joined(engine.setups, found)
    took = time.perf_counter() - begin
    print(f"all of them joined: {len(pickle.dumps(whole, protocol=5)):,} bytes, {took:.2f} s")


COMMANDS = {
    "same": same,
    "kill": kill,
    "lose": lose,
    "speed": speed,
    "memory": memory,
    "asking": asking,
    "shards": shards,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(COMMANDS))
    parser.add_argument("model", type=Path)
    parser.add_argument("suite", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("--texts", type=int)
    parser.add_argument("--train-limit", type=int, default=10_000)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--kills", type=int)
    parser.add_argument("--shard", type=int, default=256)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    arguments.workers = arguments.workers or {"same": [1, 2, 4], "memory": [1, 2, 4, 8]}.get(
        arguments.what, [2]
    )
    arguments.kills = arguments.kills or {"lose": 5}.get(arguments.what, 20)
    random.seed(0)
    Run.start = one_name  # type: ignore[method-assign, assignment]
    COMMANDS[arguments.what](arguments)


if __name__ == "__main__":
    main()
