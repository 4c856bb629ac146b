"""The contract of kernels: every registered implementation, against plain loops over codes."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.criteria.base import Coding, Group
from mncover.criteria.binned import BINS
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine.kernels import KERNELS, kernels_for, loops, plain_torch
from mncover.engine.kernels.base import (
    NOBODY,
    Block,
    Bounds,
    Kernels,
    Order,
    Target,
    code_type,
    no_cell,
    spare_bytes,
)
from mncover.errors import SettingsError

CPU = torch.device("cpu")
LAYOUT = Layout(
    (Site("hidden", 0, 1, 5, 3), Site("hidden", 1, 1, 5, 3), Site("attention", 1, 2, 5, 5))
)
LENGTH = 4
CELLS = [2, 10, 16, 17, 32, 33, 64, 65, 200, 1000]
floats = st.floats(-1e6, 1e6, width=32)


class Outside:
    """A coding that no kernel has a loop for: below the range, above it, or nowhere."""

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        below, above = values < low, values > high
        known = xp.where(below, 0, xp.where(above, cells - 1, -1))
        return xp.where(low <= high, known, -1)


OUTSIDE = Outside()
CODINGS: dict[str, Coding] = {"bins": BINS, "outside": OUTSIDE}
NAMES = [name for name, entry in KERNELS.items() if entry.fits(CPU)]
every_kernel = pytest.mark.parametrize("name", NAMES)
every_coding = pytest.mark.parametrize("coding", list(CODINGS))


@cache
def kernels_of(name: str, layout: Layout = LAYOUT) -> Kernels:
    return kernels_for(layout, CPU, name)


def group_of(cells: int, coding: str = "bins") -> Group:
    return Group(CODINGS[coding], cells, "toy")


def plain_code(coding: str, value: float, low: float, high: float, cells: int) -> int | None:
    """Return the cell of one value by the definition."""
    if not low <= high:
        return None
    if coding == "outside":
        return 0 if value < low else cells - 1 if value > high else None
    if not low <= value <= high:
        return None
    return 0 if low == high else min(math.floor((value - low) / (high - low) * cells), cells - 1)


def code_of(value: float, low: float, high: float, cells: int) -> int | None:
    """Return the bin of a value, after checking that all implementations agree."""
    found = []
    site = Site("hidden", 0, 1, 1, 1)
    for name in NAMES:
        kernels = kernels_of(name, Layout((site,)))
        values, *bounds = (
            kernels.to_device(np.array(a, dtype=np.float32)) for a in ([[[value]]], [low], [high])
        )
        codes = kernels.to_device(np.zeros((1, 1, 1), dtype=code_type(cells)))
        block = Block(site, 1, values, torch.zeros(1, dtype=torch.int32))
        assert kernels.encode(group_of(cells), block, Bounds(*bounds), codes)
        code = int(kernels.to_numpy(codes).item())
        found.append(None if code == no_cell(cells) else code)
    assert len(set(found)) == 1
    return found[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # both ends are inside, the upper one in the last bin
        (0.0, 0),
        (1.0, 3),
        # an inner edge belongs to the bin above it
        (0.25, 1),
        (0.2499999, 0),
        (0.75, 3),
        # outside there is no bin
        (-1e-7, None),
        (1.0000001, None),
    ],
)
def test_bins_of_the_unit_range_cut_in_four(value: float, expected: int | None) -> None:
    assert code_of(value, 0.0, 1.0, 4) == expected


def test_a_neuron_that_never_varied_has_its_value_in_bin_zero() -> None:
    assert code_of(3.5, 3.5, 3.5, 10) == 0
    assert code_of(3.4999, 3.5, 3.5, 10) is None
    assert code_of(3.5001, 3.5, 3.5, 10) is None


def test_a_neuron_without_range_has_no_bin() -> None:
    assert code_of(0.0, math.inf, -math.inf, 10) is None


def test_a_value_just_below_a_huge_range_stays_in_the_last_bin() -> None:
    assert code_of(1.0, -1e30, 2.0, 10) == 9


@given(value=floats, low=floats, high=floats, cells=st.integers(2, 1000))
def test_any_value_has_the_bin_of_the_plain_formula(
    value: float, low: float, high: float, cells: int
) -> None:
    low, high = min(low, high), max(low, high)
    assert code_of(value, low, high, cells) == plain_code("bins", value, low, high, cells)


@every_kernel
@pytest.mark.parametrize("cells", [2, 10, 22, 49, 55, 64])
def test_a_value_exactly_on_an_edge_is_where_double_precision_puts_it(
    name: str, cells: int
) -> None:
    site = Site("hidden", 0, 1, 1, cells + 1)
    kernels = kernels_of(name, Layout((site,)))
    rng = np.random.default_rng(cells)
    shift, stretch = rng.integers(-9, 9, site.columns), 2.0 ** rng.integers(-9, 9, site.columns)
    low = (shift * stretch).astype(np.float32)
    high, on_edge = low + cells * stretch, low + np.arange(cells + 1) * stretch
    arrays = [np.asarray(one, dtype=np.float32) for one in (on_edge[None, None], low, high)]
    values, *bounds = map(kernels.to_device, arrays)
    codes = kernels.to_device(np.zeros(values.shape, dtype=code_type(cells)))
    block = Block(site, 1, values, torch.zeros(1, dtype=torch.int32))
    assert kernels.encode(group_of(cells), block, Bounds(*bounds), codes)
    expected = [min(math.floor(edge / cells * cells), cells - 1) for edge in range(cells + 1)]
    assert kernels.to_numpy(codes).ravel().tolist() == expected


class Case:
    """Ranges, a half-filled map and values of some texts at every site of the layout."""

    def __init__(self, cells: int, seed: int, texts: int = 3, coding: str = "bins") -> None:
        rng = np.random.default_rng(seed)
        self.cells, self.coding, self.texts = cells, coding, texts
        self.low = rng.normal(size=LAYOUT.slots).astype(np.float32)
        self.high = self.low + rng.exponential(size=LAYOUT.slots).astype(np.float32)
        self.high[::7] = self.low[::7]
        self.low[::11], self.high[::11] = np.inf, -np.inf
        self.bits = maps.empty_map(LAYOUT, cells)
        self.width = maps.ints_per_neuron(cells)
        for c in range(0, cells, 3):  # some bits set at random, of those that exist
            some = rng.random(LAYOUT.slots) < 0.3
            block = self.bits.reshape(-1, self.width)
            block[some, c // 64] |= block.dtype.type(1) << block.dtype.type(c % 64)
        self.values = []
        for site in LAYOUT.sites:
            centre = np.nan_to_num(self.cut(self.low, site, 1), posinf=0)
            noise = rng.normal(size=(texts, *centre.shape)) * 0.7
            self.values.append((centre + noise).astype(np.float32))
        self.tokens = rng.integers(0, 2, (texts, LENGTH)).astype(np.uint8)
        self.pairs = rng.integers(0, 2, (texts, LENGTH, LENGTH)).astype(np.uint8)

    def cut(self, flat: Any, site: Site, width: int) -> Any:
        """Return what a text of LENGTH tokens touches at a site, as [groups, n * width]."""
        part = next(part for other, part in LAYOUT.spans() if other == site)
        whole = flat[part.start * width : part.stop * width].reshape(*site.shape, width)
        return whole[:, :LENGTH, : site.touched_columns(LENGTH)].reshape(site.groups, -1).copy()

    def at(self, site: Site) -> tuple[Any, Any, Any]:
        """Return low, high and bits of what is touched at a site."""
        low, high = self.cut(self.low, site, 1), self.cut(self.high, site, 1)
        return low, high, self.cut(self.bits, site, self.width)

    def codes(self, site: Site) -> Any:
        """Return the codes [texts, groups, n] by the definition, one by one; -1 for none."""
        low, high, _ = self.at(site)
        values = self.values[LAYOUT.sites.index(site)]
        found = np.full(values.shape, -1, dtype=np.int64)
        for (t, g, i), value in np.ndenumerate(values):
            code = plain_code(
                self.coding, float(value), float(low[g, i]), float(high[g, i]), self.cells
            )
            found[t, g, i] = -1 if code is None else code
        return found

    def hit(self, bits: Any, codes: Any) -> Any:
        """Return a part of a map with the bits of codes [texts, groups, n] set, one by one."""
        after = bits.copy()
        for (_, g, i), code in np.ndenumerate(codes):
            if code >= 0:
                bit = after.dtype.type(1) << after.dtype.type(code % 64)
                after[g, i * self.width + code // 64] |= bit
        return after

    def block(self, kernels: Kernels, site: Site, masked: bool = False) -> Block:
        """Return the values of a site, and what of them counts, as a kernel takes them."""
        values = kernels.to_device(self.values[LAYOUT.sites.index(site)].copy())
        rows = torch.arange(self.texts, dtype=torch.int32)
        kept = kernels.keep(torch.from_numpy(self.kept(site)), site) if masked else None
        return Block(site, LENGTH, values, rows, kept)

    def kept(self, site: Site) -> Any:
        """Return which tokens [texts, T], or pairs [texts, T, T], count."""
        return self.tokens if site.kind == "hidden" else self.pairs

    def bounds(self, kernels: Kernels) -> Bounds:
        return Bounds(kernels.to_device(self.low.copy()), kernels.to_device(self.high.copy()))

    def in_order(self, codes_of: Any, numbers: Any, which: Any) -> tuple[Any, Any]:
        """Return the first number of each cell, and what each of four maps has, one by one."""
        first = np.full((LAYOUT.slots, self.cells), NOBODY)
        hit = np.zeros((4, LAYOUT.slots, self.cells), dtype=bool)
        for site in LAYOUT.sites:
            places = self.cut(np.arange(LAYOUT.slots), site, 1)
            for (text, g, i), code in np.ndenumerate(codes_of(site)):
                if code < 0:
                    continue
                slot = places[g, i]
                hit[which[text], slot, code] = True
                old = int(self.bits[slot * self.width + code // 64]) >> int(code % 64) & 1
                if not old:
                    first[slot, code] = min(first[slot, code], numbers[text])
        return first, hit

    def counting(self, site: Site) -> Any:
        """Return the codes with -1 for tokens and pairs that do not count."""
        kept, codes = self.kept(site), self.codes(site)
        per_token = codes.shape[2] // kept[0].size
        return np.where(kept.reshape(self.texts, 1, -1).repeat(per_token, axis=2) != 0, codes, -1)


@every_kernel
@every_coding
@pytest.mark.parametrize("cells", CELLS)
def test_hit_sets_exactly_the_bits_of_the_codes(name: str, coding: str, cells: int) -> None:
    case = Case(cells, cells, coding=coding)
    kernels, group = kernels_of(name), Group(CODINGS[coding], cells, "toy", "masked")
    bounds = case.bounds(kernels)
    bits, masked, alone = (kernels.to_device(case.bits.copy()) for _ in range(3))
    for site in LAYOUT.sites:
        block = case.block(kernels, site, masked=True)
        assert kernels.hit(group, block, bounds, [Target(bits), Target(masked)])
        assert kernels.hit(group_of(cells, coding), block, bounds, [Target(alone)])
    assert kernels.fault() is None
    for found, codes_of in ((bits, case.codes), (masked, case.counting), (alone, case.codes)):
        after = kernels.bits_to_numpy(found, cells)
        assert (after != case.bits).any()
        for site in LAYOUT.sites:
            expected = case.hit(case.at(site)[2], codes_of(site))
            np.testing.assert_array_equal(case.cut(after, site, case.width), expected)
        assert np.bitwise_count(after).sum() == np.bitwise_count(case.bits).sum() + sum(
            np.bitwise_count(case.hit(case.at(site)[2], codes_of(site)) & ~case.at(site)[2]).sum()
            for site in LAYOUT.sites
        )


@pytest.mark.parametrize("name", [name for name in NAMES if KERNELS[name].load().orders])
@every_coding
@pytest.mark.parametrize("cells", [10, 33, 64, 65])
def test_hit_in_order_fills_several_maps_and_keeps_the_first_text_of_each_cell(
    name: str, coding: str, cells: int
) -> None:
    case = Case(cells, cells + 1, texts=5, coding=coding)
    kernels, group = kernels_of(name), Group(CODINGS[coding], cells, "toy", "masked")
    numbers, which = np.array([3, 3, 4, 7, 9]), np.array([0, 1, 1, 1, 3])
    order = Order(*(torch.from_numpy(one.astype(np.int32)) for one in (numbers, which)))
    empty = maps.empty_map(LAYOUT, cells)
    targets = [
        Target(
            torch.stack([kernels.to_device(empty.copy()) for _ in range(4)]),
            kernels.to_device(case.bits.copy()),
            torch.full((cells, LAYOUT.slots), NOBODY, dtype=torch.int32),
        )
        for _ in group.names
    ]
    for site in LAYOUT.sites:  # batches come in any order
        whole = case.block(kernels, site, masked=True)
        for texts in (slice(3, 5), slice(0, 3)):
            values, rows, keep = (one[texts] for one in (whole.values, whole.rows, whole.keep))  # type: ignore[index]
            block = whole._replace(values=values, rows=rows, keep=keep)
            assert kernels.hit(group, block, case.bounds(kernels), targets, order)
    for target, codes_of in zip(targets, (case.codes, case.counting), strict=True):
        first, hit = case.in_order(codes_of, numbers, which)
        np.testing.assert_array_equal(kernels.to_numpy(target.first).T, first)
        assert (first != NOBODY).any()
        for one, bits in zip(hit, target.bits, strict=True):
            found = kernels.bits_to_numpy(bits, cells).reshape(LAYOUT.slots, -1)
            for c in range(cells):
                expected = found[:, c // 64] >> found.dtype.type(c % 64) & 1
                np.testing.assert_array_equal(expected, one[:, c])


@every_kernel
@every_coding
@pytest.mark.parametrize("cells", [10, 300])
def test_encode_writes_the_codes(name: str, coding: str, cells: int) -> None:
    case, kernels = Case(cells, cells + 2, coding=coding), kernels_of(name)
    for site in LAYOUT.sites:
        expected = case.codes(site)
        codes = kernels.new_codes(case.texts, site, LENGTH, cells)
        block = case.block(kernels, site)
        assert kernels.encode(group_of(cells, coding), block, case.bounds(kernels), codes)
        found = kernels.to_numpy(codes).astype(np.int64)
        np.testing.assert_array_equal(np.where(found == no_cell(cells), -1, found), expected)


@every_kernel
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("part", [5, 24, 10**6])
def test_walking_codes_equals_hitting_values(
    name: str, cells: int, store: bool, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_torch, "PART", part)
    case, kernels = Case(cells, cells + 2, texts=1), kernels_of(name)
    flat, new = [], {"hidden": 0, "attention": 0}
    for site in LAYOUT.sites:
        codes, before = case.codes(site), case.at(site)[2]
        flat.append(np.where(codes < 0, no_cell(cells), codes).ravel())
        new[site.kind] += int(np.bitwise_count(case.hit(before, codes) & ~before).sum())
    codes_of_all = kernels.to_device(np.concatenate(flat).astype(code_type(cells)))
    bits = kernels.to_device(case.bits.copy())
    found = kernels.walk(codes_of_all, LENGTH, cells, bits, store)
    assert found == (new["hidden"], new["attention"])
    after = kernels.bits_to_numpy(bits, cells)
    added = int(np.bitwise_count(after & ~case.bits).sum())
    assert added == (sum(new.values()) if store else 0)
    if store:  # and what was added is what hitting adds
        for site in LAYOUT.sites:
            expected = case.hit(case.at(site)[2], case.codes(site))
            np.testing.assert_array_equal(case.cut(after, site, case.width), expected)


def masked_plainly(codes: Any, tokens: Any, pairs: Any, length: int, none: int) -> list[int]:
    """Go through a text's codes one by one, in the order of the layout."""
    found, left = [], iter(codes.tolist())
    for site in LAYOUT.sites:
        for _group in range(site.groups):
            for t in range(length):
                for column in range(length if site.kind == "attention" else site.columns):
                    counts = pairs[t, column] if site.kind == "attention" else tokens[t]
                    code = next(left)
                    found.append(code if counts else none)
    return found


