"""What is known of cases before anybody judges them: features and clusters."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.data.columns import Parted
from mncover.data.table import Table
from mncover.selection.cases import Cases
from mncover.selection.pool import TINY, cluster, pool_of, standardised


def slow_outputs(texts: Any) -> list[float]:
    """Return the four features of a case from its probabilities [texts, classes]."""
    known = [[0.0 if math.isnan(p) else p for p in text] for text in texts.tolist()]
    entropies = [-sum(p * math.log(p) for p in text if p > 0) for text in known]
    margins = [sorted(text)[-1] - sorted(text)[-2] for text in known]
    spread = 0.0
    for by_text in zip(*known, strict=True):
        logs = [math.log(max(p, TINY)) for p in by_text]
        spread = max(spread, max(logs) - min(logs))
    return [max(entropies), spread, min(margins), sum(margins) / len(margins)]


def table_of(cases: Cases, **parts: Any) -> Table:
    return replace(cases.data.table, **parts)


def with_nan(table: Table, row: int) -> Table:
    """Return the table with a text that has no tokens."""
    probabilities, signatures = table.probabilities.copy(), table.signatures.copy()
    probabilities[row] = np.nan
    signatures[row] = np.nan
    return replace(table, probabilities=probabilities, signatures=signatures)


@pytest.mark.parametrize("empty", [None, 0, 13])
def test_features_are_those_of_a_slow_loop_also_with_a_text_without_tokens(
    cases: Cases, empty: int | None
) -> None:
    table = cases.data.table if empty is None else with_nan(cases.data.table, empty)
    pool = pool_of(table, cases.rows)
    assert len(pool) == len(cases) == 32
    assert {len(rows) for rows in cases.rows} == {1, 2, 3}
    for at, rows in enumerate(cases.rows):
        wanted = slow_outputs(table.probabilities[rows].astype(np.float64))
        assert pool.outputs[at] == pytest.approx(wanted)
        assert pool.uncertainty[at] == pool.outputs[at, 0]
        known = [np.nan_to_num(table.signatures[row].astype(np.float64)) for row in rows]
        assert pool.inside[at] == pytest.approx(sum(known) / len(known))
    assert np.isfinite(pool.outputs).all()
    assert np.isfinite(pool.inside).all()


def test_features_of_two_texts_by_hand(cases: Cases) -> None:
    table = table_of(
        cases,
        probabilities=np.array([[0.5, 0.25, 0.25], [1, 0, 0]], dtype=np.float32),
        signatures=np.array([[1, 2], [3, 6]], dtype=np.float16),
    )
    pool = pool_of(table, Parted(np.array([0, 1]), np.array([0, 2])))
    spread = math.log(0.25) - math.log(TINY)
    assert pool.outputs[0] == pytest.approx([1.5 * math.log(2), spread, 0.25, 0.625])
    assert pool.inside.tolist() == [[2, 4]]


def test_the_order_of_cases_and_of_their_texts_does_not_matter(cases: Cases) -> None:
    table = cases.data.table
    forward = pool_of(table, cases.rows)
    backward = pool_of(table, Parted.of(cases.rows.values[::-1], cases.rows.sizes[::-1]))
    assert backward.outputs[::-1] == pytest.approx(forward.outputs)
    assert backward.inside[::-1] == pytest.approx(forward.inside)


def test_nothing_but_outputs_and_signatures_gets_into_a_pool(cases: Cases) -> None:
    table = cases.data.table
    columns = {name: np.zeros_like(values) for name, values in table.columns.items()}
    bare = replace(table, columns=columns, texts=("",) * len(table), new={})
    mine, wanted = pool_of(bare, cases.rows), pool_of(table, cases.rows)
    for name in ("outputs", "inside", "uncertainty"):
        assert (getattr(mine, name) == getattr(wanted, name)).all()


def test_without_signatures_there_is_no_inside(cases: Cases) -> None:
    n = len(cases.data.table)
    pool = pool_of(table_of(cases, signatures=np.empty((n, 0), dtype=np.float16)), cases.rows)
    assert pool.inside.shape == (32, 0)
    assert (pool.outputs == pool_of(cases.data.table, cases.rows).outputs).all()


@pytest.mark.parametrize("classes", [0, 1])
def test_a_model_of_one_class_or_none_has_no_doubt(cases: Cases, classes: int) -> None:
    ones = np.ones((len(cases.data.table), classes), dtype=np.float32)
    pool = pool_of(table_of(cases, probabilities=ones), cases.rows)
    assert pool.outputs.tolist() == [[0, 0, 1, 1]] * 32
    assert pool.inside.shape[1] > 0


def test_no_cases_make_an_empty_pool(cases: Cases) -> None:
    pool = pool_of(cases.data.table, cases.rows.taken([]))
    assert len(pool) == 0
    assert pool.outputs.shape == (0, 4)
    assert pool.inside.shape == (0, cases.data.table.signatures.shape[1])


def test_standardised_columns_have_mean_0_and_spread_1_unless_they_have_one_value() -> None:
    found = standardised(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert found.tolist() == [[-1, 0], [1, 0]]


@given(st.integers(1, 40), st.integers(0, 9), st.integers(1, 4))
def test_every_case_has_a_cluster_and_a_seed_gives_the_same_ones(
    n: int, seed: int, values: int
) -> None:
    # Few distinct values: many cases are identical.
    points = np.random.default_rng(seed).integers(0, values, (n, 2)).astype(np.float64)
    found = cluster(points, seed)
    assert found.shape == (n,)
    assert found.min() >= 0
    assert found.max() < max(1, n // 5)
    assert (found == cluster(points, seed)).all()
    for a in range(n):  # identical cases are never torn apart
        assert len(set(found[(points == points[a]).all(axis=1)])) == 1


def test_cases_that_are_apart_are_in_clusters_of_their_own() -> None:
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(3), 30)
    points = 100.0 * kinds[:, None] + rng.normal(size=(90, 2))
    found = cluster(points)
    assert len(set(found)) == 18
    for number in set(found):
        assert len(set(kinds[found == number])) == 1


def test_cases_outside_the_sample_join_the_nearest_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mncover.selection.pool.CLUSTER_SAMPLE", 40)
    monkeypatch.setattr("mncover.selection.pool.CLUSTERS", 2)
    points = np.repeat([[0.0], [1.0]], 100, axis=0) + np.linspace(0, 0.1, 200)[:, None]
    found = cluster(points)
    assert len(set(found[:100])) == len(set(found[100:])) == 1
    assert found[0] != found[-1]


def test_clusters_of_many_equal_cases_come_without_a_warning() -> None:
    points = np.repeat(np.eye(40, 8), 60, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cluster(points + np.arange(2400)[:, None] % 41 / 1e3)
    assert len(found) == 2400
