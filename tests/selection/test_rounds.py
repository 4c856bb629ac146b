"""What is found for all cases of a window at once is what walking from case to case finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.criteria.binned import Binned
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine import ordered
from mncover.engine.batches import Tokens
from mncover.engine.engine import Engine
from mncover.engine.kernels import plain_torch
from mncover.engine.kernels.base import code_type, no_cell
from mncover.engine.setups import Setups
from mncover.engine.spool import Spool
from mncover.engine.windows import Window
from mncover.selection import rounds
from mncover.selection.filters import greedy, sequential_filter
from mncover.selection.sets import saturation
from mncover.types import Settings
from tests import tiny
from tests.masks.test_mncover import random_masks

LAYOUT = Layout(
    (Site("hidden", 0, 1, 5, 3), Site("hidden", 1, 1, 5, 2), Site("attention", 1, 2, 5, 5))
)
CPU = torch.device("cpu")
CRITERIA = ["toy", "masked"]


class Material:
    """Random codes of distinct texts, some without tokens, in batches; cases of them; and a map."""

    def __init__(self, seed: int, cells: int, texts: int, most: int) -> None:
        rng = np.random.default_rng(seed)
        self.cells = cells
        sizes = rng.integers(0, most + 1, texts) if most > 1 else np.ones(texts, dtype=int)
        ends = np.cumsum(sizes).tolist()
        self.cases = [range(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        used, which = np.unique(rng.integers(0, texts, ends[-1]), return_inverse=True)
        self.which: list[int] = which.tolist()
        self.lengths = rng.integers(0, 6, len(used))
        self.batches = []
        some = np.unique(np.append(rng.integers(0, cells, 3), cells - 1))
        for length in range(1, 6):
            rows = np.flatnonzero(self.lengths == length)
            cuts = np.sort(rng.integers(0, len(rows) + 1, 2))
            for part in np.split(rows, cuts):
                if len(part):
                    self.batches.append((part.tolist(), length, *self._batch(rng, part, some)))
        self.bits = maps.empty_map(LAYOUT, cells)
        ints = self.bits.reshape(LAYOUT.slots, -1)
        for cell in some.tolist():
            set_now = (rng.random(LAYOUT.slots) < 0.3).astype(ints.dtype)
            ints[:, cell >> 6] |= set_now << ints.dtype.type(cell & 63)

    def _batch(self, rng: Any, rows: Any, some: Any) -> tuple[dict[Site, Any], Any, Any]:
        """Return the codes of a batch by site, and which of its tokens and pairs count."""
        length, codes = int(self.lengths[rows[0]]), {}
        for site in LAYOUT.sites:
            shape = (len(rows), site.groups, site.touched(length) // site.groups)
            mine = rng.choice(some, shape)
            mine[rng.random(shape) < 0.2] = no_cell(self.cells)
            codes[site] = mine.astype(code_type(self.cells))
        pairs = rng.integers(0, 2, (len(rows), length, length)).astype(np.uint8)
        return codes, rng.integers(0, 2, (len(rows), length)).astype(np.uint8), pairs


class ToyWindow(Window):
    def length(self, row: int) -> int:
        batch = self.spool._where.get(self.which[row])
        return 0 if batch is None else batch[0].length


NO_TOKENS = Tokens({}, np.zeros(0, np.int64), np.zeros(0, bool))


class ToyEngine(Engine):
    """An engine whose model has run: its only window has the codes of some material."""

    def __init__(self, material: Material, kernels: str) -> None:
        self.settings, self.layout = Settings(material.cells, attention_weight=0.7), LAYOUT
        toys = [Binned("toy", "", ""), Binned("masked", "", "", masked=True)]
        self.setups = Setups(toys, self.settings, LAYOUT)
        self.setups.run_on(CPU, kernels)
        self.material = material
        self.subject: Any = SimpleNamespace(encode=lambda texts, length: NO_TOKENS)
        spool = Spool(self.kernels)
        for rows, length, codes, tokens, pairs in material.batches:
            kept: Any = SimpleNamespace(tokens=torch.tensor(tokens), pairs=torch.tensor(pairs))
            spool.begin(np.array(rows), length, kept)
            for site, mine in codes.items():
                spool.write(
                    rows[0], site, self.setups.groups[0], self.kernels.to_device(mine.copy())
                )
        texts: list[Any] = [str(text) for text in material.which]
        self.cases = [texts[rows.start : rows.stop] for rows in material.cases]
        empty = np.zeros((len(texts), 0), dtype=np.float32)
        which = np.array(material.which, dtype=np.int64)
        self.window = ToyWindow(material.cases, texts, NO_TOKENS, empty, spool, which)

    def first_gains(self, *_: Any) -> None:
        """There is no model to run."""

    def bar(self, what: str, total: int) -> Any:
        return nullcontext(lambda n: None)

    def windows(self, cases: Sequence[Any], advance: Any, *_: Any, **__: Any) -> Iterator[Window]:
        yield self.window

    def start(self) -> Any:
        return self.kernels.to_device(self.material.bits.copy())

    def numpy(self, bits: Any) -> Any:
        return self.kernels.bits_to_numpy(bits, self.material.cells)


def toys(seed: int, cells: int, texts: int, most: int) -> tuple[ToyEngine, ToyEngine]:
    material = Material(seed, cells, texts, most)
    walking, at_once = ToyEngine(material, "cpu"), ToyEngine(material, "torch")
    assert walking.ordered(walking.window, "toy") is None
    assert at_once.ordered(at_once.window, "toy") is not None
    return walking, at_once


@pytest.fixture(params=["parts", "at once"], scope="module")
def space(request: pytest.FixtureRequest) -> Iterator[None]:
    """Go through codes, blocks, maps and gains in small parts, or at once."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "parts":
            patch.setattr(plain_torch, "PART", 100)
            patch.setattr(ordered, "BLOCK_BYTES", 200)
            patch.setattr(ordered, "MAPS_BYTES", 400)
            patch.setattr(rounds, "FEWEST", 2)
        yield


