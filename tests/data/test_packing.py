"""Maps, rows and members that are made in pieces, or in threads, are the same as made plainly."""

from __future__ import annotations

import io
import json
import threading
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mncover.data import maps, store
from mncover.data import table as table_module
from mncover.data.blobs import BlobStore
from mncover.data.identity import Identity, Measured
from mncover.data.layout import Layout, Site
from mncover.data.members import Content, Member, members_of
from mncover.data.results import summarize
from mncover.data.store import CoverageData
from mncover.data.table import Table, each_array
from mncover.data.threads import WORKERS, in_threads
from mncover.errors import DataFileError
from mncover.types import Settings
from tests.engine.test_laws import POOL, fresh

LAYOUT = Layout((Site("hidden", 0, 1, 3, 5), Site("attention", 1, 2, 4, 4)))


def some_bits(cells: int, seed: int, layout: Layout = LAYOUT) -> maps.Bits:
    """Return a map in which a third of the cells was hit."""
    hit = np.random.default_rng(seed).random((layout.slots, cells)) < 1 / 3
    width, bits = maps.ints_per_neuron(cells), maps.empty_map(layout, cells)
    for slot, cell in np.argwhere(hit):
        bits[slot * width + cell // 64] |= bits.dtype.type(1 << int(cell % 64))
    return bits


def data_of(maps_of: dict[str, maps.Bits], cells: int) -> CoverageData:
    reachable = tuple((1,) * site.groups for site in LAYOUT.sites)
    one = Measured("cover", "Cover", cells, reachable, LAYOUT)
    names: Any = dict.fromkeys(
        ("model_fingerprint", "tokenizer_fingerprint", "ranges_fingerprint"), "x"
    )
    data = CoverageData(
        Identity("m", Settings(), **names, layout=LAYOUT, labels=("a", "b"), calibration_texts=1,
                 masks=None, criteria=(one,))
    )  # fmt: skip
    for context, bits in maps_of.items():
        data.set_map(context, bits)
    return data


@given(cells=st.integers(1, 130), seed=st.integers(0, 99), slab=st.sampled_from([8, 16, 2**18]))
def test_packed_bytes_follow_their_description_and_come_back(
    cells: int, seed: int, slab: int
) -> None:
    bits = some_bits(cells, seed)
    expected = bits.astype("<u8").tobytes()
    if cells <= 64:
        hits = [[int(one) >> c & 1 for one in bits] for c in range(cells)]
        expected = b"".join(np.packbits(plane).tobytes() for plane in hits)
    with patch.object(maps, "SLAB", slab):
        packed = maps.pack(bits, cells)
        assert packed == zlib.compress(expected, 6)
        np.testing.assert_array_equal(maps.unpack(packed, LAYOUT, cells), bits)


@given(cells=st.integers(1, 130), seed=st.integers(0, 99), length=st.integers(1, 6))
def test_a_cropped_map_has_what_texts_of_a_length_touch(cells: int, seed: int, length: int) -> None:
    bits, width = some_bits(cells, seed), maps.ints_per_neuron(cells)
    small = LAYOUT.cropped(length)
    assert [site.shape for site in small.sites] == [
        (1, min(3, length), 5),
        (2, min(4, length), min(4, length)),
    ]
    expected = []
    for site, part in LAYOUT.spans():
        block = bits[part.start * width : part.stop * width].reshape(*site.shape, width)
        columns = length if site.kind == "attention" else site.columns
        expected += block[:, :length, :columns].ravel().tolist()
    found = maps.unpack_cropped(maps.pack(bits, cells), LAYOUT, cells, length)
    assert found.dtype == bits.dtype
    assert found.tolist() == expected


@pytest.mark.parametrize("length", [2, 9])
def test_a_damaged_map_is_refused_when_it_is_cropped(length: int) -> None:
    packed = maps.pack(some_bits(10, 0), 10)
    raw = zlib.decompress(packed)
    for wrong in (zlib.compress(raw + b"0"), zlib.compress(raw[:-1]), packed[:-3]):
        with pytest.raises(DataFileError, match="does not have the size"):
            maps.unpack_cropped(wrong, LAYOUT, 10, length)
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        maps.unpack_cropped(b"no zlib", LAYOUT, 10, length)


@given(cells=st.integers(1, 130), rows=st.integers(1, 5), heads=st.integers(1, 3))
def test_cells_are_counted_by_group_whatever_their_size(cells: int, rows: int, heads: int) -> None:
    layout = Layout((Site("hidden", 0, 1, rows, 3), Site("attention", 1, heads, rows, rows)))
    bits = some_bits(cells, rows, layout)
    ones = np.array([int(one).bit_count() for one in bits])
    ones = ones.reshape(layout.slots, -1).sum(axis=1)
    expected = [ones[: rows * 3].sum(keepdims=True), ones[rows * 3 :].reshape(heads, -1).sum(1)]
    for found, right in zip(maps.count_bits(bits, layout, cells), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_maps_packed_in_the_background_are_those_that_were_set() -> None:
    given = {f"context {n}": some_bits(10, n) for n in range(3 * WORKERS + 1)}
    data = data_of(given, 10)
    assert [name for name, _ in data.each_map()] == list(given)
    for context, bits in given.items():
        assert data.packed(context) == maps.pack(bits, 10)
        np.testing.assert_array_equal(data.map_of(context), bits)
    np.testing.assert_array_equal(data.total(), np.bitwise_or.reduce(list(given.values())))


def test_no_more_maps_wait_to_be_packed_than_there_are_workers() -> None:
    made: list[int] = []
    free = threading.Event()

    def make(number: int) -> bytes:
        free.wait(10)
        made.append(number)
        return bytes([number])

    blobs = BlobStore()
    coming = [blobs.put_made(partial(make, n)) for n in range(WORKERS)]
    assert not made
    free.set()
    coming += [blobs.put_made(partial(make, n)) for n in range(WORKERS, 9 * WORKERS)]
    assert len(made) >= 8 * WORKERS - 1
    assert [blobs.get(one) for one in coming] == [bytes([n]) for n in range(9 * WORKERS)]


def test_a_map_that_cannot_be_packed_is_noticed_when_it_is_asked_for() -> None:
    blobs = BlobStore()
    failed = blobs.put_made(lambda: bytes(-1))
    with pytest.raises(ValueError, match="negative"):
        blobs.get(failed)


def test_a_snapshot_undoes_maps_that_are_being_packed_and_rows() -> None:
    data = data_of({"a": some_bits(10, 0)}, 10)
    data.add_rows(some_rows(2))
    before = data.snapshot()
    data.set_map("a", some_bits(10, 1))
    data.set_map("b", some_bits(10, 2))
    data.add_rows(some_rows(3))
    assert len(data.table) == 5
    data.restore(before)
    assert data.contexts == ["a"]
    np.testing.assert_array_equal(data.map_of("a"), some_bits(10, 0))
    assert (len(data.table), data.rows_in(0), data.rows_in(1)) == (2, 2, 0)


def some_rows(n: int, signatures: int = 0, run: int = 0) -> Table:
    rng = np.random.default_rng(n)
    columns: dict[str, Any] = dict.fromkeys(("number", "context", "index", "case", "length"), n)
    columns |= {"run": run, "truncated": False, "label": 0, "prediction": 1}
    texts = [f"text {i} of {n}" for i in range(n)]
    signs = rng.random((n, signatures)).astype(np.float16)
    new = {"cover": np.arange(2 * n).reshape(2, n)}
    return Table.make(texts, rng.random((n, 2), np.float32), new, signs, **columns)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0, 3])), max_size=6),
    few=st.integers(0, 4),
    many=st.sampled_from([0, 6, 10**6]),
    at_once=st.integers(1, 5),
)
def test_rows_on_disk_make_the_file_of_rows_in_memory(
    sizes: list[tuple[int, int]], few: int, many: int, at_once: int
) -> None:
    """Whichever rows wait on disk, each member has the bytes that NumPy and JSON write at once."""
    data, plain = data_of({}, 10), data_of({}, 10)
    with patch.object(store, "FEW_ROWS", few):
        for number, (n, signs) in enumerate(sizes):
            for each in (data, plain):
                each.add_rows(some_rows(n, signs, number % 2))
    with patch.object(table_module, "FEW", many):
        table = plain.table  # whole from now on
    assert (data.n_rows, data.longest) == (len(table), plain.longest)
    assert [data.rows_in(run) for run in range(3)] == [
        int((table["run"] == run).sum()) for run in range(3)
    ]
    expected = {f"table/{name}.npy": saved(array) for name, array in table.columns.items()}
    expected |= {"new/cover.npy": saved(table.new["cover"])}
    expected |= {"probabilities.npy": saved(table.probabilities)}
    expected |= {"texts.json": json.dumps(list(table.texts)).encode()}
    with patch("mncover.data.members.AT_ONCE", at_once):
        found = {one.name: b"".join(one.chunks()) for one in members_of(data)}
    assert found == expected
    signatures = np.concatenate(list(each_array(data.parts, "signatures")))
    np.testing.assert_array_equal(signatures, table.signatures)
    for name, array in table.arrays().items():
        np.testing.assert_array_equal(data.table.array(name), array)


