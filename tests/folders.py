"""A tiny model and its texts on disk, for tests that start at the command line."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mncover.engine.loading import quiet_loading
from mncover.suites.expectations import Expectation
from mncover.suites.model import Case, Suite, Test
from tests import tiny


@dataclass(frozen=True)
class Material:
    """Paths of a model folder, a suite and training texts."""

    folder: Path
    model: Path
    suite: Path
    train: Path

    def run(self, *more: str) -> list[str]:
        """Return the arguments of a `mncover run` of this material."""
        options = ["--train", str(self.train), "--max-length", "12"]
        return ["run", str(self.model), str(self.suite), *options, *more]


def write_material(folder: Path, name: str = "bert") -> Material:
    """Write a tiny model, a suite in three contexts and training texts into a folder."""
    model, tokenizer = tiny.make(name)
    with quiet_loading():
        model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    rows = [
        {"text": text, "context": "abc"[i % 3], "label": i % 3}
        for i, text in enumerate(tiny.texts(30, seed=8))
    ]
    suite, train = folder / "suite.jsonl", folder / "train.txt"
    suite.write_text("\n".join(json.dumps(row) for row in rows))
    train.write_text("\n".join(tiny.texts(20, seed=9)))
    return Material(folder, folder / "model", suite, train)


def suite_of(seed: int = 3) -> Suite:
    """Return a suite of three tests of different kinds."""
    texts = iter(tiny.texts(200, seed))
    rng = np.random.default_rng(seed)

    def cases(n: int, size: int, label: bool) -> tuple[Case, ...]:
        return tuple(
            Case(tuple(next(texts) for _ in range(size)), int(rng.integers(3)) if label else None)
            for _ in range(n)
        )

    up = Expectation("monotonic", direction="up", only_if_not=(1,))
    return Suite(
        (
            Test("words", "MFT", Expectation("label"), cases(12, 1, True), "Vocabulary"),
            Test("change names", "INV", Expectation("inv"), cases(10, 3, False), "NER"),
            Test("intensifiers", "DIR", up, cases(10, 2, False), "Vocabulary", "said twice"),
        ),
        ("LABEL_0", "LABEL_1", "LABEL_2"),
    )


def assemble(shared: Path, name: str, folder: Path) -> None:
    """Put one of the real models beside the project together in a folder."""
    spec = importlib.util.spec_from_file_location("assemble", shared / "models" / "assemble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with quiet_loading():
        module.assemble(name, folder)
