"""What coverage costs on a GPU, beside a plain pass over the same batches.

    python -m benchmarks.gpu speed TOKENIZER SUITE [--texts 40000] [--models bert-base minilm …]
    python -m benchmarks.gpu suite TOKENIZER SUITE [--model bert-base] [--dtype float32]
    python -m benchmarks.gpu agree MODEL SUITE [--texts 20000] [--dtypes float32 float16]

`speed` takes texts of a suite, tokenised before, and lets a plain pass (sdpa attention) and
everything the engine does with texts take turns. Models have the shapes of known ones and random
weights. `suite` is `mncover run` of a whole suite from strings to the data file, part by part.
`agree` compares a real model's bins and answers with those of eager attention, and with those of
other batch sizes.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from mncover.coverage import Coverage
from mncover.criteria.binned import BINS
from mncover.data.signatures import reference_places
from mncover.engine.batches import batches_by_length, staged
from mncover.engine.first_hits import FirstHits, kernels_in_order
from mncover.engine.kernels.base import Target
from mncover.engine.measure import measure
from mncover.engine.ranges import Ranges
from mncover.engine.readers import HitReader, WidenReader
from mncover.engine.sample import SampleReader, Sampling
from mncover.engine.signatures import PoolReader
from mncover.masks.masks import Masks
from mncover.suites.formats import load_suite
from mncover.suites.rows import Rows

BERT: dict[str, dict[str, Any]] = {
    "bert-base": {},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
}
LABELS = {"id2label": {0: "negative", 1: "positive"}}
LLAMA: dict[str, Any] = {  # the shape of SmolLM2-135M
    "vocab_size": 30522,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "pad_token_id": 0,
}
MODELS = (*BERT, "smollm")


def model_of(name: str, kind: torch.dtype) -> Any:
    """Return a model of a known shape with random weights."""
    torch.manual_seed(0)
    if name == "smollm":
        made: Any = LlamaForSequenceClassification(LlamaConfig(**LLAMA, **LABELS))
    else:
        made = BertForSequenceClassification(BertConfig(**BERT[name], **LABELS))
    return made.to("cuda", kind).eval()


class Ways:
    """The plain pass and all ways of measuring, over the same texts."""

    def __init__(self, cov: Coverage, texts: list[Any], masks: Masks) -> None:
        engine = self.engine = cov.engine
        self.texts, self.n = texts, len(texts)
        self.tokens = engine.subject.encode(texts, engine.settings.max_length)
        self.masked = Coverage(engine.subject.model, engine.subject.tokenizer, masks=masks)
        low, high = self.calibrate()
        lengths = np.bincount(self.tokens.lengths, minlength=engine.settings.max_length + 1)
        ranges = Ranges(engine.layout, low, high, lengths, self.n)
        ranges.forget_future()
        for one in (engine, self.masked.engine):
            one.use_ranges(ranges)
        self.sampling = Sampling(
            ranges, engine.setups.groups[0], engine.settings, engine.subject.device
        )

    def plain(self) -> Any:
        """Run the model as torch does it."""
        subject, found = self.engine.subject, []
        batches = batches_by_length(self.tokens.lengths, *subject.limits(None))
        with subject.measuring("sdpa"), torch.inference_mode():
            for _, inputs in staged(self.tokens, batches, subject.device):
                found.append(subject.probabilities(subject.call(subject.runner, inputs), inputs))
        return torch.cat([one for one in found if one is not None]).cpu().numpy()

    def calibrate(self) -> Any:
        """Find ranges, and the pooled states of reference texts."""
        engine, kernels = self.engine, self.engine.kernels
        bounds = kernels.new_bounds()
        mine = reference_places(self.n, [site.columns for site in engine.layout.sites[:3]])
        pools = PoolReader.raw(
            WidenReader([engine.setups.widening._replace(bounds=bounds)]),
            engine.layout,
            self.n,
            mine,
        )
        self._measure(engine, pools)
        _ = pools.found
        return tuple(map(kernels.to_numpy, bounds))

    def update(self, engine: Any = None) -> Any:
        """Fill a map; keep answers and signatures."""
        engine = engine or self.engine
        targets = {name: Target(bits) for name, bits in engine.new_maps().items()}
        reader = engine.sign(HitReader(engine.setups.each, targets), self.n)
        found = self._measure(engine, reader)
        return found, reader.signatures, engine.kernels.to_numpy(targets["cover"].bits)

    def update_masked(self) -> Any:
        """Do the same with masks."""
        return self.update(self.masked.engine)

    def gains(self, engine: Any = None) -> Any:
        """Return gains in order, with texts of forty contexts in turn."""
        engine, contexts = engine or self.engine, 40
        kernels = kernels_in_order(engine.setups.each)
        assert kernels is not None
        hits = FirstHits.over(engine.setups.each, kernels, engine.new_maps(), contexts)
        numbers = np.arange(self.n)
        signed = engine.sign(hits.reader(numbers, numbers * contexts // self.n), self.n)
        reader = SampleReader(signed, self.sampling)
        found = self._measure(engine, reader)
        return found, signed.signatures, hits.new("cover", self.n), reader.blocks(numbers)

    def gains_masked(self) -> Any:
        """Do the same with masks."""
        return self.gains(self.masked.engine)

    def filter(self) -> Any:
        """Say which texts add anything to those before them."""
        engine = self.engine
        setups = engine.setups.alone("cover")
        kernels = kernels_in_order(setups)
        assert kernels is not None
        hits = FirstHits.over(setups, kernels, {"cover": engine.new_bits("cover")})
        numbers = np.arange(self.n)
        self._measure(engine, hits.reader(numbers, np.zeros_like(numbers)))
        return engine.gain("cover", *hits.new("cover", self.n)) > 0

    def _measure(self, engine: Any, reader: Any) -> Any:
        what = (self.texts, self.tokens, reader, engine.batch_size, lambda n: None)
        return measure(engine.taps, *what)


NAMES = ("plain", "calibrate", "update", "gains", "filter", "update_masked", "gains_masked")


def speed(asked: argparse.Namespace) -> None:
    """Print the table of times."""
    torch.set_float32_matmul_precision("high")
    tokenizer = AutoTokenizer.from_pretrained(asked.tokenizer)
    texts = list(dict.fromkeys(load_suite(asked.suite).each_text()))[:: asked.every][: asked.texts]
    title = f"{len(texts):,} texts, best seconds (and ratio to plain)"
    table = Table("model", "type", *NAMES, "MiB above plain", title=title)
    for name in asked.models:
        for dtype in asked.dtypes:
            model = model_of(name, getattr(torch, dtype))
            cov = Coverage(model, tokenizer)
            print(name, dtype, cov.engine.kernels.name, cov.engine.taps.eager_because or "fused")
            ways = Ways(cov, texts, random_masks(cov))
            seconds, memory = alternate(ways, asked.rounds)
            if not asked.rounds:
                continue
            best = [min(seconds[one]) for one in NAMES]
            cells = [f"{s:.3f} ({s / best[0]:.2f})" for s in best]
            table.add_row(name, dtype, *cells, f"{memory:.0f}")
            middle = [f"{median(seconds[one]) / median(seconds['plain']):.2f}" for one in NAMES]
            table.add_row("", "medians", *middle, "")
            print(name, dtype, *cells, f"{memory:.0f} MiB; medians", *middle, flush=True)
            del ways, cov, model
            torch.cuda.empty_cache()
    Console(width=180).print(table)


def alternate(ways: Ways, rounds: int) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each way in every round, and the memory that gains need."""
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    peak: dict[str, float] = {}
    for number in range(rounds + 1):  # the first compiles
        for name in NAMES:
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            gc.disable()  # as timeit does: it comes when it comes, to whoever is running
            start = time.perf_counter()
            getattr(ways, name)()
            torch.cuda.synchronize()
            gc.enable()
            peak[name] = torch.cuda.max_memory_allocated() / 2**20
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds, peak["gains"] - peak["plain"]


