"""What is kept of calibration texts: lengths, what the ranges hold, and strangers' files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.calibration import (
    ENOUGH,
    Calibration,
    outside_expected,
    points_for,
    texts_enough,
)
from mncover.errors import DataFileError
from tests import tiny
from tests.slow import SlowCover, activations

TRAIN = tiny.texts(14, seed=21)


def measured() -> Coverage:
    cov = Coverage(*tiny.make("bert"), bins=5, max_length=8).calibrate(TRAIN, cache=False)
    return cov.update(tiny.texts(5, seed=22), gains=True)


def test_lengths_and_reachable_rows_are_those_of_the_texts() -> None:
    cov = measured()
    about = cov.data.calibration
    assert about is not None
    slow = SlowCover(*tiny.make("bert"), 5, 8)
    slow.calibrate(TRAIN)
    lengths = [min(8, len(slow.subject[1](text)["input_ids"])) for text in TRAIN]
    assert about.lengths.tolist() == [lengths.count(n) for n in range(9)]
    expected = []
    for site in cov.data.identity.layout.sites:
        for group in range(site.groups):
            for row in range(site.rows):
                start = (site.kind, site.layer, group, row)
                cells = [n for key, n in slow.reachable_cells() if key[:4] == start]
                expected.append(sum(cells))
    assert about.reachable["cover"].tolist() == expected


def test_a_text_left_out_lies_outside_as_often_as_expected() -> None:
    """Take each text out in turn: the share of its values outside the others' ranges."""
    texts = list(dict.fromkeys(tiny.texts(60, seed=23, longest=4)))
    model, tokenizer = tiny.make("bert")
    states = [
        {n: v for n, v in activations(model, tokenizer, text, 6).items() if n[:2] == ("hidden", 2)}
        for text in texts
    ]
    outside = values = 0
    for left, mine in enumerate(states):
        for neuron, value in mine.items():
            others = [s[neuron] for i, s in enumerate(states) if i != left and neuron in s]
            values += 1
            outside += not others or not min(others) <= value <= max(others)
    lengths = np.bincount([len({n[3] for n in s}) for s in states], minlength=7)
    # Each is left out of all, so the others are one fewer.
    fewer = outside_expected(lengths, times=(len(texts) - 1) / len(texts))
    assert outside / values == pytest.approx(fewer, rel=0.15)


def test_expected_values_outside_by_hand() -> None:
    lengths = np.array([1, 0, 3, 1])  # four texts have tokens 1 and 2, one has a third
    assert outside_expected(lengths) == pytest.approx((4 * 2 / 5 + 4 * 2 / 5 + 1 * 1) / 9)
    assert outside_expected(np.array([2, 0])) == 0


@pytest.mark.parametrize("lengths", [[0, 0, 20], [0, 3, 5, 9, 1], [0, 0, 0, 5000], [1, 40, 2]])
def test_enough_is_enough_and_not_far_too_much(lengths: list[int]) -> None:
    given = np.array(lengths)
    needed = texts_enough(given)
    assert outside_expected(given, needed / given.sum()) <= ENOUGH
    assert outside_expected(given, 0.8 * needed / given.sum()) > ENOUGH


def test_points_grow_and_end_where_draws_still_differ() -> None:
    assert points_for(1, 1).tolist() == [1]
    assert points_for(9, 9).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    found = points_for(500, 1010)
    assert found[-1] == 400
    assert (np.diff(found) > 0).all()
    assert (found[20:] / found[19:-1] <= 1.25).all()


def test_a_data_file_keeps_it_and_an_old_one_does_without(tmp_path: Path) -> None:
    cov = measured()
    cov.save(tmp_path / "a.mncover")
    again = Coverage.load(tmp_path / "a.mncover")
    assert again.result().yardstick() == cov.result().yardstick() is not None
    np.testing.assert_array_equal(again.data.table["outside"], cov.data.table["outside"])
    assert (again | cov).result().yardstick() == cov.result().yardstick()
    cov.data.calibration = None
    cov.data.table["outside"][:] = np.nan
    cov.save(tmp_path / "b.mncover")
    old = Coverage.load(tmp_path / "b.mncover").result()
    assert old.yardstick() is None
    assert old.outside is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lengths", lambda one: one[:-1]),
        ("lengths", lambda one: one - 99),
        ("reachable.cover", lambda one: one[:-1]),
        ("points", lambda one: one[::-1]),
        ("points", lambda one: one * 99),
        ("shares.cover", lambda one: one[:-1]),
        ("shares.cover", lambda one: one + 1),
        ("shares.cover", lambda one: one * np.nan),
    ],
)
def test_a_strangers_numbers_must_fit(name: str, change: Any) -> None:
    data = measured().data
    assert data.calibration is not None
    arrays = data.calibration.arrays()
    assert Calibration.from_arrays(arrays, data.identity) is not None
    arrays[name] = change(arrays[name])
    with pytest.raises(DataFileError, match="calibration texts does not fit"):
        Calibration.from_arrays(arrays, data.identity)


def test_a_strangers_share_outside_is_a_share(tmp_path: Path) -> None:
    data = measured().data
    columns = {**data.table.columns, "outside": data.table["outside"] + 2}
    data.table = replace(data.table, columns=columns)
    datafile.write(data, tmp_path / "x.mncover")
    with pytest.raises(DataFileError, match="'outside' of its table has values out of range"):
        datafile.read(tmp_path / "x.mncover")
