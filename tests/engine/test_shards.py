"""Texts that others run give what this process gives, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover import Coverage, Prompting
from mncover.data import maps
from mncover.engine import windows
from mncover.engine.kernels.base import Kernels
from mncover.engine.shards import Adder, Covered, Hits, Shard, joined
from tests import tiny
from tests.engine.crews import TRAIN, contents, pair_of_coverages

pytestmark = pytest.mark.usefixtures("small_windows")


@pytest.mark.parametrize("fan", [1, 3])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {"masked": True}),
        ("roberta", {"criteria": ["cover", "nbc", "tknc:2", "pairs:8"]}),
        ("gpt2", {"positions": "any"}),
        ("llama", {"positions": "mean", "criteria": ["cover", "mdsc", "nc"]}),
        ("distilbert", {"kernels": "torch"}),
        ("bert", {"masked": True, "kernels": "torch", "bins": 70}),
        ("bert", {"masked": True, "bins": 100}),
    ],
)
def test_the_data_file_is_the_same_byte_by_byte(
    tmp_path: Path, name: str, options: dict[str, Any], fan: int
) -> None:
    texts, contexts = tiny.texts(90, seed=5), ["a"] * 25 + ["b"] * 3 + ["c"] * 62
    files = []
    here, there, crew = pair_of_coverages(name, fan, **options)
    for number, cov in enumerate((here, there)):
        cov.calibrate(TRAIN, cache=False)
        cov.update(texts, context=contexts, gains=True)
        cov.update(texts[40:], context="a")  # a context that comes again, without gains
        files.append(tmp_path / f"{number}.mncover")
        cov.save(files[-1])
    assert {"calibrate", "record", "hit"} <= set(crew.asked)
    assert contents(files[0]) == contents(files[1])
    assert here.engine.require_ranges().fingerprint == there.engine.require_ranges().fingerprint


def test_pairs_of_texts_are_shared_too(tmp_path: Path) -> None:
    here, there, _ = pair_of_coverages("bert")
    texts = tiny.texts(40, seed=9, pairs=True)
    for name, cov in (("here", here), ("there", there)):
        cov.calibrate(tiny.texts(30, seed=2, pairs=True), cache=False).update(texts, gains=True)
        cov.save(tmp_path / name)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_filter_without_threshold_keeps_the_same_cases() -> None:
    here, there, crew = pair_of_coverages("bert", masked=True)
    texts = tiny.texts(70, seed=6)
    cases = [texts[i : i + 1 + i % 3] for i in range(0, 66, 2)]
    for metric in ("cover", "mncover"):
        found = []
        for cov in (here, there):
            cov.calibrate(TRAIN, cache=False)
            cov.update(texts[:5])
            found.append(cov.filter(cases, metric=metric, on_top=True))
        assert found[0].kept == found[1].kept
        assert np.array_equal(found[0].gains, found[1].gains)
    assert "cases" in crew.asked


def test_signatures_and_states_of_a_layer_are_the_same() -> None:
    here, there, crew = pair_of_coverages("bert")
    texts = tiny.texts(50, seed=8)
    for cov in (here, there):
        cov.calibrate(TRAIN, cache=False)
    assert np.array_equal(here.signatures(texts), there.signatures(texts), equal_nan=True)
    gaps = [cov.gaps(TRAIN, texts, seed=1) for cov in (here, there)]
    assert gaps[0].within == gaps[1].within
    assert [one.text for one in gaps[0].flagged] == [one.text for one in gaps[1].flagged]
    assert {"answer", "states"} <= set(crew.asked)


def test_what_a_language_model_answers_elsewhere_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Prompting(template="{text} ?", generate=4, read="both")
    here, there, _ = pair_of_coverages("llama", prompting=asked)
    texts = tiny.texts(20, seed=4, longest=5)
    for cov in (here, there):
        cov.calibrate(TRAIN[:10], cache=False)
    here.update(texts, gains=True)

    def refuse(*what: Any) -> Any:
        raise AssertionError("the model answered a text that a worker has answered")

    monkeypatch.setattr(there.engine.subject.answerer, "_run", refuse)
    there.update(texts, gains=True)
    assert here.data.table.answers == there.data.table.answers


def test_an_interrupted_run_goes_on_in_the_middle_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window is smaller than what a worker gets: it is asked only for what is left."""
    monkeypatch.setattr(windows, "WINDOW_BYTES", 3_000)
    monkeypatch.setattr("mncover.data.files.Unfinished.is_time", property(lambda self: True))
    here, there, crew = pair_of_coverages("bert")
    texts = {"text": list(dict.fromkeys(tiny.texts(150, seed=5)))[:60]}
    here.run(texts, tmp_path / "whole.mncover", TRAIN)
    real, output = Adder.add, tmp_path / "parts.mncover"
    calls = []

    def interrupted(self: Adder, *what: Any) -> Any:
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return real(self, *what)

    with monkeypatch.context() as patch:
        patch.setattr(Adder, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            there.run(texts, output, TRAIN)
    done = len(Coverage.load(output.with_name(output.name + ".partial")).data.table)
    assert 0 < done < 60
    assert done % 16  # not where a part ends
    crew.asked.clear()
    there.run(texts, output)
    assert crew.asked.count("record") == 4 - done // 16
    assert contents(output) == contents(tmp_path / "whole.mncover")


# Cells.


@given(st.data(), st.sampled_from([2, 10, 16, 17, 64, 65, 130]))
def test_cells_of_a_map_are_its_bits(data: st.DataObject, cells: int) -> None:
    slots = data.draw(st.integers(1, 6))
    hit = data.draw(st.sets(st.tuples(st.integers(0, slots - 1), st.integers(0, cells - 1))))
    width = maps.ints_per_neuron(cells)
    bits = np.zeros(slots * width, dtype=maps.int_type(cells))
    for slot, code in hit:
        bits[slot * width + code // 64] |= maps.int_type(cells).type(1 << (code % 64))
    found = maps.cells_in(bits, cells).tolist()
    assert sorted(found) == sorted(slot * cells + code for slot, code in hit)


@pytest.mark.parametrize("name", ["cpu", "torch"])
@pytest.mark.parametrize("bins", [10, 100])
def test_compiled_cells_are_those_that_two_maps_differ_in(name: str, bins: int) -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=12, bins=bins, kernels=name)
    engine = cov.calibrate(TRAIN, cache=False).engine
    kernels, mine, other = engine.kernels, engine.new_bits("cover"), engine.new_bits("cover")
    for window in engine.windows([[text] for text in tiny.texts(12, seed=1)], lambda n: None):
        for row in range(len(window.texts)):
            codes, length = window.codes(row, engine.group("cover")), window.length(row)
            fast = kernels.add_cells(codes, length, bins, mine)
            slow = Kernels.add_cells(kernels, codes, length, bins, other)
            assert sorted(fast.tolist()) == sorted(slow.tolist())


def shards_of(lists: list[list[set[int]]]) -> list[Shard]:
    """Return shards in which every text hits the given cells of one criterion."""
    found = []
    for number, texts in enumerate(lists):
        seen: set[int] = set()
        fresh = []
        for cells in texts:
            fresh.append(sorted(cells - seen))
            seen |= cells
        counts = np.array([len(one) for one in fresh], dtype=np.int64)
        flat = np.array([cell for one in fresh for cell in one], dtype=np.uint32)
        n = len(texts)
        rows = np.arange(n), np.zeros(n, bool), np.zeros((n, 2), np.float32)
        context = {"ab"[number % 2]: {"cover": Covered(np.array(sorted(seen), dtype=np.uint32))}}
        signatures = np.zeros((n, 1), np.float16)
        hits = {"cover": Hits(flat, counts)}
        found.append(Shard(*rows, signatures, [], hits, context, {}))
    return found


@given(
    st.lists(
        st.lists(st.sets(st.integers(0, 300)), min_size=1, max_size=4), min_size=2, max_size=6
    ),
    st.data(),
)
@settings(deadline=None, max_examples=60)
def test_shards_may_be_joined_in_any_way_and_gains_are_those_of_a_set(
    lists: list[list[set[int]]], data: st.DataObject
) -> None:
    setups = tiny_setups()
    left = shards_of(lists)
    while len(left) > 1 and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(left) - 2))
        left[at : at + 2] = [joined(setups, left[at : at + 2])]
    adder = Adder(setups)
    bits, new = adder.empty("cover"), []
    by_context: dict[str, set[int]] = {"a": set(), "b": set()}
    for shard in left:
        new += adder.add("cover", shard.hits["cover"], bits)[0].sum(axis=0).tolist()
        for context, found in shard.contexts.items():
            mine = adder.empty("cover")
            adder.unite("cover", found["cover"], mine)
            by_context[context] |= set(maps.cells_in(mine, 10).tolist())
    seen: set[int] = set()
    expected = []
    for cells in (cells for texts in lists for cells in texts):
        expected.append(len(cells - seen))
        seen |= cells
    assert new == expected
    assert set(maps.cells_in(bits, 10).tolist()) == seen
    for number, context in enumerate("ab"):
        assert by_context[context] == set().union(*(s for t in lists[number::2] for s in t))


_SETUPS: list[Any] = []


def tiny_setups() -> Any:
    """Return what a tiny model is measured with."""
    if not _SETUPS:
        model, tokenizer = tiny.make("bert")
        _SETUPS.append(Coverage(model, tokenizer, max_length=12).engine.setups)
    return _SETUPS[0]
