"""Owners: the fast way against a dictionary, and what data files keep of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.layout import Layout, Site
from mncover.data.owners import Block, owners_of, sample_of, table_of, united, with_first_hits
from mncover.data.table import UNKNOWN
from tests.data.test_datafile import changed, npy, resealed
from tests.data.test_signature_members import refusal, without
from tests.engine.test_laws import POOL, fresh

CELLS = 12

# The cells of texts, in their order; -1 for a neuron that falls into none.
texts_of_cells = st.lists(
    st.lists(st.integers(-1, CELLS - 1), min_size=1, max_size=5), min_size=1, max_size=10
)


def owners_slowly(texts: list[list[int]]) -> tuple[dict[int, int], list[tuple[int, float]]]:
    """Return the owner of each cell, and of each text, text by text and cell by cell."""
    first: dict[int, int] = {}
    found = []
    for row, cells in enumerate(texts):
        counts: Counter[int] = Counter()
        hit = [cell for cell in cells if cell >= 0]
        for cell in hit:
            first.setdefault(cell, row)
            counts[first[cell]] += first[cell] != row
        most = max(counts.values(), default=0)
        earliest = min((who for who in counts if counts[who] == most > 0), default=UNKNOWN)
        found.append((earliest, most / len(hit) if hit else 0.0))
    return first, found


def blocks_of(texts: list[list[int]]) -> list[Block]:
    """Put texts of one length together, the longest first, as the engine does."""
    found = []
    for length in sorted({len(cells) for cells in texts}, reverse=True):
        mine = [i for i, cells in enumerate(texts) if len(cells) == length]
        cells = np.array([texts[i] for i in mine], dtype=np.int32)
        found.append(Block(np.array(mine), cells))
    return found


@given(texts=texts_of_cells, cut=st.integers(0, 10))
def test_owners_are_those_of_a_dictionary_however_texts_are_cut(
    texts: list[list[int]], cut: int
) -> None:
    owners = np.full((3, CELLS // 3), UNKNOWN, dtype=np.int32)
    found: dict[int, tuple[int, float]] = {}
    for part in (range(len(texts))[:cut], range(len(texts))[cut:]):
        blocks = blocks_of([texts[i] for i in part])
        rows = np.array(part, dtype=np.int64)
        first = with_first_hits(owners, rows, blocks)
        owners = table_of(first, owners.shape)
        for block in blocks:
            mine = rows[block.texts]
            who, share = owners_of(first, mine, block.cells)
            pairs = zip(who.tolist(), share.tolist(), strict=True)
            found |= zip(mine.tolist(), pairs, strict=True)
    slow_first, slow = owners_slowly(texts)
    assert owners.ravel().tolist() == [slow_first.get(cell, UNKNOWN) for cell in range(CELLS)]
    assert [found[row] for row in range(len(texts))] == slow


def test_the_sample_is_spread_over_the_middle_and_the_last_layer() -> None:
    sites = [Site("hidden", layer, 1, 5, 768) for layer in range(13)]
    attention = Site("attention", 1, 12, 5, 5)
    middle, last = sample_of(Layout((*sites, attention)))
    assert (middle.site.layer, last.site.layer) == (6, 12)
    assert list(middle.columns) == [0, 96, 192, 288, 384, 480, 576, 672]
    assert middle.neurons == 40
    for width in (3, 8, 9, 15, 17):
        (one,) = sample_of(Layout((Site("hidden", 0, 1, 5, width),)))
        assert len(one.columns) == min(width, 8)
        assert max(one.columns) < width


def test_tables_unite_to_the_first_row_of_each_cell() -> None:
    one = np.array([[0, 1, UNKNOWN, UNKNOWN]], dtype=np.int32)
    two = np.array([[1, UNKNOWN, 0, UNKNOWN]], dtype=np.int32)
    places = np.array([3, 1]), np.array([2, 0])
    found = united([one, two], places)
    assert found is not None
    assert found.tolist() == [[0, 1, 2, UNKNOWN]]
    assert united([None, None], places) is None
    (alone,) = np.asarray(united([None, two], places))
    assert alone.tolist() == [0, UNKNOWN, 2, UNKNOWN]


def test_in_a_union_owners_are_the_same_texts() -> None:
    one = fresh().update(POOL[:20], gains=True)
    two = fresh().update([*POOL[10:30], *POOL[12:15]], gains=True)
    both = one | two
    seen = {}
    for data in (one.data, two.data):
        for row, text in enumerate(data.table.texts):
            owner = int(data.table["owner"][row])
            who = None if owner == UNKNOWN else data.table.texts[owner]
            run = data.runs[data.table["run"][row]].id
            seen[run, int(data.table["number"][row])] = text, who, data.table["owned"][row]
    table = both.data.table
    for row, text in enumerate(table.texts):
        owner = int(table["owner"][row])
        assert owner < row
        who = None if owner == UNKNOWN else table.texts[owner]
        key = both.data.runs[table["run"][row]].id, int(table["number"][row])
        assert seen[key] == (text, who, table["owned"][row])
    again = both | one
    np.testing.assert_array_equal(again.data.table["owner"], table["owner"])
    np.testing.assert_array_equal(again.data.owners, both.data.owners)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.mncover"
    fresh().update(POOL[:8], gains=True).save(path)
    return path


MEMBERS = ("owners.npy", "table/owner.npy", "table/owned.npy")


def test_owners_come_back(saved: Path) -> None:
    data, cov = datafile.read(saved), fresh().update(POOL[:8], gains=True)
    np.testing.assert_array_equal(data.owners, cov.data.owners)
    for name in ("owner", "owned"):
        np.testing.assert_array_equal(data.table[name], cov.data.table[name])
    assert (data.table["owner"] >= 0).any()


def test_a_file_without_owners_is_read_as_one_that_does_not_know_them(saved: Path) -> None:
    changed(saved, without(*MEMBERS))
    data = datafile.read(saved)
    assert data.owners is None
    assert data.table["owner"].tolist() == [UNKNOWN] * 8
    assert data.table["owned"].tolist() == [0.0] * 8
    united_with = Coverage.load(saved) | fresh().update(POOL[:3], gains=True)
    assert united_with.data.owners is not None


def test_without_an_order_there_are_no_owners(tmp_path: Path) -> None:
    fresh().update(POOL[:8]).save(tmp_path / "x.mncover")
    data = datafile.read(tmp_path / "x.mncover")
    assert data.owners is None
    assert set(data.table["owner"].tolist()) == {UNKNOWN}


def column(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, bytes]], object]:
    """Return a damage: a column of 8 texts that is changed."""
    kind = {"owner": "<i4", "owned": "<f4"}[name]
    return resealed(f"table/{name}.npy", npy(change(np.zeros(8, dtype=kind) - (name == "owner"))))


def put(index: int, value: float) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values[index] = value
        return values.astype(values.dtype)

    return change


def table(change: Callable[[Any], Any]) -> Callable[[dict[str, bytes]], object]:
    """Return a damage: a table of owners that is changed; the tiny model has two layers."""
    rows = 10 * 8 * 2
    return resealed("owners.npy", npy(change(np.full((rows, 10), UNKNOWN, dtype="<i4"))))


FIT, RANGE = "its table of owners does not fit its layers", "has values out of range"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (column("owner", put(3, 3)), f"the column 'owner' of its table {RANGE}"),
        (column("owner", put(3, -2)), f"the column 'owner' of its table {RANGE}"),
        (column("owner", lambda values: values[:-1]), "differ in length"),
        (column("owner", lambda values: values.astype("<i8")), "has the type int64"),
        (column("owned", put(3, np.nan)), f"the column 'owned' of its table {RANGE}"),
        (column("owned", put(3, 1.001)), f"the column 'owned' of its table {RANGE}"),
        (column("owned", put(3, -0.1)), f"the column 'owned' of its table {RANGE}"),
        (table(lambda owners: owners[:-1]), FIT),
        (table(lambda owners: owners[None]), FIT),
        (table(lambda owners: owners.ravel()[0]), FIT),
        (table(lambda owners: owners.astype("<i8")), "has the type int64"),
        (table(lambda owners: owners + 9), f"its table of owners {RANGE}"),
        (table(lambda owners: owners - 1), f"its table of owners {RANGE}"),
        (lambda members: members.update({"owners.npy": b"x"}), "checksum of owners.npy"),
        (lambda members: members.pop("owners.npy"), "damaged"),
    ],
)
def test_owners_that_do_not_fit_are_refused_in_one_line(
    saved: Path, change: Callable[[dict[str, bytes]], object], message: str
) -> None:
    changed(saved, change)
    assert message in refusal(saved)


@pytest.mark.parametrize(
    "change",
    [column("owner", put(3, 2)), column("owned", put(3, 1)), table(lambda owners: owners + 8)],
)
def test_owners_at_the_ends_of_their_range_are_read(
    saved: Path, change: Callable[[dict[str, bytes]], object]
) -> None:
    changed(saved, change)
    assert len(json.dumps(datafile.read(saved).table["owner"].tolist())) > 2
