"""How much faster Algorithm 1 is in batches than attempt by attempt.

    python -m benchmarks.augmentation [--seeds N] [--encoder MODEL] [-o FILE]

Both searches are given the same seeds, SST-2 phrases of at least eight words, and must find the
same texts. The slow one is that of the tests: one attempt, one text at a time, coverage in NumPy
arrays. "One by one" is the same with the coverage of this package, which is quicker.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.slow_augment import PlainCoverage, slow_augment, slow_cosine

from mncover import Coverage
from mncover.augment.grower import Grower, usable_transforms
from mncover.augment.judge import Embedder
from mncover.augment.records import AugmentSettings
from mncover.augment.transforms import Resources
from mncover.cli.demo import demo_model
from mncover.engine.loading import load_subject

PHRASES = Path(__file__).resolve().parents[2] / "shared/data/sst2/train.jsonl.gz"
TARGET = 5.0
MAX_LENGTH = 128


def phrases(path: Path) -> list[str]:
    if not path.is_file():
        raise SystemExit(f"the benchmark needs {path}, which is not there")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def compare(seeds: int, encoder: str | None, masked_lm: str | None) -> dict[str, Any]:
    """Time both searches, and check that they find the same."""
    known = phrases(PHRASES)
    chosen = [text for text in known if len(text.split()) >= 8][:seeds]
    resources = Resources(masked_lm=masked_lm)
    transforms, missing = usable_transforms((), resources)
    settings = AugmentSettings(tuple(transforms))
    subject = load_subject(str(demo_model()))
    compared = subject if encoder is None else load_subject(encoder)
    coverage = Coverage(subject.model, subject.tokenizer, max_length=MAX_LENGTH, progress=False)
    coverage.calibrate(known)
    engine = coverage.engine
    grower = Grower(engine, Embedder(compared, MAX_LENGTH), transforms, resources)
    grower.grow(chosen[:8], settings)  # compiles kernels, loads dictionaries

    started = time.perf_counter()
    found = grower.grow(chosen, settings)
    fast = time.perf_counter() - started
    cosine = slow_cosine(compared.traced, compared.tokenizer, MAX_LENGTH)
    assert engine.ranges is not None
    slowly: dict[str, PlainCoverage | Coverage] = {
        "slow": PlainCoverage(subject.model, subject.tokenizer, engine.ranges, 10),
        "one_by_one": coverage,
    }
    seconds: dict[str, float] = {}
    outcomes = []
    for name, measured in slowly.items():
        started = time.perf_counter()
        outcomes.append(slow_augment(measured, cosine, chosen, transforms, settings))
        seconds[name] = time.perf_counter() - started
    mine = [(one.seed, one.text, one.transforms) for one in found.accepted]
    return {
        "seeds": len(chosen),
        "transforms": len(transforms),
        "without": sorted(missing),
        "encoder": encoder or "the subject",
        "accepted": len(found.accepted),
        "attempts": found.tally.attempts,
        "texts_run": found.texts_run,
        "equal": all(outcome == mine for outcome in outcomes),
        "fast_seconds": round(fast, 2),
        "slow_seconds": round(seconds["slow"], 2),
        "ratio": round(seconds["slow"] / fast, 2),
        "one_by_one_seconds": round(seconds["one_by_one"], 2),
        "one_by_one_ratio": round(seconds["one_by_one"] / fast, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--encoder", help="a sentence encoder; without it the subject compares")
    parser.add_argument("--masked-lm", help="a fill-mask model, for WordSwapMaskedLM")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    result = compare(options.seeds, options.encoder, options.masked_lm)
    console = Console()
    for name, value in result.items():
        console.print(f"{name:>18}  {value}", highlight=False)
    verdict = "met" if result["ratio"] >= TARGET and result["equal"] else "missed"
    console.print(f"{'target':>18}  {TARGET:g} times faster, and equal: {verdict}")
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
