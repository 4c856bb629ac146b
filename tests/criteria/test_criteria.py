"""Criteria: the registry, and a new criterion that nothing in the package knows of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.criteria import CRITERIA, chosen_criteria
from mncover.criteria.base import ALL, Coding, Parameter, View, grouped
from mncover.criteria.binned import COVER, MNCOVER
from mncover.errors import SettingsError
from mncover.types import Settings
from tests import tiny
from tests.masks.test_mncover import random_masks
from tests.slow import SlowCover, activations, count

TRAIN = tiny.texts(12, seed=1)
TEXTS = tiny.texts(14, seed=2)


class _Boundary:
    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        outside = xp.where(values < low, 0, xp.where(values > high, 1, -1))
        return xp.where(low <= high, outside, -1)


BOUNDARY = _Boundary()


@dataclass(frozen=True)
class Boundary:
    """Two cells: below the range and above it."""

    name: str = "boundary"
    title: str = "Boundary"
    summary: str = "values outside their range"
    masked: bool = False
    view: View = ALL
    coding: Coding = BOUNDARY
    source: str = "a toy"
    parameter: Parameter | None = None

    def cells(self, settings: Settings) -> int:
        return 2

    def reachable(self, low: Any, high: Any, cells: int) -> Any:
        return 2 * (low <= high).astype(np.int64)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CRITERIA, "boundary", Boundary())


def slow_boundary(slow: SlowCover, text: str) -> set[Any]:
    """Return the boundary cells that a text hits, one neuron at a time."""
    found = set()
    for neuron, value in activations(*slow.subject, text, slow.max_length).items():
        if neuron in slow.low and value < slow.low[neuron]:
            found.add((neuron, 0))
        if neuron in slow.low and value > slow.high[neuron]:
            found.add((neuron, 1))
    return found


@pytest.mark.parametrize("kernels", ["cpu", "torch"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_new_criterion_is_measured_beside_cover_as_a_slow_loop_does(
    name: str, kernels: str
) -> None:
    model, tokenizer = tiny.make(name)
    options: Any = {"max_length": 10, "kernels": kernels, "criteria": ["cover", "boundary"]}
    cov = Coverage(model, tokenizer, **options).calibrate(TRAIN, cache=False)
    slow = SlowCover(model, tokenizer, bins=10, max_length=10)
    slow.calibrate(TRAIN)
    hits = [slow_boundary(slow, text) for text in TEXTS]
    gains = cov.gain(TEXTS, metric="boundary")
    cov.update(TEXTS[:6], context="a", gains=True).update(TEXTS[6:], context="b")
    result = cov.result()
    whole = set().union(*hits)
    assert len(whole) > 20
    tally = result.criteria["boundary"].tally
    assert tally.word.covered == count(whole, "hidden")
    assert tally.attention.covered == count(whole, "attention")
    assert tally.word.reachable == 2 * sum(1 for neuron in slow.low if neuron[0] == "hidden")
    for site in result.criteria["boundary"].sites:
        assert site.count.covered == count(whole, site.kind, site.layer)
    total = tally.word.total + tally.attention.total
    np.testing.assert_allclose(gains, [len(mine) / total for mine in hits], rtol=1e-12)
    assert result.share("boundary") == pytest.approx(len(whole) / total, rel=1e-12)
    first = set().union(*hits[:6])
    assert result.contexts[1].by["boundary"].adds == pytest.approx(len(whole - first) / total)
    seen: set[Any] = set()
    for text, mine in enumerate(hits[:6]):
        new = mine - seen
        expected = [count(new, "hidden"), count(new, "attention")]
        assert cov.data.table.new["boundary"][:, text].tolist() == expected
        seen |= mine
    plain = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN, cache=False).update(TEXTS)
    assert plain.result().cover == result.cover


def test_filtering_by_a_new_criterion_keeps_what_adds_to_it() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=10, criteria=["cover", "boundary"])
    cov.calibrate(TRAIN, cache=False)
    slow = SlowCover(model, tokenizer, bins=10, max_length=10)
    slow.calibrate(TRAIN)
    kept: list[int] = []
    seen: set[Any] = set()
    for number, text in enumerate(TEXTS):
        new = slow_boundary(slow, text) - seen
        if new:
            kept.append(number)
            seen |= new
    assert cov.filter(TEXTS, metric="boundary").kept == kept
    taken = cov.greedy(TEXTS, metric="boundary").kept
    assert set().union(*(slow_boundary(slow, TEXTS[i]) for i in taken)) == seen


def test_a_data_file_is_read_without_the_criterion_it_was_measured_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=10, criteria=["boundary", "cover"])
    cov.calibrate(TRAIN, cache=False).update(TEXTS, gains=True)
    cov.save(tmp_path / "x.mncover")
    monkeypatch.delitem(CRITERIA, "boundary")
    again = Coverage.load(tmp_path / "x.mncover")
    assert again.result() == cov.result()
    assert again.data.identity.main.title == "Boundary"
    both = again | Coverage.load(tmp_path / "x.mncover")
    assert both.result().criteria == cov.result().criteria


def test_masked_and_new_criteria_are_measured_in_one_run() -> None:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 3)
    names = ["boundary", "mncover"]
    cov = Coverage(model, tokenizer, max_length=10, masks=masks, criteria=names)
    cov.calibrate(TRAIN, cache=False).update(TEXTS, gains=True)
    usual = Coverage(model, tokenizer, max_length=10, masks=masks).calibrate(TRAIN, cache=False)
    usual.update(TEXTS, gains=True)
    assert list(cov.result().criteria) == ["boundary", "cover", "mncover"]
    for name in ("cover", "mncover"):
        assert cov.result().share(name) == usual.result().share(name)
        np.testing.assert_array_equal(cov.data.table.new[name], usual.data.table.new[name])


def test_the_usual_criteria_are_cover_and_with_masks_mncover() -> None:
    assert chosen_criteria(None, masks=False) == (COVER,)
    assert chosen_criteria(None, masks=True) == (COVER, MNCOVER)
    assert chosen_criteria(["mncover"], masks=True) == (COVER, MNCOVER)


def test_criteria_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(SettingsError, match="no criterion 'nonsense'; there are cover, mncover"):
        chosen_criteria(["nonsense"], masks=False)
    with pytest.raises(SettingsError, match="mnCover needs masks"):
        chosen_criteria(["mncover"], masks=False)
    with pytest.raises(SettingsError, match="no chosen criterion uses the masks"):
        chosen_criteria(["cover"], masks=True)
    with pytest.raises(SettingsError, match="give at least one criterion"):
        chosen_criteria([], masks=False)


def test_criteria_that_share_a_coding_are_coded_once() -> None:
    found = grouped([COVER, MNCOVER, Boundary()], Settings(bins=7))
    assert [(group.plain, group.masked, group.cells) for group in found] == [
        ("cover", "mncover", 7),
        ("boundary", None, 2),
    ]
