"""Searches that are interrupted and resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mncover.augment.grower import Grower
from mncover.augment.judge import Judge
from mncover.augment.records import AugmentSettings, SearchState
from mncover.augment.search import Search
from mncover.augment.transforms import Resources
from mncover.data import files as resume
from mncover.data.files import save_json
from mncover.types import Text
from tests import tiny
from tests.augment.bench import NAMES, Bench, same_but_for_digits, transforms


def grower(bench: Bench) -> Grower:
    return Grower(bench.coverage().engine, bench.embedder(), transforms(), Resources())


def test_an_interrupted_search_resumes_and_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resume, "SECONDS", 0.0)
    monkeypatch.setattr(resume, "SHARE", 0.0)
    seeds, settings = tiny.texts(20, seed=4), AugmentSettings(NAMES, similarity=0.6, max_iter=4)
    bench = Bench()
    whole = bench.fast(seeds, settings)
    partial = tmp_path / "partial"
    step, steps = Search.step, 0

    def interrupted(self: Search) -> Any:
        nonlocal steps
        steps += 1
        if steps == 15:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Search, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grower(bench).grow(seeds, settings, partial)
    assert "run the same command to resume" in " ".join(capsys.readouterr().err.split())
    assert partial.is_file()
    again = grower(bench).grow(seeds, settings, partial)
    assert f"Resuming from {partial}" in " ".join(capsys.readouterr().err.split())
    assert same_but_for_digits(again, whole)
    assert steps == whole.tally.attempts + 1  # nothing was tried twice
    once_more = grower(bench).grow(seeds, settings, partial)  # as if its outcome had been lost
    assert same_but_for_digits(once_more, whole)
    assert steps == whole.tally.attempts + 1


def test_a_state_of_another_search_or_a_damaged_one_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds, settings = tiny.texts(3, seed=4), AugmentSettings(NAMES, similarity=0.0, max_iter=2)
    bench, partial = Bench(), tmp_path / "partial"
    whole = grower(bench).grow(seeds, settings, partial)
    content = json.loads(partial.read_text().splitlines()[1])
    assert content["state"]["seed"] == 3

    def refused(says: str) -> None:
        capsys.readouterr()
        assert same_but_for_digits(grower(bench).grow(seeds, settings, partial), whole)
        assert says in capsys.readouterr().err

    save_json(partial, {**content["key"], "seeds": "others"}, content["state"])
    refused("belongs to another search")
    save_json(partial, content["key"], {"seed": 1})
    refused("is damaged")
    partial.write_text(partial.read_text()[:-20])
    refused("is damaged")
    partial.write_text(partial.read_text().replace('"made": ', '"made": 1'))
    refused("is damaged")


def _judge(seeds: Sequence[Text], settings: AugmentSettings) -> Judge:
    bench = Bench()
    engine = bench.coverage().engine
    return Judge(engine, bench.embedder(), seeds, settings.similarity, settings.criterion)


def test_a_state_comes_back_as_it_was_with_pairs_and_counts() -> None:
    seeds = tiny.texts(8, seed=4, pairs=True)
    settings = AugmentSettings(NAMES, similarity=0.0)
    run = Search(seeds, transforms(), _judge(seeds, settings), settings)
    run.start()
    for _ in range(6):
        run.step()
    kept = json.loads(json.dumps(run.state().to_json()))
    assert SearchState.from_json(kept) == run.state()
    assert run.found.accepted
