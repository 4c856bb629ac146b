"""Owners from end to end: tiny models, against the slow Cover and a dictionary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.criteria import CRITERIA
from mncover.data.layout import Layout, Site
from mncover.data.owners import sample_of
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.engine.recorder import Recorder
from mncover.engine.sample import Sampling
from mncover.suites.rows import Rows
from tests import tiny
from tests.criteria.test_criteria import Boundary
from tests.engine.test_laws import POOL, TRAIN, engine_of
from tests.slow import Hit, SlowCover, activations
from tests.slow_criteria import SlowCriteria

KERNELS = pytest.mark.parametrize("kernels", ["cpu", "torch"])
TEXTS = [*POOL, "good  film", "good film", *POOL[5:9], "", "bad film"]
CONTEXTS = ["a"] * 20 + ["b"] * (len(TEXTS) - 20)


def covered(kernels: str, name: str = "bert") -> Coverage:
    engine = engine_of(name, kernels=kernels)
    return Coverage._of(CoverageData(engine.identity()), engine)


def small_chunks(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Take so few texts at a time, whatever the kernels."""
    monkeypatch.setattr("mncover.engine.windows.WINDOW_TEXTS", n)
    monkeypatch.setattr("mncover.engine.recorder.piece_size", lambda subject: n)


def sampled(hits: set[Hit], layers: tuple[int, int], columns: set[int]) -> set[Hit]:
    return {
        (neuron, number)
        for neuron, number in hits
        if neuron[0] == "hidden" and neuron[1] in layers and neuron[4] in columns
    }


def owners_slowly(name: str, layers: tuple[int, int]) -> list[tuple[int, float]]:
    """Return owner and share of all texts from Hugging Face's own states."""
    slow = SlowCover(*tiny.make(name), bins=10, max_length=10)
    slow.calibrate(TRAIN)
    first: dict[Hit, int] = {}
    found = []
    for row, text in enumerate(TEXTS):
        tokens = len(slow.subject[1](text)["input_ids"])
        cells = sampled(slow.hits(text), layers, set(range(0, 16, 2))) if tokens else set()
        counts = Counter(first[cell] for cell in cells if cell in first)
        for cell in cells:
            first.setdefault(cell, row)
        if text in TEXTS[:row]:
            found.append((TEXTS.index(text), 1.0))
            continue
        most = max(counts.values(), default=0)
        owner = min((who for who in counts if counts[who] == most), default=UNKNOWN)
        found.append((owner, most / len(cells) if cells else 0.0))
    return found


@KERNELS
@pytest.mark.parametrize(("name", "layers"), [("bert", (1, 2)), ("llama", (1, 2))])
def test_owners_are_those_of_the_models_own_states(
    kernels: str, name: str, layers: tuple[int, int]
) -> None:
    table = covered(kernels, name).update(TEXTS, CONTEXTS, gains=True).data.table
    slow = owners_slowly(name, layers)
    assert table["owner"].tolist() == [owner for owner, _ in slow]
    np.testing.assert_allclose(table["owned"], [share for _, share in slow], rtol=1e-6)


@KERNELS
@pytest.mark.parametrize(("name", "layers"), [("bert", (1, 2)), ("llama", (1, 2))])
def test_values_outside_are_those_of_the_models_own_states(
    kernels: str, name: str, layers: tuple[int, int]
) -> None:
    table = covered(kernels, name).update(TEXTS, CONTEXTS, gains=True).data.table
    slow = SlowCover(*tiny.make(name), bins=10, max_length=10)
    slow.calibrate(TRAIN)
    columns = range(0, 16, 2)
    for row, text in enumerate(TEXTS):
        states = activations(*slow.subject, text, 10) if table["length"][row] else {}
        values = [
            slow.bin_of(neuron, value) is None
            for neuron, value in states.items()
            if neuron[0] == "hidden" and neuron[1] in layers and neuron[4] in columns
        ]
        expected = np.mean(values) if values else np.nan
        np.testing.assert_allclose(table["outside"][row], expected, rtol=1e-6)
    assert np.nanmax(table["outside"]) > 0
    assert np.isnan(covered(kernels, name).update(TEXTS).data.table["outside"]).all()


