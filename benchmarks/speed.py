"""How much coverage costs: every way of running the same texts, in one process, side by side.

    python -m benchmarks.speed [--texts N] [--rounds N] [--quick] [--device cuda] [-o FILE]

The floor is a plain forward pass with sdpa attention over length-sorted, unpadded batches, from
strings to probabilities, one batch after the other on all of torch's threads. Rounds of all ways
alternate, and the best of a way's rounds counts, so that a noisy moment hits no single way. Peak
memory is above that of the plain forward pass.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table

from benchmarks.memory import PLAIN, peak_mib
from mncover.cli.demo import demo_model
from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.engine.batches import Rows, batch_tokens, batches_by_length, parallel, workers_on
from mncover.engine.loading import load_subject
from mncover.engine.subject import Subject
from mncover.masks.masks import Masks
from mncover.masks.vocabulary import count_pairs, vocabulary

TWEETS = Path(__file__).resolve().parents[2] / "shared/data/airline/tweets.jsonl.gz"
LIMITS = {"update": 1.05, "filter": 1.10, "calibrate": 1.10, "update with gains": 1.10}
FIVE = ["cover", "nbc", "snac", "nc", "tknc"]
RATIOS = ("ratio", "median_ratio")
BATCH, MAX_LENGTH = 32, 128

Way = Callable[[list[str]], object]


def tweets() -> list[str]:
    path = Path(os.environ.get("MNCOVER_BENCH_TEXTS", TWEETS))
    if not path.is_file():
        raise SystemExit(f"the benchmark needs {path}, which is not there")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def subject_named(model: str, device: str) -> Subject:
    """Return the demo model, a BERT-base of random weights, or a folder's model."""
    subject = load_subject(str(demo_model()) if model in ("demo", "random-bert-base") else model)
    if model == "random-bert-base":
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=30522, num_labels=2)
        network = transformers.BertForSequenceClassification(config).eval()
        subject = Subject(network, subject.tokenizer, model)
    subject.model.to(device)
    return subject


def plain_forward(subject: Subject) -> Way:
    """Return the floor: tokenise, sort by length, run without padding, take probabilities."""

    def run(texts: list[str]) -> object:
        subject.model.set_attn_implementation("sdpa")
        tokens = subject.encode(texts, MAX_LENGTH)
        found = np.empty((len(texts), subject.n_labels), dtype=np.float32)
        with torch.inference_mode():
            for rows in batches_by_length(tokens.lengths, BATCH):
                inputs = subject.tensors(tokens.take(rows))
                found[rows] = subject.model(**inputs).logits.softmax(-1).float().cpu().numpy()
        return found

    return run


def plain_parallel(subject: Subject) -> Way:
    """Return the same with a batch on every thread, as mncover runs them."""
    n = workers_on(subject.device)

    def run(texts: list[str]) -> object:
        subject.model.set_attn_implementation("sdpa")
        tokens = subject.encode(texts, MAX_LENGTH)
        found = np.empty((len(texts), subject.n_labels), dtype=np.float32)

        @torch.inference_mode()
        def one(rows: Rows) -> None:
            inputs = subject.tensors(tokens.take(rows))
            found[rows] = subject.model(**inputs).logits.softmax(-1).float().cpu().numpy()

        with parallel(n) as run_all:
            list(run_all(one, batches_by_length(tokens.lengths, BATCH, batch_tokens(n))))
        return found

    return run


def hugging_face_pipeline(subject: Subject) -> Way:
    pipe = transformers.pipeline(
        "text-classification",
        model=subject.model,
        tokenizer=subject.tokenizer,
        device=subject.device,
    )

    def run(texts: list[str]) -> object:
        subject.model.set_attn_implementation("sdpa")
        return pipe(texts, batch_size=BATCH, truncation=True, max_length=MAX_LENGTH)

    return run


def coverage_ways(subject: Subject, train: list[str]) -> dict[str, Way]:
    """Return what mncover does with texts; each call starts from nothing measured."""
    cov = Coverage(subject.model, subject.tokenizer, batch_size=BATCH, max_length=MAX_LENGTH)
    cov.calibrate(train, cache=False)
    engine, identity = cov.engine, cov.data.identity

    def fresh() -> Coverage:
        return Coverage._of(CoverageData(identity), engine)

    def without_signatures(texts: list[str]) -> object:
        engine.signatures = False
        try:
            return fresh().update(texts, context="tweets")
        finally:
            engine.signatures = True

    return {
        "calibrate": lambda texts: engine.calibrate(texts, cache=False),
        "update": lambda texts: fresh().update(texts, context="tweets"),
        "update, no signatures": without_signatures,
        "filter": lambda texts: fresh().filter(texts),
        "update with gains": lambda texts: fresh().update(texts, context="tweets", gains=True),
    }


