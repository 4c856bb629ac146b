"""A new criterion, report, score or kernel is one file with one line that registers it.

Each toy below is written to a folder and imported before the command line; no other file changes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mncover
from tests.folders import Material, write_material

SOURCE = Path(mncover.__file__).parents[1]

TOYS = {
    "toy_criterion": """
from dataclasses import dataclass
from mncover.criteria import CRITERIA
from mncover.criteria.base import ALL, View

class Above:
    def codes(self, xp, values, low, high, cells):
        return xp.where((values > high) & (low <= high), 0, -1)

@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    title: str = "ToyCover"
    summary: str = "neurons that were above their range"
    source: str = "a test"
    parameter: None = None
    masked: bool = False
    view: View = ALL
    coding: Above = Above()

    def cells(self, settings):
        return 1

    def reachable(self, low, high, cells):
        return (low <= high).astype(int)

CRITERIA["toy"] = Toy()
""",
    "toy_report": """
from mncover.report import REPORTS
from mncover.report.columns import Report

def show(view, console):
    console.print(f"a toy about {view.result.n_texts} texts")

REPORTS["toy"] = Report("a line", show)
""",
    "toy_score": """
from mncover.selection.scores import SCORES, Score

def last(cases, seed):
    return cases.number.astype(float)

SCORES["toy"] = Score("the last cases", last)
""",
    "toy_kernel": """
from mncover.engine.kernels import KERNELS, Entry
from mncover.engine.kernels.plain_torch import TorchKernels

class ToyKernels(TorchKernels):
    name = "toy"

KERNELS["toy"] = Entry("a toy", lambda device: True, lambda: ToyKernels)
""",
}

SCRIPT = """
import json, sys
import {toy}
from mncover.cli import main
sys.exit(max(main(arguments) for arguments in json.loads(sys.argv[1])))
"""


@pytest.fixture
def material(tmp_path: Path) -> Material:
    for name, content in TOYS.items():
        (tmp_path / f"{name}.py").write_text(content)
    return write_material(tmp_path)


def shown_with(toy: str, material: Material, *commands: list[str]) -> str:
    """Run commands in a process that has imported a toy, and return what they print."""
    paths = os.pathsep.join([str(material.folder), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(toy=toy), json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "100", "TERM": "dumb"},
        cwd=material.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def option(name: str, shown: str) -> str:
    """Return the help text of an option, on one line."""
    found = re.search(rf"^  (?:-\w, )?{name} (.*?)(?=^  -)", shown, re.M | re.S)
    assert found is not None
    return " ".join(found[1].split())


def test_a_criterion_is_measured_and_reported(material: Material) -> None:
    shown = shown_with(
        "toy_criterion",
        material,
        ["run", "--help"],
        material.run("--criteria", "cover,toy", "--sort", "-toy", "--metric", "toy"),
    )
    assert "mdsc, toy" in option("--criteria", shown)
    assert "toy" in option("--sort", shown)
    assert re.search(r"ToyCover \d+\.\d\d %", shown)
    # The data file says all that reading it needs.
    commands = (["report", "--metric", "toy", "--fail-under", "0.001"], ["json", "--texts"])
    shown = shown_with("json", material, *commands)
    content = json.loads(shown.splitlines()[-1])
    total = content["totals"]["criteria"]["toy"]
    assert 0 < total["share"] < content["totals"]["criteria"]["cover"]["share"]
    assert sum(row["gains"]["toy"] for row in content["rows"]) == pytest.approx(total["share"])
    shown = shown_with("json", material, ["select", "--metric", "toy", "--budget", "3", "--json"])
    assert json.loads(shown)["chosen"]["cases"] == 9


def test_a_criterion_can_be_the_only_one(material: Material) -> None:
    train = ["--train", str(material.train)]
    commands = (
        material.run("--criteria", "toy"),
        ["select", "--budget", "2"],
        ["select", "--by", "greedy", "--budget", "2", *train, "-o", "few.jsonl"],
    )
    shown = shown_with("toy_criterion", material, *commands)
    assert re.search(r"ToyCover \d+\.\d\d %", shown)
    assert "few.jsonl: 6 of 30 cases." in shown


def test_a_report_is_a_format(material: Material) -> None:
    commands = (["report", "--help"], material.run("-q"), ["report", "--format", "toy"])
    shown = shown_with("toy_report", material, *commands)
    assert "toy" in option("--format", shown)
    assert "a toy about 30 texts" in shown


def test_a_score_is_a_way_to_select(material: Material) -> None:
    commands = (
        ["select", "--help"],
        material.run("-q"),
        ["select", "--by", "toy", "--budget", "2", "--overall", "-o", "few.jsonl"],
    )
    shown = shown_with("toy_score", material, *commands)
    assert "toy" in option("--by", shown)
    lines = material.suite.read_text().splitlines()
    assert (material.folder / "few.jsonl").read_text().splitlines() == lines[-2:]
    # It is compared with the others, too.
    shown = shown_with("toy_score", material, ["select", "--budget", "2", "--json"])
    assert "toy" in [other["method"] for other in json.loads(shown)["others"]]


def test_a_kernel_measures_and_is_shown(material: Material) -> None:
    commands = (
        ["run", "--help"],
        material.run("-q", "--kernels", "toy"),
        ["debug", "model", str(material.model), "--max-length", "12", "--kernels", "toy"],
        ["json"],
        material.run("-q"),
        ["json"],
    )
    shown = shown_with("toy_kernel", material, *commands)
    assert "torch, toy" in option("--kernels", shown)
    assert re.search("^kernels +toy$", shown, re.M)
    toy, usual = (json.loads(line) for line in shown.splitlines() if line.startswith("{"))
    assert toy["totals"] == usual["totals"]
