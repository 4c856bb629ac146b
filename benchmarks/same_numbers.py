"""Do two builds of mncover print the same numbers? Record what each says, then compare.

    python -m benchmarks.same_numbers record OLD --mncover path/to/old/mncover
    python -m benchmarks.same_numbers record NEW
    python -m benchmarks.same_numbers compare OLD NEW

Recording runs the commands of a build on the demo, on a sample of both CheckList suites with two
models, with and without masks, and on small sizes of the paper's tables, and keeps what they
write. Comparing lays both down side by side, number by number; what moved to another field in a
later format is looked up where it is now.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from tests.folders import assemble

SHARED = Path(__file__).resolve().parents[2] / "shared"
CASES = 12  # of every test
MODELS = ("minilm-sst2", "granite-sst2", "minilm-mrpc", "minilm-nli", "minilm-mlm")


class Recorder:
    """Runs the commands of one build in a folder."""

    def __init__(self, folder: Path, mncover: str) -> None:
        self.folder = folder
        self.mncover = mncover
        self.material = folder.parent / "same-numbers-material"
        folder.mkdir(parents=True, exist_ok=True)
        self.material.mkdir(exist_ok=True)

    def __call__(self, *arguments: object, to: str | None = None) -> None:
        """Run a command; `to` keeps what it prints."""
        environment = {**os.environ, "COLUMNS": "200", "HF_HUB_OFFLINE": "1"}
        environment["MNCOVER_CACHE_DIR"] = str(self.folder / "cache")
        found = subprocess.run(
            [self.mncover, *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            sys.exit(f"mncover {' '.join(map(str, arguments))}\n{found.stderr}")
        if to is not None:
            (self.folder / to).write_text(found.stdout)
        print(f"{arguments[0]} {to or arguments[1]}", flush=True)

    def model(self, name: str) -> Path:
        """Return the folder of a real model, put together on first use."""
        path = self.material / name
        if not path.is_dir():
            assemble(SHARED, name, path)
        return path

    def head(self, source: Path, n: int) -> Path:
        """Return a file with the first lines of a compressed one."""
        path = self.material / f"{n}-{source.parent.name}-{source.stem}"
        if not path.exists():
            with gzip.open(source, "rt") as file:
                path.write_text("".join(line for _, line in zip(range(n), file, strict=False)))
        return path

    def sample(self, suite: str) -> Path:
        """Return a suite with the first cases of every test of a released one."""
        path = self.material / f"{suite}.jsonl"
        if not path.exists():
            whole = self.material / f"{suite}-whole.jsonl"
            self("suite", "convert", SHARED / "data" / "checklist" / f"{suite}.tar.gz", "-o", whole)
            kept, n = [], 0
            for line in whole.read_text().splitlines():
                n = n + 1 if line.startswith('{"case"') else 0
                if n <= CASES:
                    kept.append(line)
            path.write_text("\n".join(kept) + "\n")
        return path


def record(run: Recorder) -> None:
    """Run everything."""
    run("demo", "--folder", "demo")
    run("json", "demo/run.mncover", "--texts", to="demo.json")
    _report(run, "demo/run.mncover", "demo")
    for suite, model, data, length in (
        ("sentiment_suite", "minilm-sst2", "sst2", 64),
        ("sentiment_suite", "granite-sst2", "sst2", 64),
        ("qqp_suite", "minilm-mrpc", "mrpc", 128),
    ):
        _suite(run, suite, model, run.head(SHARED / f"data/{data}/train.jsonl.gz", 2000), length)
    _tables(run)
    _augment(run)


def _report(run: Recorder, file: str, name: str) -> None:
    run("report", file, "--heads", "--failures", 3, to=f"{name}.report.txt")
    run("report", file, "--format", "markdown", "--junit", f"{name}.xml", to=f"{name}.md")


def _suite(run: Recorder, suite: str, model: str, train: Path, length: int) -> None:
    folder, cases = run.model(model), run.sample(suite)
    small = ["texts=1500", "epochs=1", "batch_size=32"]
    masks = run.material / f"{model}-masks.safetensors"
    mine = run.folder / f"{model}-masks.safetensors"
    settings = [part for one in small for part in ("--set", one)]
    run("masks", folder, "--train", train, "-o", mine, *settings, to=f"{model}.masks.txt")
    if not masks.exists():
        masks.write_bytes(mine.read_bytes())
    measured = ["--train", train, "--max-length", length]
    for name, extra in ((f"{model}", []), (f"{model}-masked", ["--masks", masks])):
        file = f"{name}.mncover"
        run("run", folder, cases, *measured, *extra, "-o", file, "-q")
        run("json", file, "--texts", to=f"{name}.json")
        _report(run, file, name)
        methods = ["gain", "novelty", "entropy", "margin", "length", "failing", "random"]
        for by in [*methods, *(["mngain"] if extra else [])]:
            reduced = f"{name}-{by}.jsonl"
            run("select", file, "--by", by, "--budget", "20%", "-o", reduced, "-q")
            run("select", file, "--by", by, "--budget", "20%", "--json", to=f"{name}-{by}.json")
        for by in ("sequential", "greedy"):
            options = ["--threshold", "1e-3", "--train", train, *extra]
            run("select", file, "--by", by, *options, "-o", f"{name}-{by}.jsonl", "-q")


def _tables(run: Recorder) -> None:
    sst2 = run.head(SHARED / "data/sst2/train.jsonl.gz", 2000)
    mrpc = run.head(SHARED / "data/mrpc/train.jsonl.gz", 2000)
    minilm, granite = run.model("minilm-sst2"), run.model("granite-sst2")
    masks = run.material / "minilm-sst2-masks.safetensors"
    sentiment, length = run.sample("sentiment_suite"), ["--max-length", 64, "-q"]
    one = ["--model", minilm, "--suite", sentiment, "--train", sst2, "--texts", 40, *length]
    run("reproduce", "table1", *one, "--masks", masks, "--judge", granite, "-o", "table1")
    two = ["--model", granite, "--suite", sentiment, "--train", sst2, "--texts", 40, *length]
    run("reproduce", "table2", *two, "-o", "table2")
    six = ["--suite", run.sample("qqp_suite"), "--train", mrpc, "--texts", 20, "-q"]
    run("reproduce", "table6", "--model", run.model("minilm-mrpc"), *six, "-o", "table6")
    run("reproduce", "figure4", *one, "--masks", masks, "--shuffles", 2, "-o", "figure4")
    nli = SHARED / "data" / "nli"
    sets = [x for n in (1, 2, 3) for x in ("--set", run.head(nli / f"anli_r{n}_dev.jsonl.gz", 120))]
    train = run.head(nli / "snli_train.jsonl.gz", 2000)
    three = ["--train", train, *sets, "--texts", 60, "--draws", 4, "-q", "-o", "table3"]
    run("reproduce", "table3", "--model", run.model("minilm-nli"), *three)
    dev = run.head(SHARED / "data/sst2/dev.jsonl.gz", 100)
    four = ["--task", "sst2", "--model", minilm, "--base", minilm, "--train", sst2, "--test", dev]
    sizes = ["--texts", 60, "--seeds", 1, "--epochs", 1, *length]
    run("reproduce", "table4", *four, "--masks", masks, *sizes, "-o", "table4")
    five = [x for one in ("texts=800", "epochs=1") for x in ("--set", one)]
    run("reproduce", "table5", "--row", f"sst2={minilm},{sst2},{dev}", *five, "-q", "-o", "table5")


def _augment(run: Recorder) -> None:
    sst2 = run.head(SHARED / "data/sst2/train.jsonl.gz", 2000)
    dev = run.head(SHARED / "data/sst2/dev.jsonl.gz", 100)
    minilm, fill = run.model("minilm-sst2"), run.model("minilm-mlm")
    common = [minilm, dev, "--train", sst2, "--max-length", 64, "-q"]
    run("augment", *common, "--masked-lm", fill, "-o", "grown.jsonl")
    masks = run.material / "minilm-sst2-masks.safetensors"
    guided = ["--guide", "mncover", "--masks", masks, "--target", "tests"]
    run("augment", *common, *guided, "-o", "tests.jsonl")
    for name in ("WordSwapQWERTY", "WordSwapWordNet", "WordSwapChangeName", "WordSwapEmbedding"):
        text = "Anna bought two awful tickets in Paris, and it isn't a good film."
        run("transform", name, text, "-n", 5, to=f"{name}.txt")


# Comparing.


def compare(old: Path, new: Path) -> int:
    """Print where two recordings differ, and return how many files do."""
    files = [path.relative_to(old) for path in sorted(old.rglob("*")) if _kept(path)]
    differing = numbers = 0
    for file in files:
        if not (new / file).exists():
            print(f"{file}: missing")
            differing += 1
            continue
        found, n = _differences(old / file, new / file)
        numbers += n
        differing += bool(found)
        for line in found[:5]:
            print(f"{file}: {line}")
    print(f"{len(files)} files, {numbers:,} values compared, {differing} files differ")
    return differing


def _kept(path: Path) -> bool:
    kinds = (".json", ".jsonl", ".csv", ".txt", ".md", ".xml", ".safetensors")
    return path.suffix in kinds and "cache" not in path.parts and "demo" not in path.parts


def _differences(old: Path, new: Path) -> tuple[list[str], int]:
    if old.suffix == ".safetensors":  # learning on several threads repeats up to the last bit
        with safe_open(old, "np") as a, safe_open(new, "np") as b:
            names = sorted(set(a.keys()) | set(b.keys()))
            pairs = [(a.get_tensor(name), b.get_tensor(name)) for name in names]
        same = all(x.shape == y.shape and np.allclose(x, y, atol=1e-6) for x, y in pairs)
        return ([] if same else ["other tensors"]), sum(x.size for x, _ in pairs)
    read = _READERS.get(old.suffix, _lines)
    a, b = dict(read(old)), {_renamed(key): value for key, value in read(new)}
    a = {_renamed(key): value for key, value in a.items()}
    found = [f"{key}: {value!r}, now {b.get(key)!r}" for key, value in a.items() if key not in b]
    found += [f"{k}: {v!r}, now {b[k]!r}" for k, v in a.items() if k in b and not _same(v, b[k])]
    return found, len(a)


# Fields that have another name now.
RENAMED = {".metric": ".criterion", " metric": " criterion"}


def _renamed(key: str) -> str:
    for old, new in RENAMED.items():
        key = key.removesuffix(old) + new if key.endswith(old) else key
    return key


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return a == b[: len(a)]
    return bool(a == b)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of each line that has any; words may have changed, and lines be longer."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        yield f"line {number}", tuple(re.findall(r"\d[\d,.]*", line))


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        yield from _flat(json.loads(line), f"line {number}")


def _csv(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            yield from ((f"row {number} {name}", value) for name, value in row.items())


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    content = json.loads(path.read_text())
    if isinstance(content, dict) and "totals" in content:
        content = in_format_3(content)
    if isinstance(content, dict) and "key" in content:  # unfinished work, which has another layout
        content = content.get("state", {k: v for k, v in content.items() if k != "key"})
        content = list(content.values()) if isinstance(content, dict) else content
    return _flat(content, "")


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".csv": _csv,
}


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("version", "format", "run"):
                yield from _flat(inner, f"{name}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    else:
        yield name, Path(value).name if name == ".model" else value


def in_format_3(content: dict[str, Any]) -> dict[str, Any]:
    """Return what `mncover json` wrote in its format 2 as format 3 has it: by criterion."""
    if content["format"] > 2:
        return content
    totals, names = content["totals"], ["cover"]
    names += [] if totals["masked"] is None else ["mncover"]
    content["totals"] = {"criteria": {name: _tally(totals, name) for name in names}}
    for context in content["contexts"]:
        by = {name: _tally(context, name) for name in names}
        for name in ("cover", "cover_of_reachable", "word", "attention", "adds", "only_here"):
            del context[name]
        context["criteria"] = by
        del context["masked"]
    for site in content["sites"]:
        plain = {name: site.pop(name) for name in (*COUNT, "heads")}
        masked, heads = site.pop("masked"), site.pop("masked_heads")
        site["criteria"] = {"cover": plain}
        if "mncover" in names:
            site["criteria"]["mncover"] = {**masked, "heads": heads}
    for row in content.get("rows", []):
        gains = {"cover": row.pop("gain"), "mncover": row.pop("mncover_gain")}
        row["gains"] = {name: gains[name] for name in names}
    return content


COUNT = ("covered", "total", "reachable", "share", "share_of_reachable")


def _tally(mine: dict[str, Any], name: str) -> dict[str, Any]:
    part = mine if name == "cover" else mine["masked"]
    found = {"share": part[name], "share_of_reachable": part[f"{name}_of_reachable"]}
    more = ("word", "attention", "adds", "only_here")
    return found | {field: part[field] for field in more if field in part}


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--mncover", default=str(Path(sys.executable).with_name("mncover")))
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return 1 if compare(given.old, given.new) else 0
    record(Recorder(given.folder.resolve(), given.mncover))
    return 0


if __name__ == "__main__":
    sys.exit(main())