quickly = settings(max_examples=20, deadline=None)
more_quickly = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 10**6)
cells_of = st.sampled_from([2, 10, 16, 17, 33, 64, 65, 255, 300])
thresholds = st.sampled_from([-1.0, 0.0, 1e-4, 0.003, 0.01, 0.02, 0.05, 2.0, float("nan")])


@pytest.mark.usefixtures("space")
@quickly
@given(seeds, cells_of, st.integers(1, 12), st.integers(1, 4), thresholds, st.booleans())
def test_the_filter_keeps_the_same_cases_with_the_same_gains(
    seed: int, cells: int, texts: int, most: int, threshold: float, on_top: bool
) -> None:
    both = toys(seed, cells, texts, most)
    for criterion in CRITERIA:
        bits = [one.start() if on_top else one.new_bits(criterion) for one in both]
        found = [
            sequential_filter(one, one.cases, threshold, mine, criterion)
            for one, mine in zip(both, bits, strict=True)
        ]
        assert found[0].kept == found[1].kept
        assert found[0].gains.tolist() == found[1].gains.tolist()
        maps_after = [one.numpy(mine) for one, mine in zip(both, bits, strict=True)]
        np.testing.assert_array_equal(*maps_after)


def test_a_gain_is_not_greater_than_a_threshold_that_equals_it() -> None:
    both = toys(7, 10, 8, 2)
    alone = sequential_filter(both[0], both[0].cases, 2.0, both[0].new_bits("toy"), "toy").gains
    for threshold in alone.tolist():
        found = [
            sequential_filter(one, one.cases, threshold, one.new_bits("toy"), "toy") for one in both
        ]
        assert found[0].kept == found[1].kept
        assert found[0].gains.tolist() == found[1].gains.tolist()


@pytest.mark.usefixtures("space")
@quickly
@given(seeds, cells_of, st.integers(1, 12), st.integers(1, 4), st.sampled_from([0.0, 0.01, -1.0]))
def test_the_greedy_choice_takes_the_same_cases_in_the_same_order(
    seed: int, cells: int, texts: int, most: int, threshold: float
) -> None:
    both = toys(seed, cells, texts, most)
    for criterion in CRITERIA:
        found = [greedy(one, one.cases, criterion, None, threshold) for one in both]
        assert found[0].kept == found[1].kept
        assert found[0].gains.tolist() == found[1].gains.tolist()


