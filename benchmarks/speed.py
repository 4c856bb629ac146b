"""How much coverage costs: every way of running the same texts, in one process, side by side.

    python -m benchmarks.speed [--texts N] [--quick] [-o results.json]

The floor is a plain forward pass with sdpa attention over length-sorted, unpadded batches, from
strings to predictions. Rounds of all ways alternate, and the best of a way's rounds counts, so
that a noisy moment hits no single way. Peak memory is the resident size above what the process
had with the model loaded and warm.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
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

from mncover.batches import Encoding, batches_by_length
from mncover.coverage import Coverage
from mncover.data import CoverageData
from mncover.demo.model import demo_model
from mncover.loading import load_subject
from mncover.subject import Subject

SHARED = Path(__file__).resolve().parents[2] / "shared"
TWEETS = SHARED / "data" / "airline" / "tweets.jsonl.gz"
LIMITS = {"update": 1.05, "filter": 1.10, "calibrate": 1.10, "update with gains": 1.10}
BATCH = 32

Way = Callable[[list[str]], object]


def tweets() -> list[str]:
    if not TWEETS.is_file():
        raise SystemExit(f"the benchmark needs {TWEETS}, which is not there")
    with gzip.open(TWEETS, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def tensors(subject: Subject, encodings: list[Encoding]) -> dict[str, torch.Tensor]:
    names = encodings[0].inputs
    device = subject.device
    return {n: torch.tensor([e.inputs[n] for e in encodings], device=device) for n in names}


def plain_forward(subject: Subject) -> Way:
    """Return the floor: tokenise, sort by length, run without padding, take probabilities."""
    subject.model.set_attn_implementation("sdpa")

    def run(texts: list[str]) -> object:
        encodings = subject.encode(texts, 128)
        found = np.empty((len(texts), subject.n_labels), dtype=np.float32)
        with torch.inference_mode():
            for rows in batches_by_length([e.length for e in encodings], BATCH):
                ids = [encodings[row].inputs for row in rows]
                inputs = {
                    k: torch.tensor([i[k] for i in ids], device=subject.device) for k in ids[0]
                }
                found[rows] = subject.model(**inputs).logits.softmax(-1).cpu().numpy()
        return found

    return run


def hugging_face_pipeline(subject: Subject) -> Way:
    pipe = transformers.pipeline(
        "text-classification",
        model=subject.model,
        tokenizer=subject.tokenizer,
        device=subject.device,
    )
    return lambda texts: pipe(texts, batch_size=BATCH, truncation=True, max_length=128)


def ways(subject: Subject, train: list[str]) -> dict[str, Way]:
    """Return every way of running texts; each starts from nothing measured."""
    cov = Coverage(subject.model, subject.tokenizer)
    cov.calibrate(train, cache=False)

    def fresh() -> Coverage:
        return Coverage._of(CoverageData(cov.data.identity), cov._engine)

    def calibrate(texts: list[str]) -> object:
        assert cov._engine is not None
        return cov._engine.calibrate(texts, cache=False)

    return {
        "plain forward": plain_forward(subject),
        "pipeline": hugging_face_pipeline(subject),
        "calibrate": calibrate,
        "update": lambda texts: fresh().update(texts, context="tweets"),
        "filter": lambda texts: fresh().filter(texts),
        "update with gains": lambda texts: fresh().update(texts, context="tweets", gains=True),
    }


def seconds(way: Way, texts: list[str]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    way(texts)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(
    subject: Subject, texts: list[str], rounds: int, skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Time all ways in alternating rounds; return the best, all of them, and the ratios."""
    every = {k: v for k, v in ways(subject, texts[:500]).items() if k not in skip}
    compile_start = time.perf_counter()
    for way in every.values():
        way(texts[:64])
    warm = time.perf_counter() - compile_start
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(rounds):
        for name, way in every.items():
            times[name].append(seconds(way, texts))
    floor = min(times["plain forward"])
    pairs = {n: np.array(t) / np.array(times["plain forward"]) for n, t in times.items()}
    return {
        "texts": len(texts),
        "warm_up_s": warm,
        "seconds": {name: min(t) for name, t in times.items()},
        "all_seconds": times,
        "ratio": {name: min(t) / floor for name, t in times.items()},
        "median_ratio": {name: float(np.median(p)) for name, p in pairs.items()},
        "peak_mib_allowed": allowed_memory(subject, texts),
    }


