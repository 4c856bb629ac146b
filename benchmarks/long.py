"""What measuring long prompts costs, in time and memory, beside a plain prefill.

    python -m benchmarks.long MODEL [--prompts 20] [--shortest 1000] [--longest 4000] [--part 5]
        [--rounds 1] [-o FILE]

MODEL is a causal language model. Prompts are SST-2 sentences one behind the other, with lengths
spread evenly. The plain prefill is the leanest one: sdpa attention, one prompt after the other on
all threads, no cache, the logits of the last token alone. Every way takes `--part` prompts in turn,
so that a noisy moment hits no single way. "Busy" is the ratio of the processor time of all threads,
which other programs on the machine disturb less. Peak memory is that of a process that runs all
prompts one way and does nothing else; the model is loaded in it, too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.criteria import Round, timed
from benchmarks.memory import PEAK, reset_peak, resident_mib
from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.engine.loading import load_subject
from mncover.engine.subject import Subject

TRAIN = Path(__file__).resolve().parents[2] / "shared/data/sst2/train.jsonl.gz"
PLAIN = "plain prefill"
MEASURED: dict[str, dict[str, Any]] = {
    "mean, hidden": {"positions": "mean", "sites": "hidden"},
    "any, hidden": {"positions": "any", "sites": "hidden"},
    "mean, hidden and attention": {"positions": "mean"},
}
LIMIT, MOST_MIB = 1.15, 200
SPARE = 16  # tokens that a prompt may have more than it should

Way = Callable[[list[str]], object]


def prompts_of(tokenizer: Any, n: int, shortest: int, longest: int) -> list[str]:
    """Return prompts of sentences, the i-th of about the i-th length."""
    with gzip.open(TRAIN, "rt", encoding="utf-8") as file:
        sentences = [json.loads(line)["text"].strip() for line in file]
    sizes = [len(ids) for ids in tokenizer(sentences, add_special_tokens=False).input_ids]
    random, found = np.random.default_rng(0), []
    for wanted in np.linspace(shortest, longest, n).round().astype(int).tolist():
        chosen: list[str] = []
        for place in random.permutation(len(sentences)).tolist():
            if wanted <= SPARE // 2:
                break
            chosen.append(sentences[place])
            wanted -= sizes[place] + 1
        found.append(". ".join(chosen))
    return found


def plain_prefill(subject: Subject) -> Way:
    """Return what runs prompts without any of mncover."""

    @torch.inference_mode()
    def run(prompts: list[str]) -> None:
        for prompt in prompts:
            ids = subject.tokenizer(prompt, return_tensors="pt").input_ids
            subject.model(input_ids=ids, use_cache=False, logits_to_keep=1)

    subject.model.set_attn_implementation("sdpa")
    return run


def measuring(subject: Subject, calibration: list[str], longest: int, options: Any) -> Way:
    """Return what measures prompts; each call starts from nothing measured."""
    cov = Coverage(subject.model, subject.tokenizer, max_length=longest + SPARE, **options)
    cov.calibrate(calibration, cache=False, yardstick=False)
    engine, identity = cov.engine, cov.data.identity

    def run(prompts: list[str]) -> None:
        Coverage._of(CoverageData(identity), engine).update(prompts, context="long", gains=True)

    return run


def way_of(name: str, subject: Subject, asked: argparse.Namespace) -> Way:
    """Return a way by its name."""
    if name == PLAIN:
        return plain_prefill(subject)
    few = prompts_of(subject.tokenizer, 2, 64, 96)
    return measuring(subject, few, asked.longest, MEASURED[name])


def times(asked: argparse.Namespace) -> dict[str, Round]:
    """Return the best of the rounds of each way, for all prompts."""
    subject = load_subject(asked.model)
    prompts = prompts_of(subject.tokenizer, asked.prompts, asked.shortest, asked.longest)
    # Neighbours are about equally long: every part gets prompts of all lengths.
    parts = -(-len(prompts) // asked.part)
    every = {name: way_of(name, subject, asked) for name in (PLAIN, *MEASURED)}
    for way in every.values():
        way(prompts[:1])
    rounds: list[dict[str, Any]] = []
    for _ in range(asked.rounds):
        spent = {name: np.zeros(2) for name in every}
        for part in range(parts):
            for name, way in every.items():
                subject.model.set_attn_implementation("sdpa")
                spent[name] += timed(way, prompts[part::parts])
        rounds.append(spent)
    return {name: Round(*np.min([one[name] for one in rounds], axis=0).tolist()) for name in every}


def peak(name: str, asked: argparse.Namespace) -> float:
    """Return the peak of a fresh process that runs all prompts one way, in MiB."""
    numbers = [f"--{key}={getattr(asked, key)}" for key in ("prompts", "shortest", "longest")]
    command = [sys.executable, "-m", "benchmarks.long", asked.model, f"--peak={name}", *numbers]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def own_peak(asked: argparse.Namespace) -> float:
    """Return the peak of this process, in MiB, once it has run all prompts."""
    subject = load_subject(asked.model)
    prompts = prompts_of(subject.tokenizer, asked.prompts, asked.shortest, asked.longest)
    way = way_of(asked.peak, subject, asked)
    way(prompts_of(subject.tokenizer, 2, 64, 96))
    reset_peak()
    way(prompts)
    return resident_mib(PEAK)


def show(found: dict[str, dict[str, float]]) -> Table:
    """Return a table with a row for each way."""
    titles = f"ratio (limit {LIMIT})", "busy", "peak MiB", f"above (limit {MOST_MIB})"
    table = Table("", "seconds", *titles)
    for name, row in found.items():
        above = row["peak"] - found[PLAIN]["peak"]
        ratios = [f"{row[kind] / found[PLAIN][kind]:.3f}" for kind in ("seconds", "busy")]
        table.add_row(name, f"{row['seconds']:.1f}", *ratios, f"{row['peak']:.0f}", f"{above:+.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--shortest", type=int, default=1000)
    parser.add_argument("--longest", type=int, default=4000)
    parser.add_argument("--part", type=int, default=5, help="prompts that a way takes in turn")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/long.json"))
    asked = parser.parse_args()
    if asked.peak:
        print(own_peak(asked))
        return
    spent = times(asked)
    found = {name: {**one._asdict(), "peak": peak(name, asked)} for name, one in spent.items()}
    Console(width=110).print(show(found))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