@every_kernel
@pytest.mark.parametrize("length", range(1, 6))
def test_masking_codes_leaves_those_of_kept_tokens_and_pairs(
    name: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_torch, "PART", 7)
    rng, kernels = np.random.default_rng(length), kernels_of(name)
    codes = rng.integers(0, 10, sum(s.touched(length) for s in LAYOUT.sites)).astype(np.uint8)
    tokens = rng.integers(0, 2, length).astype(np.uint8)
    pairs = rng.integers(0, 2, (length, length)).astype(np.uint8)
    given = (kernels.to_device(array) for array in (tokens, pairs))
    found = kernels.mask_codes(kernels.to_device(codes), length, 10, *given)
    expected = masked_plainly(codes, tokens, pairs, length, no_cell(10))
    assert kernels.to_numpy(found).tolist() == expected


@every_kernel
@pytest.mark.parametrize("cells", [10, 200])
def test_copy_touched_copies_what_a_text_can_touch_and_nothing_else(
    name: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_torch, "PART", 7)
    case, kernels = Case(cells, seed=5), kernels_of(name)
    target = kernels.new_bits(cells)
    kernels.copy_touched(LENGTH, cells, kernels.to_device(case.bits), target)
    found, width = kernels.bits_to_numpy(target, cells), case.width
    for site, part in LAYOUT.spans():
        place = slice(part.start * width, part.stop * width)
        mine = found[place].reshape(*site.shape, width)
        theirs = case.bits[place].reshape(*site.shape, width)
        columns = site.touched_columns(LENGTH)
        expected = np.zeros_like(theirs)
        expected[:, :LENGTH, :columns] = theirs[:, :LENGTH, :columns]
        np.testing.assert_array_equal(mine, expected)
        assert (expected != theirs).any()


