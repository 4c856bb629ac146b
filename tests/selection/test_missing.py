"""What no text reaches, against sets of neurons; the texts that would, against a slow search."""

from __future__ import annotations

import pytest

from mncover.coverage import Coverage
from mncover.selection import missing as module
from mncover.selection.missing import Gap, missing_of, texts_reaching
from tests import tiny
from tests.slow import Neuron, SlowCover

TRAIN = tiny.texts(30, seed=31)
SHORT = tiny.texts(6, seed=32, longest=3)


def measured(name: str) -> tuple[Coverage, SlowCover]:
    model, tokenizer = tiny.make(name)
    cov = Coverage(model, tokenizer, bins=5, max_length=9).calibrate(TRAIN, cache=False)
    slow = SlowCover(model, tokenizer, 5, 9)
    slow.calibrate(TRAIN)
    return cov.update(SHORT, gains=True), slow


def belongs(neuron: Neuron, gap: Gap, kind: str) -> bool:
    """Return whether a neuron lies in a layer, head or position."""
    part = neuron[2] if kind == "attention" else neuron[3]
    return neuron[0] == kind and gap.layer in (None, neuron[1]) and gap.part in (None, part)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_gaps_are_what_sets_lack(name: str) -> None:
    cov, slow = measured(name)
    found = missing_of(cov.data, cov.data.identity.main)
    hits, reachable = slow.union(SHORT), slow.reachable_cells()
    every = (*found.layers, *found.heads, *found.positions)
    for gap in every:
        kind = "attention" if gap in found.heads else "hidden"
        there = sum(n for neuron, n in reachable if belongs(neuron, gap, kind))
        hit = sum(belongs(neuron, gap, kind) for neuron, _ in hits)
        assert (gap.reachable, gap.missing) == (there, there - hit)
    longest = int(cov.data.table["length"].max())
    assert longest < 9
    assert [gap.part for gap in found.unreached] == list(range(longest, 9))
    assert all(gap.layer is None for gap in found.unreached)


def test_an_old_file_is_taken_to_reach_its_longest_text() -> None:
    for name in ("bert", "gpt2"):
        cov, _ = measured(name)
        cov.data.calibration = None
        found = missing_of(cov.data, cov.data.identity.main)
        length, layout = int(cov.data.table["length"].max()), cov.data.identity.layout
        assert found.unreached == ()
        hidden = [gap.reachable for gap in found.layers]
        assert hidden == [length * 16 * 5] * len(hidden)
        heads = sum(gap.reachable for gap in found.heads)
        assert heads == layout.touched_neurons("attention", length) * 5


def test_texts_are_chosen_greedily_on_top_of_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cov, slow = measured("bert")
    hits = [slow.hits(text) for text in TRAIN]
    tally = cov.result().main.tally
    total = tally.word.total + tally.attention.total
    seen, taken = slow.union(SHORT), []
    for _ in range(4):
        gains = [len(one - seen) for one in hits]
        best = gains.index(max(gains))
        taken.append((best, gains[best]))
        seen |= hits[best]
    found = texts_reaching(cov, TRAIN, 4, "cover")
    assert [one.place for one in found] == [place for place, _ in taken]
    assert [one.adds * total for one in found] == pytest.approx([gain for _, gain in taken])
    monkeypatch.setattr(module, "CANDIDATES", 1)  # then those that add most by themselves
    alone = sorted(range(30), key=lambda i: -len(hits[i] - slow.union(SHORT)))[:4]
    assert sorted(one.place for one in texts_reaching(cov, TRAIN, 4, "cover")) == sorted(alone)
    assert cov.result().n_texts == len(SHORT)