@pytest.mark.usefixtures("space")
@more_quickly
@given(seeds, cells_of, st.integers(1, 12))
def test_gains_curves_and_unions_of_texts_are_the_same(seed: int, cells: int, texts: int) -> None:
    both = toys(seed, cells, texts, 1)
    names = both[0].window.texts
    some = np.random.default_rng(seed).integers(0, texts, 5)
    for criterion in CRITERIA:
        gains = [one.gains(names, one.start(), criterion) for one in both]
        assert gains[0].tolist() == gains[1].tolist()
        maps = [one.start() for one in both]
        for one, bits in zip(both, maps, strict=True):
            one.unite(one.window, some, bits, criterion)
        np.testing.assert_array_equal(*(one.numpy(b) for one, b in zip(both, maps, strict=True)))
    curves = [saturation(one, "a", names, (0.0, 0.003, 0.02, 2.0), (1, 2)) for one in both]
    assert curves[0] == curves[1]


def test_without_memory_for_all_cases_at_once_texts_are_walked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, engine = toys(3, 10, 12, 3)

    def found() -> Any:
        return sequential_filter(engine, engine.cases, 0.01, engine.new_bits("toy"), "toy")

    at_once = found()
    monkeypatch.setattr(plain_torch, "spare_bytes", lambda device, otherwise: 10)
    assert engine.ordered(engine.window, "toy") is None
    assert found().kept == at_once.kept
    assert found().gains.tolist() == at_once.gains.tolist()


def test_codes_are_still_read_text_by_text_after_they_were_joined() -> None:
    for engine in toys(3, 10, 12, 3):
        rows = [row for row in range(len(engine.window.texts)) if engine.window.length(row)]
        assert rows
        before = [engine.codes(engine.window, row, name) for row in rows for name in CRITERIA]
        engine.ordered(engine.window, "toy")
        after = [engine.codes(engine.window, row, name) for row in rows for name in CRITERIA]
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_filter_decides_many_cases_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, undecided = ToyEngine(Material(5, 10, 200, 1), "torch"), list[int]()
    with_more = ordered.Firsts.with_more

    def counted(self: ordered.Firsts, chosen: Any, numbers: Any) -> ordered.Firsts:
        undecided.append(int(chosen.sum()))
        return with_more(self, chosen, numbers)

    monkeypatch.setattr(ordered.Firsts, "with_more", counted)
    found = sequential_filter(engine, engine.cases, 0.003, engine.new_bits("toy"), "toy")
    assert 5 < len(found.kept) < 100
    assert undecided[0] == 200
    assert len(undecided) < 10


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_model_is_filtered_compared_and_chosen_from_in_the_same_way(name: str) -> None:
    model, tokenizer = tiny.make(name)
    texts = [*tiny.texts(14, seed=5), "", tiny.texts(14, seed=5)[2]]
    cases: list[list[str]] = [texts[i : i + 1 + i % 3] for i in range(len(texts))] + [[]]
    both = [
        Coverage(model, tokenizer, max_length=10, masks=random_masks(tokenizer, 1), kernels=kernels)
        .calibrate(tiny.texts(8, seed=6), cache=False)
        .update(texts[:3])
        for kernels in ("cpu", "torch")
    ]
    for metric in ("cover", "mncover"):
        for threshold in (0.0, 0.002, 0.02):
            found = [cov.filter(cases, threshold, on_top=True, metric=metric) for cov in both]
            assert found[0].kept == found[1].kept
            np.testing.assert_array_equal(found[0].gains, found[1].gains)
        chosen = [cov.greedy(cases, 5, metric=metric) for cov in both]
        assert chosen[0].kept == chosen[1].kept
        np.testing.assert_array_equal(chosen[0].gains, chosen[1].gains)
        gains = [cov.gain(texts, metric=metric) for cov in both]
        assert gains[0].tolist() == gains[1].tolist()
    sets = {"a": texts[:5], "b": texts[4:9], "c": texts[8:]}
    compared = [cov.compare(sets, texts=4, draws=3) for cov in both]
    assert compared[0] == compared[1]
    curves = [cov.curve("a", texts, (0.0, 0.002, 0.02), seeds=(4,)) for cov in both]
    assert curves[0] == curves[1]