def random_masks(cov: Coverage) -> Masks:
    """Return masks that keep half of the words and pairs."""
    engine, rng = cov.engine, np.random.default_rng(0)
    tokenizer = engine.subject.tokenizer
    words = tuple(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    keys = np.unique(rng.integers(0, len(words) ** 2, 1_000_000))
    first, second = keys // len(words), keys % len(words)
    keys = keys[first < second]
    return Masks(
        tokenizer_fingerprint=engine.tokenizer_fingerprint,
        words=words,
        special=np.array(sorted(tokenizer.all_special_ids)),
        word_scores=rng.random(len(words), dtype=np.float32),
        word_counts=np.ones(len(words), dtype=np.int64),
        pair_keys=keys,
        pair_scores=rng.random(len(keys), dtype=np.float32),
        pair_counts=np.ones(len(keys), dtype=np.int64),
    )


class Clock:
    """Adds up the seconds of calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Any:
        """Time a block."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are timed."""

        def call(*given: Any, **options: Any) -> Any:
            with self.of(name):
                return function(*given, **options)

        return call


def suite(asked: argparse.Namespace) -> None:
    """Time a run of a whole suite, from strings to the data file."""
    torch.set_float32_matmul_precision("high")
    tokenizer, clock = AutoTokenizer.from_pretrained(asked.tokenizer), Clock()
    cov = Coverage(model_of(asked.model, getattr(torch, asked.dtype)), tokenizer)
    _ = cov.engine.model_fingerprint
    with clock.of("read the suite"):
        rows = Rows.of_suite(asked.suite, load_suite(asked.suite))
    with clock.of("calibrate on 10,000 texts"):
        cov.calibrate(list(dict.fromkeys(rows.texts))[::9][:10_000], cache=False)
    subject = cov.engine.subject
    subject.encode = clock.wrapped("tokenise (beside the model)", subject.encode)  # type: ignore[method-assign]
    with TemporaryDirectory() as folder:
        for number in range(2):
            before = dict(clock.seconds)
            with clock.of(f"run {number + 1}"):
                found = cov.run(rows, Path(folder) / f"{number}.mncover", classes=asked.classes)
            apart = clock.seconds["tokenise (beside the model)"]
            apart -= before.get("tokenise (beside the model)", 0)
            whole = clock.seconds[f"run {number + 1}"]
            print(f"run {number + 1}: {whole:.2f} s, of which tokenising {apart:.2f} s")
        with clock.of("result"):
            result = found.result()
    for name, seconds in clock.seconds.items():
        print(f"{name:<30} {seconds:6.2f} s")
    print(f"{len(rows):,} texts, Cover {result.cover:.4f}")


def agree(asked: argparse.Namespace) -> None:
    """Compare fused with eager attention, and batch sizes, text by text."""
    torch.set_float32_matmul_precision(asked.precision)
    every = list(dict.fromkeys(load_suite(asked.suite).each_text()))
    texts, others = every[:: asked.every][: asked.texts], every[1 :: asked.every]
    for dtype in asked.dtypes:
        cov = Coverage(asked.model, device="cuda", dtype=dtype)
        cov.calibrate(others, cache=False)
        engine, base = cov.engine, codes_of(cov, texts, None)
        again = codes_of(cov, texts, None)
        print(dtype, asked.precision, engine.taps.eager_because or "fused")
        print("  the same call again:", difference(base, again))
        for size in (1, 32, 256):
            some = texts if size > 1 else texts[:1000]
            print(f"  batches of {size}:", difference(base, codes_of(cov, some, size)))
        engine.taps = replace(engine.taps, fused=False)
        eager = codes_of(cov, texts, None)
        print("  eager attention:", difference(base, eager))
        theirs, sdpa = (hidden_codes(cov, texts, way) for way in ("eager", "sdpa"))
        pairs = zip(base[0], theirs[0], strict=True)  # hidden states are the first of a text's
        mine = [codes[: len(part)].astype(np.int8) for codes, part in pairs], base[1]
        print("  hidden states alone, against eager:", difference(mine, theirs))
        print("  those of sdpa, against eager:", difference(sdpa, theirs))
        for size in (32, 256):
            print(
                f"  eager, batches of {size}, against eager:",
                difference(eager, codes_of(cov, texts, size)),
            )


def codes_of(cov: Coverage, texts: list[Any], size: int | None) -> Any:
    """Return the codes of texts, text by text, and their answers."""
    engine = cov.engine
    engine.batch_size = size
    codes, answers = [], []
    for window in engine.windows([[text] for text in texts], lambda n: None):
        group = engine.group("cover")
        codes += [
            engine.kernels.to_numpy(window.codes(row, group)) for row in range(len(window.texts))
        ]
        answers.append(window.probabilities)
    return codes, np.concatenate(answers)


def hidden_codes(cov: Coverage, texts: list[Any], attention: str) -> Any:
    """Return the bins of hidden states, text by text, and answers, under some attention.

    What sdpa, which gives no weights, changes in them is what any other order of sums may change.
    """
    engine = cov.engine
    subject, ranges, group = engine.subject, engine.require_ranges(), engine.group("cover")
    spans = dict(engine.layout.spans())
    sites = [site for site in spans if site.kind == "hidden"]
    bounds = [
        [
            torch.as_tensor(side[spans[site]], device=subject.device).view(site.rows, -1)
            for side in (ranges.low, ranges.high)
        ]
        for site in sites
    ]
    tokens = subject.encode(texts, engine.settings.max_length)
    batches = batches_by_length(tokens.lengths, *subject.limits(None))
    codes: list[Any] = [None] * len(texts)
    answers = np.zeros((len(texts), subject.n_labels), np.float32)
    with subject.measuring(attention), torch.inference_mode():
        for batch, inputs in staged(tokens, batches, subject.device):
            found = subject.call(subject.runner, inputs, output_hidden_states=True)
            length = inputs["input_ids"].shape[1]
            parts = [
                BINS.codes(torch, states, low[:length], high[:length], group.cells).flatten(1)
                for states, (low, high) in zip(found.hidden_states, bounds, strict=True)
            ]
            for row, one in zip(batch.rows, torch.cat(parts, 1).cpu().numpy(), strict=True):
                codes[row] = one
            given = subject.probabilities(found, inputs)
            assert given is not None
            answers[batch.rows] = given.cpu().numpy()
    return codes, answers


def difference(one: Any, other: Any) -> str:
    """Say how many bins and answers differ."""
    pairs = list(zip(one[0], other[0], strict=False))
    differ, every = sum((a != b).sum() for a, b in pairs), sum(len(a) for a, _ in pairs)
    n = len(pairs)
    answers = (one[1][:n].argmax(1) != other[1][:n].argmax(1)).sum()
    farthest = np.abs(one[1][:n] - other[1][:n]).max()
    return f"{differ / every:.4%} of the bins, {answers} of {n:,} answers (at most {farthest:.1e})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("speed", speed), ("suite", suite), ("agree", agree)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("model" if name == "agree" else "tokenizer")
        command.add_argument("suite", type=Path)
        command.add_argument("--texts", type=int, default=40_000)
        command.add_argument("--every", type=int, default=1)
        command.add_argument("--rounds", type=int, default=5)
        command.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
        command.add_argument("--dtypes", nargs="+", default=["float32", "float16"])
        command.add_argument("--dtype", default="float32")
        command.add_argument("--precision", default="high")
        command.add_argument("--classes", default="auto")
        if name != "agree":
            command.add_argument("--model", choices=MODELS, default="bert-base")
    asked = parser.parse_args()
    asked.function(asked)


if __name__ == "__main__":
    main()