@KERNELS
@pytest.mark.parametrize("positions", ["any", "mean"])
def test_values_outside_are_those_of_many_dimensions_where_positions_share_them(
    kernels: str, positions: str
) -> None:
    how: dict[str, Any] = {"positions": positions, "kernels": kernels}
    cov = Coverage(*tiny.make("bert"), max_length=10, **how).calibrate(TRAIN, cache=False)
    table = cov.update(POOL, gains=True).data.table
    slow = SlowCriteria(*tiny.make("bert"), bins=10, max_length=10, how=positions)
    slow.calibrate(TRAIN)
    for row, text in enumerate(POOL):
        values = slow.hidden(text).items()
        outside = [
            not slow.low[neuron] <= value <= slow.high[neuron]
            for neuron, each in values
            for value in each
            if neuron[1] in (1, 2)
        ]
        np.testing.assert_allclose(table["outside"][row], np.mean(outside), rtol=1e-6)
    assert table["outside"].max() > 0


def test_few_dimensions_are_sampled_at_each_position_and_more_where_there_is_one() -> None:
    for rows, dimensions in ((128, range(0, 576, 72)), (1, range(0, 576, 9))):
        layout = Layout(tuple(Site("hidden", layer, 1, rows, 576) for layer in range(5)), True)
        assert [(one.site.layer, one.columns) for one in sample_of(layout)] == [
            (2, dimensions),
            (4, dimensions),
        ]


@KERNELS
def test_a_copy_in_any_context_is_owned_by_the_first(kernels: str) -> None:
    texts = ["good film", "bad film", "bad film", "awful food", "bad film"]
    cov = covered(kernels).update(texts, ["a", "a", "a", "b", "b"], gains=True)
    assert cov.data.table["owner"].tolist()[2::2] == [1, 1]
    assert cov.data.table["owned"].tolist()[2::2] == [1.0, 1.0]
    assert cov.data.table["owner"][0] == UNKNOWN


@KERNELS
def test_chunks_and_further_updates_change_nothing(
    kernels: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = covered(kernels).update(TEXTS, gains=True).data
    monkeypatch.setattr("mncover.engine.sample.BLOCK_CELLS", 100)
    small_chunks(monkeypatch, 4)
    parts = covered(kernels).update(TEXTS[:11], gains=True)
    parts.save(tmp_path / "x.mncover")
    again = Coverage.load(tmp_path / "x.mncover")
    parts = Coverage._of(again.data, parts.engine).update(TEXTS[11:], gains=True)
    np.testing.assert_array_equal(whole.owners, parts.data.owners)
    for name in ("owner", "owned"):
        np.testing.assert_array_equal(whole.table[name], parts.data.table[name])


@KERNELS
def test_a_resumed_run_has_the_owners_of_an_uninterrupted_one(
    kernels: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = Rows.make(TEXTS, CONTEXTS)
    whole = covered(kernels).run(rows, tmp_path / "whole.mncover").data
    small_chunks(monkeypatch, 10)
    step, calls = Recorder._add_rows, []

    def interrupted(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        step(*args)

    monkeypatch.setattr(Recorder, "_add_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        covered(kernels).run(rows, tmp_path / "run.mncover")
    assert list(tmp_path.glob("run.mncover*partial*"))
    resumed = covered(kernels).run(rows, tmp_path / "run.mncover").data
    assert len(calls) > 4
    np.testing.assert_array_equal(whole.owners, resumed.owners)
    for name in ("owner", "owned"):
        np.testing.assert_array_equal(whole.table[name], resumed.table[name])


def test_an_interrupted_update_leaves_no_owners_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = covered("cpu").update(TEXTS[:5], gains=True)
    before = np.array(cov.data.owners)

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "_add_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cov.update(TEXTS[5:9], gains=True)
    np.testing.assert_array_equal(cov.data.owners, before)
    cov.update(TEXTS[5:], gains=True)
    whole = covered("cpu").update(TEXTS, gains=True)
    np.testing.assert_array_equal(whole.data.owners, cov.data.owners)
    np.testing.assert_array_equal(whole.data.table["owner"], cov.data.table["owner"])


def test_a_main_criterion_without_bins_has_no_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CRITERIA, "boundary", Boundary())
    cov = Coverage(*tiny.make("bert"), max_length=10, criteria=["boundary"])
    cov.calibrate(TRAIN, cache=False).update(TEXTS[:6], gains=True)
    engine = cov.engine
    given = engine.setups.groups[0], engine.settings, engine.subject.device
    assert not Sampling(engine.require_ranges(), *given).layers
    assert cov.data.owners is None
    assert set(cov.data.table["owner"].tolist()) == {UNKNOWN}