def saved(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@given(sizes=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 3])), max_size=6))
def test_rows_added_piece_by_piece_are_all_there_in_order(sizes: list[tuple[int, int]]) -> None:
    data, pieces = data_of({}, 10), [some_rows(n, signs) for n, signs in sizes]
    for number, piece in enumerate(pieces):
        assert data.rows_in(0) == sum(n for n, _ in sizes[:number])
        data.add_rows(piece)
        if number % 2:
            assert len(data.table) == data.rows_in(0)  # looking in between changes nothing
    table = data.table
    assert table.texts == tuple(text for piece in pieces for text in piece.texts)
    assert table["number"].tolist() == [n for n, _ in sizes for _ in range(n)]
    new = [piece.new["cover"] for piece in pieces]
    np.testing.assert_array_equal(table.new["cover"], np.concatenate([np.empty((2, 0)), *new], 1))
    at = 0
    for piece in pieces:
        mine = table.signatures[at : at + len(piece)]
        if piece.signatures.shape[1]:
            np.testing.assert_array_equal(mine, piece.signatures)
        assert piece.signatures.shape[1] or np.isnan(mine).all()
        at += len(piece)


def test_a_data_file_has_the_bytes_that_zipfile_alone_writes(tmp_path: Path) -> None:
    """Members are compressed in threads; nobody can tell from the file."""
    path = tmp_path / "x.mncover"
    cov = fresh().update(POOL, context=["a", "b", "c"] * 15, gains=True)
    cov.save(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as written, zipfile.ZipFile(buffer, "w") as plain:
        for info in written.infolist():
            content = written.read(info)
            plain.writestr(zipfile.ZipInfo(info.filename), content, info.compress_type)
    assert path.read_bytes() == buffer.getvalue()


def test_a_member_is_right_even_if_zipfile_compresses_it_again(tmp_path: Path) -> None:
    """The name of zipfile's compressor is its own; should it change, bytes do not."""
    member = Member.made(Content("x", lambda: iter([b"abc" * 900, b"", b"abc" * 99])))
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as plain:
        plain.writestr(zipfile.ZipInfo("x"), b"abc" * 999, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(tmp_path / "ours.zip", "w") as ours:
        member.add(ours)
    assert (tmp_path / "plain.zip").read_bytes() == (tmp_path / "ours.zip").read_bytes()


def test_numbers_of_many_contexts_are_those_of_sets() -> None:
    given = {f"{n}": some_bits(10, n) for n in range(2 * WORKERS + 3)}
    result = summarize(data_of(given, 10))
    total, before = LAYOUT.slots * 10, np.zeros(LAYOUT.slots, np.uint16)
    for name, found in zip(given, result.contexts, strict=True):
        rest = np.bitwise_or.reduce([bits for other, bits in given.items() if other != name])
        for share, bits in (
            (found.cover, given[name]),
            (found.adds, given[name] & ~before),
            (found.only_here, given[name] & ~rest),
        ):
            assert share == np.bitwise_count(bits).sum() / total
        before |= given[name]


@given(st.lists(st.integers(), max_size=40))
def test_threads_keep_the_order_of_items(items: list[int]) -> None:
    assert list(in_threads(str, iter(items))) == [str(item) for item in items]
