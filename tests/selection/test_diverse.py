"""Diverse choices: cells by hand, the order against a slow greedy, and as a score of `select`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.cli.select import _usual
from mncover.data.signatures import SignatureSpace
from mncover.errors import SettingsError
from mncover.selection.cases import Cases
from mncover.selection.chance import compare_methods
from mncover.selection.diverse import LITTLE, Cells, cells_of
from mncover.selection.pool import pool_of
from mncover.selection.scores import available, score_cases
from mncover.suites.judging import NOT_JUDGED
from tests.selection.conftest import changed


def space_of(low: list[float], high: list[float]) -> SignatureSpace:
    """Return a space whose dimensions, all of its middle part, have the given ranges."""
    n = len(low)
    parts = tuple(np.zeros((k, 2), dtype=np.float32) for k in (n, 0, 0))
    means = tuple(np.zeros(2, dtype=np.float32) for _ in parts)
    nothing: Any = np.zeros((0, n), dtype=np.float16)
    lowest, highest = (np.array(values, dtype=np.float32) for values in (low, high))
    places, labels = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    return SignatureSpace(means, parts, lowest, highest, nothing, places, labels)


def test_cells_by_hand() -> None:
    # Two dimensions: coarse cells are 0 to 9 and 10 to 19, fine ones 20 to 119 and 120 to 219.
    cells = cells_of(np.array([[0.0, 5.0], [0.55, 7.5], [1.0, 10.0]]), space_of([0, 5], [1, 10]))
    assert cells.nothing == 220
    assert cells.hits.tolist() == [[0, 10, 20, 120], [5, 15, 75, 170], [9, 19, 119, 219]]


def test_values_out_of_range_nan_and_dimensions_of_one_value_hit_nothing() -> None:
    space = space_of([0, 3], [1, 3])
    values = np.array([[-0.01, 3], [1.01, 3], [np.nan, np.nan], [np.inf, -np.inf], [0.5, 3]])
    cells = cells_of(values, space)
    assert (cells.hits[:4] == cells.nothing).all()
    assert cells.hits[4].tolist() == [5, cells.nothing, 20 + 50, cells.nothing]


def slow_order(cells: Cells, weights: Any, n: int, before: Sequence[int] = ()) -> list[int]:
    """Count the new cells of every case every time."""
    hits = [set(row) for row in cells.hits.tolist()]
    seen, order = {cells.nothing}.union(*(hits[case] for case in before)), list[int]()
    left = [case for case in range(len(hits)) if case not in before]
    while left and len(order) < n:
        scores = {case: (len(hits[case] - seen) + LITTLE) * float(weights[case]) for case in left}
        order.append(max(left, key=lambda case: (scores[case], -case)))
        left.remove(order[-1])
        seen |= hits[order[-1]]
    return order


@st.composite
def some_cells(draw: st.DrawFn) -> Cells:
    """As in `cells_of`, every column has cells of its own; the last value is no cell."""
    rows, width = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    values = st.lists(st.integers(0, 3), min_size=width, max_size=width)
    drawn = draw(st.lists(values, min_size=rows, max_size=rows))
    hits = [[3 * width if v == 3 else 3 * at + v for at, v in enumerate(row)] for row in drawn]
    return Cells(np.array(hits, dtype=np.int32), 3 * width)


@given(st.data(), some_cells())
def test_the_order_is_that_of_a_slow_greedy(data: st.DataObject, cells: Cells) -> None:
    rows = len(cells.hits)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    assert cells.order(weights).tolist() == slow_order(cells, weights, rows)
    n = data.draw(st.integers(0, rows + 1))
    before = data.draw(st.lists(st.integers(0, rows - 1), unique=True))
    found = cells.order(weights, n, np.array(before, dtype=np.int64))
    assert found.tolist() == slow_order(cells, weights, n, before)


@given(st.data(), some_cells())
def test_the_order_goes_on_from_any_cases_that_were_taken(
    data: st.DataObject, cells: Cells
) -> None:
    rows = len(cells.hits)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    whole, n = cells.order(weights), data.draw(st.integers(0, rows))
    assert sorted(whole) == list(range(rows))
    assert (cells.order(weights, n) == whole[:n]).all()
    taken = np.array(data.draw(st.permutations(whole[:n].tolist())), dtype=np.int64)
    assert (cells.order(weights, before=taken) == whole[n:]).all()


def test_a_certain_case_comes_last_and_without_new_cells_the_uncertain_one_first() -> None:
    cells = Cells(np.array([[0], [0], [0], [1]], dtype=np.int32), 2)
    assert cells.order(np.array([0.1, 0.3, 0.2, 0.0])).tolist() == [1, 2, 0, 3]
    assert cells.order(np.array([0.1, 0.3, 0.2, 0.01]), 2, np.array([0])).tolist() == [3, 1]
    nobody = Cells(np.zeros((0, 1), dtype=np.int32), 2)
    assert nobody.order(np.zeros(0)).tolist() == nobody.order(np.zeros(0), 3).tolist() == []


def test_the_score_of_cases_is_the_slow_greedy_on_their_signatures(cases: Cases) -> None:
    assert cases.data.space is not None
    pool = pool_of(cases.data.table, cases.rows)
    cells = cells_of(pool.inside, cases.data.space)
    wanted = slow_order(cells, pool.uncertainty, len(cases))
    scores = score_cases(cases, "diverse")
    assert np.argsort(-scores).tolist() == wanted
    assert scores.min() > 0  # every case can be taken


def test_labels_and_verdicts_do_not_reach_the_score(cases: Cases) -> None:
    hidden = replace(cases, verdicts=np.full(len(cases), NOT_JUDGED, dtype=np.int8))
    labels = {**cases.data.table.columns, "label": np.full(len(cases.data.table), -1)}
    table = replace(cases.data.table, columns=labels)
    hidden = replace(hidden, data=changed(cases.data, table=table))
    assert (score_cases(hidden, "diverse") == score_cases(cases, "diverse")).all()


def test_without_verdicts_the_default_is_diverse_and_with_them_failing(cases: Cases) -> None:
    assert _usual(cases, budget=True) == "failing"
    assert _usual(cases, budget=False) == "gain"
    unknown = replace(cases, verdicts=np.full(len(cases), NOT_JUDGED, dtype=np.int8))
    assert _usual(unknown, budget=True) == "diverse"
    assert _usual(unknown, budget=False) == "gain"
    bare = replace(unknown, data=changed(cases.data, space=None, table=no_signatures(cases)))
    assert _usual(bare, budget=True) == "gain"
    assert "diverse" not in available(bare)
    with pytest.raises(SettingsError, match="without --no-signatures"):
        score_cases(bare, "diverse")


def no_signatures(cases: Cases) -> Any:
    table = cases.data.table
    return replace(table, signatures=np.empty((len(table), 0), dtype=np.float16))


def test_the_score_is_in_the_comparison_of_every_selection(cases: Cases) -> None:
    rows = {r.method: r for r in compare_methods(cases, np.arange(4), [np.arange(len(cases))])}
    best = np.argsort(-score_cases(cases, "diverse"))[:4]
    assert rows["diverse"].failing == (cases.verdicts[best] == 0).sum()
