"""A tiny model and its texts on disk, for tests that start at the command line."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from mncover.engine.loading import quiet_loading
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


def assemble(shared: Path, name: str, folder: Path) -> None:
    """Put one of the real models beside the project together in a folder."""
    spec = importlib.util.spec_from_file_location("assemble", shared / "models" / "assemble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with quiet_loading():
        module.assemble(name, folder)