def other_ways(subject: Subject, train: list[str], name: str, **options: Any) -> dict[str, Way]:
    """Return the same with other options of `Coverage`."""
    options = {"batch_size": BATCH, "max_length": MAX_LENGTH, **options}
    cov = Coverage(subject.model, subject.tokenizer, **options).calibrate(train, cache=False)
    engine, identity = cov.engine, cov.data.identity

    def fresh() -> Coverage:
        return Coverage._of(CoverageData(identity), engine)

    return {
        f"update, {name}": lambda texts: fresh().update(texts, context="tweets"),
        f"gains, {name}": lambda texts: fresh().update(texts, context="tweets", gains=True),
    }


def masked_ways(subject: Subject, train: list[str]) -> dict[str, Way]:
    """Return them with masks, which cost memory of their own."""
    return other_ways(subject, train, "masks", masks=random_masks(subject, tweets()))


def criteria_ways(subject: Subject, train: list[str]) -> dict[str, Way]:
    """Return them with five criteria at once, and with neurons that all positions share."""
    return {
        **other_ways(subject, train, "five criteria", criteria=FIVE),
        **other_ways(subject, train, "mean", positions="mean"),
        **other_ways(subject, train, "mean of hidden", positions="mean", sites="hidden"),
    }


def random_masks(subject: Subject, texts: list[str]) -> Masks:
    """Return masks with a random score for every word and for every pair that texts hold."""
    known = vocabulary(subject.tokenizer)
    ids = subject.encode(texts, MAX_LENGTH).ids()
    keys, counts = count_pairs(ids, len(known.words), known.special, 1)
    random = np.random.default_rng(0)
    return Masks(
        known.fingerprint,
        known.words,
        known.special,
        random.random(len(known.words), dtype=np.float32),
        np.ones(len(known.words), dtype=np.int64),
        keys,
        random.random(len(keys), dtype=np.float32),
        counts,
    )


def seconds(way: Way, texts: list[str]) -> float:
    """Time one call; it ends with results on the CPU, so a GPU has finished by then too."""
    start = time.perf_counter()
    way(texts)
    return time.perf_counter() - start


def compare(subject: Subject, texts: list[str], rounds: int) -> dict[str, Any]:
    """Time all ways in alternating rounds; return the best, all of them, and the ratios."""
    every = {PLAIN: plain_forward(subject), "plain, side by side": plain_parallel(subject)}
    every |= {"pipeline": hugging_face_pipeline(subject)}
    every |= coverage_ways(subject, texts[:500]) | masked_ways(subject, texts[:500])
    every |= criteria_ways(subject, texts[:500])
    for way in every.values():
        way(texts[:64])
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(rounds):
        for name, way in every.items():
            times[name].append(seconds(way, texts))
    floor = np.array(times[PLAIN])
    return {
        "texts": len(texts),
        "seconds": {name: min(t) for name, t in times.items()},
        "all_seconds": times,
        "ratio": {name: min(t) / floor.min() for name, t in times.items()},
        "median_ratio": {name: float(np.median(np.array(t) / floor)) for name, t in times.items()},
    }


def memory(subject: Subject, model: str, texts: list[str]) -> dict[str, Any]:
    """Return the peak of each way, each in a process of its own, and what is allowed."""
    ways = ("calibrate", "update", "filter", "update with gains")
    few = texts[:600]  # the longest batch decides, not the number of texts
    own = peak_mib(PLAIN, len(few), model)
    return {
        "peak_mib": {way: peak_mib(way, len(few), model) - own for way in ways},
        "peak_mib_allowed": allowed_mib(subject, few),
    }


def allowed_mib(subject: Subject, texts: list[str]) -> float:
    """Return ranges + three maps + one context's map + two layers' activations of one batch."""
    engine = Coverage(subject.model, subject.tokenizer, max_length=MAX_LENGTH).engine
    slots, map_bytes = engine.layout.slots, 2
    lengths = subject.encode(texts, MAX_LENGTH).lengths.tolist()
    batches = [(len(rows), lengths[rows[0]]) for rows in batches_by_length(lengths, BATCH)]
    hidden, attention = engine.layout.sites[1], engine.layout.sites[-1]
    layer = max(n * (hidden.touched(t) + attention.touched(t)) for n, t in batches) * 4
    return (slots * 8 + 4 * slots * map_bytes + 2 * layer) / 2**20


def growth(subject: Subject, texts: list[str], sizes: list[int]) -> list[dict[str, Any]]:
    """Time the ways on more and more texts."""
    every = {PLAIN: plain_forward(subject), **coverage_ways(subject, texts[:500])}
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"texts": size}
        for name in (PLAIN, "update", "filter"):
            row[name] = seconds(every[name], texts[:size])
        rows.append(row)
    return rows


