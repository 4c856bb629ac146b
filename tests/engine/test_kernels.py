"""The kernels: the definition of a bin by hand and by a plain formula, for both implementations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine.kernels import cpu as bins
from mncover.engine.kernels import plain_torch as bins_torch

NONE = 255
floats = st.floats(-1e6, 1e6, width=32)


def single(value: float) -> Any:
    return np.array([[[value]]], dtype=np.float32)


def code_of(value: float, low: float, high: float, n: int) -> int | None:
    """Return the bin by the compiled loop, after checking that torch agrees."""
    arrays = single(value), single(low)[0], single(high)[0]
    codes = np.zeros((1, 1, 1), dtype=np.int16)
    assert bins.encode(*arrays, n, codes, 32767)
    other = torch.zeros((1, 1, 1), dtype=torch.int16)
    v, lo, hi = (torch.from_numpy(a) for a in arrays)
    assert bins_torch.encode(v, lo, hi, n, other, 32767)
    assert other.item() == codes.item()
    return None if codes.item() == 32767 else int(codes.item())


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


@given(value=floats, low=floats, high=floats, n=st.integers(2, 1000))
def test_any_value_has_the_bin_of_the_plain_formula(
    value: float, low: float, high: float, n: int
) -> None:
    low, high = min(low, high), max(low, high)
    if value < low or value > high:
        expected = None
    elif low == high:
        expected = 0
    else:
        expected = min(math.floor((value - low) / (high - low) * n), n - 1)
    assert code_of(value, low, high, n) == expected


LAYOUT = Layout(
    (Site("hidden", 0, 1, 5, 3), Site("hidden", 1, 1, 5, 3), Site("attention", 1, 2, 5, 5))
)
LENGTH = 4


def random_case(n_bins: int, seed: int, texts: int = 3) -> dict[str, Any]:
    """Return ranges, a half-filled map and values for every site of the layout."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=LAYOUT.slots).astype(np.float32)
    high = low + rng.exponential(size=LAYOUT.slots).astype(np.float32)
    high[::7] = low[::7]
    low[::11], high[::11] = np.inf, -np.inf
    words = maps.empty_map(LAYOUT, n_bins)
    width = maps.words_per_neuron(n_bins)
    for b in range(0, n_bins, 3):  # some bits set at random, of those that exist
        some = rng.random(LAYOUT.slots) < 0.3
        words.reshape(-1, width)[some, b // 64] |= words.dtype.type(1) << words.dtype.type(b % 64)
    values = []
    for site in LAYOUT.sites:
        centre = np.nan_to_num(cut(low, site, 1), posinf=0)
        noise = rng.normal(size=(texts, *centre.shape)) * 0.7
        values.append((centre + noise).astype(np.float32))
    return {"low": low, "high": high, "words": words, "values": values}


def cut(flat: Any, site: Site, width: int) -> Any:
    """Return what a text of LENGTH tokens touches at a site, as [groups, n * width]."""
    part = next(part for other, part in LAYOUT.spans() if other == site)
    whole = flat[part.start * width : part.stop * width].reshape(*site.shape, width)
    return whole[:, :LENGTH, : site.touched_columns(LENGTH)].reshape(site.groups, -1).copy()


def site_arrays(case: dict[str, Any], site: Site, n_bins: int) -> tuple[Any, Any, Any]:
    words = cut(case["words"], site, maps.words_per_neuron(n_bins))
    return cut(case["low"], site, 1), cut(case["high"], site, 1), words


def as_torch(array: Any) -> torch.Tensor:
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(array)


def tensors(*arrays: Any) -> Any:
    return [as_torch(array) for array in arrays]


BIN_COUNTS = [2, 10, 16, 17, 32, 33, 64, 65, 200, 1000]


@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_hit_sets_exactly_the_bits_of_the_codes(n_bins: int) -> None:
    case = random_case(n_bins, seed=n_bins)
    width = maps.words_per_neuron(n_bins)
    for site, values in zip(LAYOUT.sites, case["values"], strict=True):
        low, high, words = site_arrays(case, site, n_bins)
        before = words.copy()
        codes = np.empty(values.shape, dtype=np.int16)
        assert bins.encode(values, low, high, n_bins, codes, 32767)
        expected = before.copy()
        for (_, g, i), code in np.ndenumerate(codes):
            if code != 32767:
                bit = words.dtype.type(1) << words.dtype.type(code % 64)
                expected[g, i * width + code // 64] |= bit
        other = as_torch(before.copy())
        assert bins.hit(values, low, high, n_bins, words)
        v, lo, hi = tensors(values, low, high)
        assert bins_torch.hit(v, lo, hi, n_bins, other)
        np.testing.assert_array_equal(words, expected)
        np.testing.assert_array_equal(other.numpy().view(words.dtype), expected)
        assert (expected != before).any()


@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_novel_counts_the_bits_that_hit_would_set_for_one_text(n_bins: int) -> None:
    case = random_case(n_bins, seed=n_bins + 1)
    for site, values in zip(LAYOUT.sites, case["values"], strict=True):
        low, high, words = site_arrays(case, site, n_bins)
        counts = np.zeros(len(values), dtype=np.int64)
        assert bins.novel(values, low, high, n_bins, words, counts)
        other = torch.zeros(len(values), dtype=torch.int64)
        v, lo, hi = tensors(values, low, high)
        assert bins_torch.novel(v, lo, hi, n_bins, as_torch(words), other)
        for row in range(len(values)):
            after = words.copy()
            bins.hit(values[row : row + 1], low, high, n_bins, after)
            new = int(np.bitwise_count(after & ~words).sum())
            assert counts[row] == other[row] == new
        assert counts.sum() > 0


@pytest.mark.parametrize("n_bins", BIN_COUNTS)
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("part", [5, 24, 10**6])
def test_walking_codes_equals_hitting_values(
    n_bins: int, store: bool, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(n_bins, seed=n_bins + 2, texts=1)
    kind = np.uint8 if n_bins <= 255 else np.int16
    none = int(np.iinfo(kind).max)
    width = maps.words_per_neuron(n_bins)
    parts = []
    new = {"hidden": 0, "attention": 0}
    for site, values in zip(LAYOUT.sites, case["values"], strict=True):
        low, high, words = site_arrays(case, site, n_bins)
        codes = np.empty(values.shape, dtype=kind)
        bins.encode(values, low, high, n_bins, codes, none)
        parts.append(codes.ravel())
        after = words.copy()
        bins.hit(values, low, high, n_bins, after)
        new[site.kind] += int(np.bitwise_count(after & ~words).sum())
    flat, table, before = np.concatenate(parts), maps.site_table(LAYOUT, n_bins), case["words"]
    words, other = before.copy(), as_torch(before.copy())
    expected = new["hidden"], new["attention"]
    assert bins.walk(flat, none, table, LENGTH, width, words, store) == expected
    places = bins_torch.SiteTable(table, torch.device("cpu"))
    given = torch.from_numpy(flat), none, places, LENGTH, width, other, store
    monkeypatch.setattr(bins_torch, "PART", part)
    assert bins_torch.walk(*given) == expected
    np.testing.assert_array_equal(other.numpy().view(words.dtype), words)
    assert int(np.bitwise_count(words & ~before).sum()) == (sum(expected) if store else 0)
    if store:  # and what was added is what hitting adds
        for site, values in zip(LAYOUT.sites, case["values"], strict=True):
            low, high, after = site_arrays(case, site, n_bins)
            bins.hit(values, low, high, n_bins, after)
            np.testing.assert_array_equal(cut(words, site, width), after)


@given(st.lists(st.sampled_from([*range(15), 255]), min_size=1, max_size=40), st.integers(1, 9))
def test_unpacking_halves_gives_back_the_codes_of_all_sites(row: list[int], n: int) -> None:
    sites = [np.array([row, row[::-1]], dtype=np.uint8), np.array([row[:n]] * 2, dtype=np.uint8)]
    parts = []
    for codes in sites:
        packed = np.full((2, (codes.shape[1] + 1) // 2), 99, dtype=np.uint8)
        bins.pack_halves(codes, packed)
        parts.append(packed)
    sizes = np.array([codes.shape[1] for codes in sites])
    for r in range(2):
        found = np.zeros(sizes.sum(), dtype=np.uint8)
        bins.unpack_halves(np.concatenate([packed[r] for packed in parts]), sizes, found)
        np.testing.assert_array_equal(found, np.concatenate([codes[r] for codes in sites]))


def masked_plainly(codes: Any, words: Any, pairs: Any, length: int, none: int) -> list[int]:
    """Go through a text's codes one by one, in the order of the layout."""
    found, left = [], iter(codes.tolist())
    for site in LAYOUT.sites:
        for _group in range(site.groups):
            for t in range(length):
                for column in range(length if site.kind == "attention" else site.columns):
                    counts = pairs[t, column] if site.kind == "attention" else words[t]
                    code = next(left)
                    found.append(code if counts else none)
    return found


@pytest.mark.parametrize("length", range(1, 6))
def test_masking_codes_leaves_those_of_kept_words_and_pairs(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bins_torch, "PART", 7)
    rng = np.random.default_rng(length)
    codes = rng.integers(0, 10, sum(s.touched(length) for s in LAYOUT.sites)).astype(np.uint8)
    words = rng.integers(0, 2, length).astype(np.uint8)
    pairs = rng.integers(0, 2, (length, length)).astype(np.uint8)
    expected = masked_plainly(codes, words, pairs, length, NONE)
    table, out = maps.site_table(LAYOUT, 10), np.empty_like(codes)
    bins.mask_codes(codes, NONE, table, length, words, pairs, out)
    assert out.tolist() == expected
    places, other = bins_torch.SiteTable(table, torch.device("cpu")), torch.from_numpy(codes)
    keep_words, keep_pairs = torch.from_numpy(words), torch.from_numpy(pairs)
    masked = torch.empty_like(other)
    bins_torch.mask_codes(other, NONE, places, length, keep_words, keep_pairs, masked)
    assert masked.tolist() == expected


@pytest.mark.parametrize("room", [0, 500, 10**9])
def test_places_are_kept_within_their_room_and_stay_right(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bins_torch, "KEPT_BYTES", room)
    table = maps.site_table(LAYOUT, 10)
    places = bins_torch.SiteTable(table, torch.device("cpu"))
    number = torch.arange(LAYOUT.slots)
    for length in (4, 2, 5, 4, 1, 5):
        expected = []
        for site, part in LAYOUT.spans():
            of_site = number[part].view(site.groups, site.rows, site.columns)
            width = length if site.kind == "attention" else site.columns
            expected += of_site[:, :length, :width].flatten().tolist()
        assert places.places(length, 1).tolist() == expected
        kept = sum(one.nbytes for one in places._kept.values())
        assert len(places._kept) == 1 or kept <= room
    assert len(places._kept) == {0: 1, 500: 2, 10**9: 4}[room]


def test_places_in_a_map_of_more_words_than_four_bytes_can_count_are_right() -> None:
    layout = Layout((Site("hidden", 0, 1, 2**15, 2**13), Site("hidden", 1, 1, 2**15, 2**13)))
    table = maps.site_table(layout, 1000)  # sixteen words for a neuron
    found = bins_torch.SiteTable(table, torch.device("cpu")).places(1, 16)
    assert found.tolist()[2**13 :] == [2**32 + 16 * column for column in range(2**13)]


@pytest.mark.parametrize("n_bins", [10, 200])
def test_copy_touched_copies_what_a_text_can_touch_and_nothing_else(
    n_bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bins_torch, "PART", 7)
    case = random_case(n_bins, seed=5)
    source, width = case["words"], maps.words_per_neuron(n_bins)
    table = maps.site_table(LAYOUT, n_bins)
    target = maps.empty_map(LAYOUT, n_bins)
    bins.copy_touched(table, LENGTH, width, source, target)
    other = as_torch(maps.empty_map(LAYOUT, n_bins))
    places = bins_torch.SiteTable(table, torch.device("cpu"))
    bins_torch.copy_touched(places, LENGTH, width, as_torch(source), other)
    np.testing.assert_array_equal(other.numpy().view(source.dtype), target)
    for site, part in LAYOUT.spans():
        place = slice(part.start * width, part.stop * width)
        mine = target[place].reshape(*site.shape, width)
        theirs = source[place].reshape(*site.shape, width)
        columns = site.touched_columns(LENGTH)
        expected = np.zeros_like(theirs)
        expected[:, :LENGTH, :columns] = theirs[:, :LENGTH, :columns]
        np.testing.assert_array_equal(mine, expected)
        assert (expected != theirs).any()


def test_widen_keeps_the_smallest_and_largest_value() -> None:
    values = np.random.default_rng(0).normal(size=(4, 2, 9)).astype(np.float32)
    low, high = values[0] + 0.1, values[0] - 0.2
    expected_low = np.minimum(values.min(0), low)
    expected_high = np.maximum(values.max(0), high)
    other = tensors(low.copy(), high.copy())
    assert bins.widen(values, low, high)
    assert bins_torch.widen(torch.from_numpy(values), *other)
    for found in (low, other[0].numpy()):
        np.testing.assert_array_equal(found, expected_low)
    for found in (high, other[1].numpy()):
        np.testing.assert_array_equal(found, expected_high)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (2, 0, 11)])
def test_every_kernel_notices_a_value_that_is_not_finite(
    bad: float, place: tuple[int, int, int]
) -> None:
    case = random_case(10, seed=3)
    values = case["values"][0].copy()
    values[place] = bad
    low, high, words = site_arrays(case, LAYOUT.sites[0], 10)
    counts, codes = np.zeros(3, dtype=np.int64), np.zeros(values.shape, dtype=np.uint8)
    assert not bins.widen(values, low.copy(), high.copy())
    assert not bins.hit(values, low, high, 10, words.copy())
    assert not bins.novel(values, low, high, 10, words, counts)
    assert not bins.encode(values, low, high, 10, codes, NONE)
    v, lo, hi = tensors(values, low.copy(), high.copy())
    assert not bins_torch.widen(v, lo.clone(), hi.clone())
    assert not bins_torch.hit(v, lo, hi, 10, as_torch(words.copy()))
    assert not bins_torch.novel(v, lo, hi, 10, as_torch(words.copy()), torch.from_numpy(counts))
    assert not bins_torch.encode(v, lo, hi, 10, torch.from_numpy(codes), NONE)


@settings(max_examples=30)
@given(n_bins=st.sampled_from(BIN_COUNTS), seed=st.integers(0, 10**6))
def test_unpacking_gives_back_what_was_packed(n_bins: int, seed: int) -> None:
    words = random_case(n_bins, seed)["words"]
    np.testing.assert_array_equal(maps.unpack(maps.pack(words, n_bins), LAYOUT, n_bins), words)


@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_count_bits_counts_each_head_of_each_site(n_bins: int) -> None:
    words = random_case(n_bins, seed=9)["words"]
    width = maps.words_per_neuron(n_bins)
    for (site, part), counts in zip(
        LAYOUT.spans(), maps.count_bits(words, LAYOUT, n_bins), strict=True
    ):
        block = words[part.start * width : part.stop * width].reshape(site.groups, -1)
        expected = [sum(int(word).bit_count() for word in row) for row in block]
        assert counts.tolist() == expected