@every_kernel
@pytest.mark.parametrize("cells", [10, 15, 16, 200, 300])
def test_a_store_gives_back_each_texts_codes_in_the_order_of_the_sites(
    name: str, cells: int
) -> None:
    kernels, rng = kernels_of(name), np.random.default_rng(cells)
    store = kernels.new_store()
    for _ in range(2):  # the second time its space is used again
        codes = []
        for site in LAYOUT.sites:
            shape = (3, site.groups, site.touched(LENGTH) // site.groups)
            some = rng.integers(0, cells, shape)
            some[rng.random(shape) < 0.3] = no_cell(cells)
            codes.append(some.astype(code_type(cells)))
        places = [store.put(kernels.to_device(some), cells) for some in codes]
        sizes = np.array([site.touched(LENGTH) for site in LAYOUT.sites])
        for row in (2, 0, 1):
            expected = np.concatenate([some[row].ravel() for some in codes])
            found = kernels.to_numpy(store.get(places, sizes, row, cells))
            np.testing.assert_array_equal(found, expected)
        store.clear()
    store.close()


@given(st.lists(st.sampled_from([*range(15), 255]), min_size=1, max_size=40), st.integers(1, 9))
def test_unpacking_halves_gives_back_the_codes_of_all_sites(row: list[int], n: int) -> None:
    sites = [np.array([row, row[::-1]], dtype=np.uint8), np.array([row[:n]] * 2, dtype=np.uint8)]
    parts = []
    for codes in sites:
        packed = np.full((2, (codes.shape[1] + 1) // 2), 99, dtype=np.uint8)
        loops.pack_halves(codes, packed)
        parts.append(packed)
    sizes = np.array([codes.shape[1] for codes in sites])
    for r in range(2):
        found = np.zeros(sizes.sum(), dtype=np.uint8)
        loops.unpack_halves(np.concatenate([packed[r] for packed in parts]), sizes, found)
        np.testing.assert_array_equal(found, np.concatenate([codes[r] for codes in sites]))


@pytest.mark.parametrize("space", [0, 500, 10**9])
def test_slots_are_kept_within_their_space_and_stay_right(
    space: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_torch, "KEPT_BYTES", space)
    places = plain_torch.Places(LAYOUT, CPU)
    for length in (4, 2, 5, 4, 1, 5):
        expected = [
            part.start + (group * site.rows + row) * site.columns + column
            for site, part in LAYOUT.spans()
            for group in range(site.groups)
            for row in range(length)
            for column in range(length if site.kind == "attention" else site.columns)
        ]
        assert places.slots(length).tolist() == expected
        kept = sum(one.nbytes for one in places._kept.values())
        assert len(places._kept) == 1 or kept <= space
    assert len(places._kept) == {0: 1, 500: 2, 10**9: 4}[space]


@every_kernel
def test_widen_keeps_the_smallest_and_largest_value(name: str) -> None:
    case, kernels = Case(10, seed=1), kernels_of(name)
    bounds = case.bounds(kernels)
    for site in LAYOUT.sites:
        values = case.values[LAYOUT.sites.index(site)]
        values[0, 0, :2] = 0.0, -0.0  # which a comparison of bits would take for very small
        assert kernels.widen(case.block(kernels, site), bounds)
        low, high, _ = case.at(site)
        after = [case.cut(kernels.to_numpy(one), site, 1) for one in bounds]
        np.testing.assert_array_equal(after[0], np.minimum(values.min(0), low))
        np.testing.assert_array_equal(after[1], np.maximum(values.max(0), high))
    touched = sum(site.touched(LENGTH) for site in LAYOUT.sites)
    assert 0 < (kernels.to_numpy(bounds.low) != case.low).sum() <= touched


@every_kernel
@every_coding
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (2, 0, 11)])
def test_every_loop_notices_a_value_that_is_not_finite(
    name: str, coding: str, bad: float, place: tuple[int, int, int]
) -> None:
    case, kernels, group = Case(10, seed=3), kernels_of(name), group_of(10, coding)
    case.values[0][place] = case.values[2][2, 0, 0] = bad
    site = LAYOUT.sites[0]
    codes = kernels.new_codes(3, site, LENGTH, 10)
    bits = kernels.to_device(case.bits.copy())

    def noticed(told: bool) -> bool:
        fault = kernels.fault()
        assert fault in (None, (site, place[0]))
        assert kernels.fault() is None  # it is told once
        return not told or fault is not None

    block, bounds = case.block(kernels, site), case.bounds(kernels)
    assert noticed(kernels.widen(block, bounds))
    assert noticed(kernels.hit(group, block, case.bounds(kernels), [Target(bits)]))
    assert noticed(kernels.encode(group, block, case.bounds(kernels), codes))


def test_a_gpu_gives_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spare_bytes(CPU, 7) == 7
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 900))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 40)
    assert spare_bytes(torch.device("cuda"), 7) == 30


