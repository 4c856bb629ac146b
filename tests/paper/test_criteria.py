"""What choosing by each criterion finds: the greedy order by hand, and the whole experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.paper.criteria import BEST, RANDOM, greedy_order
from mncover.suites.formats import save_suite
from tests import tiny
from tests.folders import suite_of, write_material
from tests.slow_criteria import SlowCriteria


def test_the_greedy_order_is_that_of_sets_and_starts_again() -> None:
    train, texts = tiny.texts(10, seed=1), tiny.texts(12, seed=2)
    cov = Coverage(*tiny.make("bert"), max_length=9, positions="mean", criteria=["tknc:1"])
    engine = cov.calibrate(train, cache=False, yardstick=False).engine
    slow = SlowCriteria(*tiny.make("bert"), bins=10, max_length=9, how="mean")
    hits = [slow.hits("tknc", text, 1) for text in texts]
    expected: list[int] = []
    seen: set[Any] = set()
    while len(expected) < len(texts):
        left = [i for i in range(len(texts)) if i not in expected]
        best = max(left, key=lambda i: (len(hits[i] - seen), -i))
        if hits[best] <= seen:
            seen = set()
            continue
        expected.append(best)
        seen |= hits[best]
    for window in engine.windows([[text] for text in texts], lambda n: None, whole=True):
        assert greedy_order(engine, window, "tknc:1", 12) == expected
        assert greedy_order(engine, window, "tknc:1", 3) == expected[:3]


def test_the_experiment_writes_lift_and_tests_of_every_criterion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    material = write_material(tmp_path)
    save_suite(suite_of(), tmp_path / "tests.jsonl")
    arguments = ["--model", str(material.model), "--suite", "tests.jsonl", "--train"]
    arguments += [str(material.train), "--max-length", "12", "--pools", "2", "--cases", "8"]
    assert main(["reproduce", "criteria", *arguments, "--criteria", "cover,snac", "-o", "out"]) == 0
    shown = capsys.readouterr().out
    assert "SNAC" in shown
    assert Path("out/criteria.txt").read_text().count("best possible") == 4
    found = json.loads(Path("out/criteria.json").read_text())
    ways = {one["way"]: one for one in found["outcomes"] if one["budget"] == 0.1}
    names = [f"{name}, {how}" for how in ("each", "any", "mean") for name in ("cover", "snac")]
    assert list(ways) == [RANDOM, BEST, *names]
    assert ways[RANDOM]["lift"]["mean"] == pytest.approx(1.0)
    assert all(one["lift"]["mean"] <= ways[BEST]["lift"]["mean"] for one in ways.values())
    assert all(one["tests"]["mean"] <= ways[BEST]["tests"]["mean"] for one in ways.values())
