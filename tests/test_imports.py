"""Boundaries: which module may import what. The contracts are in pyproject.toml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

import mncover
from tests.engine.test_laws import POOL, fresh

ROOT = Path(__file__).resolve().parents[1]

# Optional packages, and the modules that may import them.
OPTIONAL = {
    "pyarrow": {"mncover.suites.formats.records"},
    "pandas": {"mncover.report.frames"},
    "fsspec": {"mncover.data.addresses"},
    "datasets": {"mncover.suites.formats.hub"},
    "matplotlib": {"mncover.report.plots"},
    "jinja2": {"mncover.report.html"},
    "tomli": {"mncover.data.files"},
    "ray": {"mncover.engine.cluster"},
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "mncover", include_external_packages=True, exclude_type_checking_imports=True
    )


def test_rooms_keep_their_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    """A package counts as a module, too: its parts do not import it back."""
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("package", OPTIONAL)
def test_optional_packages_are_imported_in_one_place(
    package: str, graph: grimp.ImportGraph
) -> None:
    found = graph.find_modules_that_directly_import(package) if package in graph.modules else set()
    assert found <= OPTIONAL[package]


READING = [
    ["report", "--failures", "2"],
    ["report", "--format", "github", "--junit", "out.xml"],
    ["report", "--max-failing", "4", "--since", "run.mncover", "--fail-on-new-failures"],
    ["json", "--texts"],
    ["html"],
    ["combine", "run.mncover", "run.mncover", "-o", "both.mncover"],
    ["select", "--budget", "50%"],
    ["next", "-n", "2"],
    ["debug", "data"],
    ["suite", "show", "tests.jsonl"],
    ["suite", "export", "tests.jsonl", "-o", "out.txt"],
    ["transform", "WordSwapExtend", "It isn't bad."],
    ["--help"],
    ["run", "--help"],
]
SUITE = """
{"suite": 1, "labels": ["negative", "positive"]}
{"test": "plain words", "capability": "Vocabulary"}
{"case": "A wonderful film.", "label": "positive"}
"""
SCRIPT = """
import json, sys
from mncover import Coverage, Finder
read = Coverage.load("run.mncover")
read.report("json")
tables = len(read.result().texts()), len(read.result().cases()), len(read.result().tests())
if tables != (4, 4, 2) or {"pandas", "pyarrow", "datasets"} & set(sys.modules):
    sys.exit(f"{tables}, or a package that reading does not need")
from mncover.cli import main
code = max(main(arguments) for arguments in json.loads(sys.argv[1]))
heavy = {"torch", "transformers", "numba", "datasets", "ray"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else code)
"""


def test_commands_that_only_read_do_not_import_torch(tmp_path: Path) -> None:
    cov = fresh().update(POOL[:4], ["a", "a", "b", "b"], labels=[0, 1, 2, 0], gains=True)
    cov.save(tmp_path / "run.mncover")
    (tmp_path / "tests.jsonl").write_text(SUITE.lstrip())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(READING)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_public_names_are_there_and_others_are_refused() -> None:
    assert dir(mncover) == sorted(mncover.__all__)
    for name in mncover.__all__:
        assert getattr(mncover, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Coverag'"):
        mncover.Coverag  # noqa: B018