def allowed_memory(subject: Subject, texts: list[str]) -> float:
    """Return ranges + three maps + one context's map + two layers' activations of one batch."""
    engine = Coverage(subject.model, subject.tokenizer)._engine
    assert engine is not None
    slots = engine.layout.slots
    lengths = [e.length for e in subject.encode(texts, 128)]
    batches = [(len(rows), lengths[rows[0]]) for rows in batches_by_length(lengths, BATCH)]
    hidden, attention = engine.layout.sites[1], engine.layout.sites[-1]
    layer = max(n * (hidden.touched(t) + attention.touched(t)) for n, t in batches) * 4
    return (slots * 8 + 4 * slots * 2 + 2 * layer) / 2**20


def growth(subject: Subject, texts: list[str], sizes: list[int]) -> list[dict[str, Any]]:
    """Time the ways on more and more texts."""
    every = ways(subject, texts[:500])
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"texts": size}
        for name in ("plain forward", "update", "filter"):
            row[name] = min(seconds(every[name], texts[:size]) for _ in range(2))
        rows.append(row)
    return rows


def random_bert_base(subject: Subject) -> Subject:
    """Return a BERT-base of random weights with the demo model's tokenizer."""
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=30522, num_labels=2)
    model = transformers.BertForSequenceClassification(config).eval().to(subject.device)
    return Subject(model, subject.tokenizer, "random BERT-base")


def compile_seconds() -> float:
    """Return how long a machine that has never compiled the kernels takes to do so."""
    import os
    import subprocess
    import sys

    code = (
        "import time, numpy as np; from mncover import bins as k; t = time.perf_counter();"
        "v = np.zeros((2, 1, 2, 4), np.float32); r = np.zeros((1, 3, 4), np.float32);"
        "w = np.zeros((1, 3, 4), np.uint16); c = np.zeros((2, 1, 2, 4), np.uint8);"
        "k.widen(v, r, r.copy(), False); k.hit(v, r, r, 10, w);"
        "k.novel(v, r, r, 10, w, np.zeros(2, np.int64)); k.encode(v, r, r, 10, c, 255);"
        "t1 = np.array([(0, 1, 4, 3, 4, 0)]); k.walk(c[0].ravel(), 255, t1, 2, 1, w.ravel(), True);"
        "k.copy_touched(t1, 2, 1, w.ravel(), w.ravel().copy());"
        "print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, capture_output=True
        )
    return float(done.stdout)


def show(console: Console, title: str, found: dict[str, Any]) -> None:
    table = Table(title=f"{title}, {found['texts']:,} texts", title_justify="left")
    for name in ("", "seconds", "texts/s", "ratio", "median ratio", "limit", "peak MiB"):
        table.add_column(name, justify="left" if not name else "right")
    for name, best in found["seconds"].items():
        ratio, limit = found["ratio"][name], LIMITS.get(name)
        table.add_row(
            name,
            f"{best:.2f}",
            f"{found['texts'] / best:,.0f}",
            f"{ratio:.3f}",
            f"{found['median_ratio'][name]:.3f}",
            "" if limit is None else f"{limit:.2f} {'ok' if ratio <= limit else 'MISSED'}",
            f"{found['peak_mib'][name]:.1f}",
        )
    console.print(table)
    console.print(f"peak memory allowed: {found['peak_mib_allowed']:.1f} MiB above the model's own")


def show_growth(console: Console, rows: list[dict[str, Any]]) -> None:
    names = [name for name in rows[0] if name != "texts"]
    table = Table(title="Growth: milliseconds per text", title_justify="left")
    for name in ("texts", *names):
        table.add_column(name, justify="right")
    for row in rows:
        per_text = [f"{row[name] / row['texts'] * 1000:.3f}" for name in names]
        table.add_row(f"{row['texts']:,}", *per_text)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="fewer texts, no growth")
    parser.add_argument("--model", default=None, help="a folder; the demo model if not given")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/speed.json"))
    options = parser.parse_args()
    console = Console()
    texts = tweets()
    n = 500 if options.quick else options.texts
    subject = load_subject(options.model or str(demo_model()), device=options.device)
    results: dict[str, Any] = {"machine": platform.platform(), "torch": torch.__version__}
    results["threads"] = torch.get_num_threads()
    if options.device == "cpu":
        results["compile_s"] = compile_seconds()
        console.print(f"compiling all kernels once: {results['compile_s']:.1f} s (limit 15)")
    results["minilm"] = compare(subject, texts[:n], options.rounds)
    show(console, "MiniLM", results["minilm"])
    if not options.quick:
        results["growth"] = growth(subject, texts, [1000, 2000, 4000, 8000])
        show_growth(console, results["growth"])
    base = random_bert_base(subject)
    results["bert_base"] = compare(base, texts[: n // 4], max(2, options.rounds // 2))
    show(console, "random BERT-base", results["bert_base"])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1))
    console.print(f"written to {options.output}")


if __name__ == "__main__":
    main()