def test_a_device_gets_the_kernels_made_for_it_and_others_are_refused() -> None:
    assert kernels_for(LAYOUT, CPU).name == "cpu"
    assert kernels_for(LAYOUT, torch.device("meta")).name == "torch"
    with pytest.raises(SettingsError, match="there are no kernels 'nonsense'; there are auto, cpu"):
        kernels_for(LAYOUT, CPU, "nonsense")
    with pytest.raises(SettingsError, match="do not work on the device 'meta'"):
        kernels_for(LAYOUT, torch.device("meta"), "cpu")


@settings(max_examples=30)
@given(cells=st.sampled_from(CELLS), seed=st.integers(0, 10**6))
def test_unpacking_gives_back_what_was_packed(cells: int, seed: int) -> None:
    bits = Case(cells, seed).bits
    np.testing.assert_array_equal(maps.unpack(maps.pack(bits, cells), LAYOUT, cells), bits)


@pytest.mark.parametrize("cells", CELLS)
def test_count_bits_counts_each_head_of_each_site(cells: int) -> None:
    case = Case(cells, seed=9)
    for (site, part), counts in zip(
        LAYOUT.spans(), maps.count_bits(case.bits, LAYOUT, cells), strict=True
    ):
        place = slice(part.start * case.width, part.stop * case.width)
        block = case.bits[place].reshape(site.groups, -1)
        expected = [sum(int(number).bit_count() for number in row) for row in block]
        assert counts.tolist() == expected