COMPILE = """
import time, numpy as np
from mncover.engine.kernels import loops as k
start = time.perf_counter()
v, r = np.zeros((2, 1, 8), np.float32), np.zeros((1, 8), np.float32)
w, c = np.zeros((1, 8), np.uint16), np.zeros((2, 1, 8), np.uint8)
k.widen(v, r, r.copy())
k.hit(v, r, r, 10, w, None, None)
k.encode(v, r, r, 10, c, 255)
packed = np.zeros((2, 4), np.uint8)
k.pack_halves(c.reshape(2, 8), packed)
k.unpack_halves(packed[0], np.array([8]), c[0, 0])
table = np.array([(0, 1, 4, 2, 4, 0)])
k.walk(c[0, 0], 255, table, 2, 1, w[0], True)
k.copy_touched(table, 2, 1, w[0], w[0].copy())
keep = np.ones((2, 8), np.uint8)
k.hit(v, r, r, 10, w, w.copy(), keep)
k.mask_codes(c[0, 0], 255, table, 2, keep[0], keep.reshape(4, 4), c[0, 0].copy())
print(time.perf_counter() - start)
"""


def compile_seconds() -> float:
    """Return how long a machine that has never compiled the kernels takes to do so."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], env=environment, check=True, capture_output=True
        )
    return float(done.stdout)


def show(console: Console, title: str, found: dict[str, Any]) -> None:
    table = Table(title=f"{title}, {found['texts']:,} texts", title_justify="left")
    for name in ("", "seconds", "texts/s", "ratio", "median", "limit", "peak MiB"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    peaks = found.get("peak_mib", {})
    for name, best in found["seconds"].items():
        ratio, limit = found["ratio"][name], LIMITS.get(name)
        table.add_row(
            name,
            f"{best:.2f}",
            f"{found['texts'] / best:,.0f}",
            f"{ratio:.3f}",
            f"{found['median_ratio'][name]:.3f}",
            "" if limit is None else f"{limit:.2f} {'ok' if ratio <= limit else 'missed'}",
            f"{peaks[name]:.1f}" if name in peaks else "",
        )
    console.print(table)
    for masked, plain in (("update, masks", "update"), ("gains, masks", "update with gains")):
        best, median = (found[kind][masked] / found[kind][plain] - 1 for kind in RATIOS)
        console.print(
            f"masks add {best:.1%} to '{plain}' by best, {median:.1%} by median (limit 5 %)"
        )
    for five, plain in (
        ("update, five criteria", "update"),
        ("gains, five criteria", "update with gains"),
    ):
        best, median = (found[kind][five] / found[kind][plain] for kind in RATIOS)
        console.print(
            f"five criteria take {best:.3f} times '{plain}' by best, {median:.3f} by median "
            "(limit 1.15)"
        )
    best, median = (
        found[kind]["update"] / found[kind]["update, no signatures"] - 1 for kind in RATIOS
    )
    console.print(
        f"signatures add {best:.1%} to 'update' by best, {median:.1%} by median (limit 2 %)"
    )
    if peaks:
        console.print(f"peak memory allowed above the plain pass: {found['peak_mib_allowed']:.1f}")


def show_growth(console: Console, rows: list[dict[str, Any]]) -> None:
    names = [name for name in rows[0] if name != "texts"]
    table = Table(title="Growth: milliseconds per text", title_justify="left")
    for name in ("texts", *names):
        table.add_column(name, justify="right")
    for row in rows:
        per_text = [f"{row[name] / row['texts'] * 1000:.3f}" for name in names]
        table.add_row(f"{row['texts']:,}", *per_text)
    console.print(table)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="no growth, no BERT-base")
    parser.add_argument("--model", default="demo", help="a folder; the demo model if not given")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/speed.json"))
    return parser.parse_args()


def measure_model(
    console: Console, model: str, texts: list[str], rounds: int, device: str
) -> dict[str, Any]:
    subject = subject_named(model, device)
    found = compare(subject, texts, rounds)
    if device == "cpu":
        found |= memory(subject, model, texts)
    show(console, model, found)
    return found


def main() -> None:
    asked, console = options(), Console()
    texts, device = tweets(), asked.device
    results: dict[str, Any] = {"machine": platform.platform(), "torch": torch.__version__}
    results["threads"] = torch.get_num_threads()
    if device == "cpu":
        results["compile_s"] = compile_seconds()
        console.print(f"compiling all kernels once: {results['compile_s']:.1f} s (limit 15)")
    else:
        results["device"] = torch.cuda.get_device_name()
    few = texts[: asked.texts]
    results["model"] = measure_model(console, asked.model, few, asked.rounds, device)
    if not asked.quick:
        sizes = [n for n in (1000, 2000, 4000, 8000) if n <= len(texts)]
        results["growth"] = growth(subject_named(asked.model, device), texts, sizes)
        show_growth(console, results["growth"])
        base = few[: len(few) // 4]
        results["bert_base"] = measure_model(console, "random-bert-base", base, 3, device)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(results, indent=1))
    console.print(f"written to {asked.output}")


if __name__ == "__main__":
    main()
