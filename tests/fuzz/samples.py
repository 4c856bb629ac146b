"""Sound files of every kind that mncover reads, to be damaged; all small."""

from __future__ import annotations

import atexit
import gzip
import io
import json
import pickle
import shutil
import sys
import tarfile
import tempfile
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mncover.cli import main
from mncover.data.files import save_json
from mncover.suites.formats import save_suite
from tests.folders import Material, suite_of, write_material

OLD = Path(__file__).parents[1] / "data" / "old"

RECIPE = """
labels = ["negative", "positive"]
[lexicons]
film = ["film", "movie"]
[[tests]]
name = "good films"
template = "The {film} was {a:film}."
label = 1
n = 3
[[tests]]
name = "typos"
type = "INV"
texts = ["A good film.", ["One", "two"]]
perturb = ["WordSwapRandomCharacterDeletion"]
variants = 2
expectation = {expect = "inv", tolerance = 0.2}
[[tests]]
name = "from a file"
file = "texts.txt"
label = "negative"
"""

PYPROJECT = """
[tool.mncover]
train = "train.csv"
bins = 20
max-length = 64
fail_under = 30.5
sort = "-cover"
[tool.other]
a.b.c = [1, 2.5, "x"]
"""

ROWS: list[dict[str, Any]] = [
    {"text": f"text {i}, with “quotes” and more", "label": i % 2, "context": "ab"[i % 2]}
    for i in range(12)
]


@cache
def material() -> Material:
    """A tiny model, a test suite that was run on it, and the data file, in one folder."""
    folder = Path(tempfile.mkdtemp(prefix="mncover-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = write_material(folder)
    save_suite(suite_of(), made.suite)
    assert main([*made.run("-o", str(folder / "run.mncover"), "--quiet")]) == 0
    return made


def plain_texts(path: Path) -> None:
    path.write_text("\n".join(row["text"] for row in ROWS) + "\n", encoding="utf-8")


def delimited(path: Path, delimiter: str) -> None:
    lines = [delimiter.join(("text", "label", "context"))]
    lines += [f'"{r["text"]}"{delimiter}{r["label"]}{delimiter}{r["context"]}' for r in ROWS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def json_lines(path: Path) -> None:
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n", encoding="utf-8")


def parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet as pq

    table = pyarrow.Table.from_pylist([{**row, "n": i, "at": i} for i, row in enumerate(ROWS)])
    at = table["at"].cast(pyarrow.timestamp("us"))
    pq.write_table(table.set_column(table.column_names.index("at"), "at", at), path)


def zipped(path: Path) -> Path:
    """Compress a file, with .gz behind its name."""
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return target


def first_format(path: Path) -> None:
    """Write a data file of format 1: one of format 2 without masks and cases."""
    with zipfile.ZipFile(OLD / "format_2.mncover") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    gone = [name for name in members if "masked" in name] + ["table/case.npy", "suites.json"]
    for name in gone:
        members.pop(name, None)
    header = json.loads(members["header.json"])
    header |= {"version": 1, "masks": None}
    header["checksums"] = {n: s for n, s in header["checksums"].items() if n in members}
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@contextmanager
def _checklist() -> Iterator[Any]:
    """Pretend that CheckList is there, with the classes whose objects it pickles."""
    made: dict[str, type] = {}
    sys.modules["checklist"] = types.ModuleType("checklist")
    for module, names in (("test_suite", ["TestSuite"]), ("test_types", ["MFT", "INV", "DIR"])):
        one = types.ModuleType(f"checklist.{module}")
        for name in names:
            made[name] = type(name, (), {"__module__": one.__name__})
            setattr(one, name, made[name])
        sys.modules[one.__name__] = one
    try:
        yield types.SimpleNamespace(**made)
    finally:
        for module in ("checklist", "checklist.test_suite", "checklist.test_types"):
            del sys.modules[module]


def checklist_pickle(path: Path, protocol: int = 3) -> None:
    """Write a suite as CheckList would."""
    with _checklist() as known:
        suite, mft, inv = known.TestSuite(), known.MFT(), known.INV()
        vars(mft).update(data=["good film", "bad film"], labels=[2, 0], capability="Vocabulary")
        objects = np.array(["a film", "no film"], dtype=object)
        vars(inv).update(data=[["a film", "the film"], ["one", "two"]], labels=None, extra=objects)
        info = {"words": {"capability": "Vocabulary", "description": "d"}}
        vars(suite).update(tests={"words": mft, "changes": inv}, info=info)
        path.write_bytes(pickle.dumps(suite, protocol))


def checklist_archive(path: Path) -> None:
    inner = path.with_name("suite.pkl")
    checklist_pickle(inner)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(inner, "suite.pkl")
    inner.unlink()


def state_of_search(path: Path) -> None:
    tally = {"attempts": 4, "made": 3, "similar": 2, "drawn": {"A": 3}, "changed": {"A": 2}}
    one = {"seed": 0, "text": "x", "transforms": ["A"], "similarity": 0.9, "gain": 0.1}
    accepted = [one, {**one, "text": ["x", "y"], "gain": None}]
    state = {"seed": 1, "tries": 2, "accepted": accepted, "tally": tally, "texts_run": 5}
    save_json(path, {"a": 1}, state)


def neighbours(path: Path) -> None:
    words = np.frombuffer(b"good\nbad", dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, words=words, nearest=np.zeros((2, 8), dtype=np.int32))
    path.write_bytes(buffer.getvalue())


def model_folder(folder: Path) -> list[Path]:
    shutil.copytree(material().model, folder, dirs_exist_ok=True)
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
