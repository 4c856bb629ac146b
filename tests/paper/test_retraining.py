"""The statistics of arms by hand and against a slow bootstrap, and their table."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mncover.paper.retraining import (
    FIELDS,
    Arm,
    difference,
    estimate,
    print_retraining,
    record,
    rows_of,
    write_retraining,
)


def test_mean_accuracy_by_hand() -> None:
    correct = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
    found = estimate(correct)
    assert found.mean == 0.75
    # Standard deviation 0.25, standard error 0.25 / sqrt(3).
    assert found.half == pytest.approx(4.3027 * 0.25 / math.sqrt(3), abs=1e-5)
    assert estimate(correct[:1]).half is None


def test_differences_by_hand() -> None:
    a = np.array([[1, 1, 1, 0], [1, 0, 1, 0]], dtype=bool)
    b = np.array([[1, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    found, swapped, same = difference(a, b), difference(b, a), difference(a, a)
    assert found.mean == 0.25
    assert swapped.mean == -0.25
    assert [swapped.low, swapped.high] == pytest.approx([-found.high, -found.low], abs=0.13)
    assert [same.mean, same.low, same.high, same.not_above] == [0, 0, 0, 1]
    assert difference(a, b) == found  # seeded
    sure = difference(np.ones((2, 3), bool), np.zeros((2, 3), bool))
    assert [sure.mean, sure.low, sure.high, sure.not_above] == [1, 1, 1, 0]


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_bootstrap_equals_a_slow_one(seeds: int) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((seeds, 50)) < 0.8, rng.random((seeds, 50)) < 0.7
    found = difference(a, b)
    draws = []
    for _ in range(4000):
        rows, columns = rng.integers(0, seeds, seeds), rng.integers(0, 50, 50)
        values = [int(a[row, column]) - int(b[row, column]) for row in rows for column in columns]
        draws.append(sum(values) / len(values))
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.02)
    assert found.not_above == pytest.approx(np.mean(np.array(draws) <= 0), abs=0.03)


def arms(perturbed: int = 80) -> list[Arm]:
    rng = np.random.default_rng(0)
    shares = {"none": 0.8, "random": 0.82, "cover": 0.85, "mncover": 0.9}
    return [
        Arm(
            name,
            0 if name == "none" else 6541,
            rng.random((3, 200)) < share,
            rng.random((3, perturbed)) < share - 0.2,
        )
        for name, share in shares.items()
    ]


def test_each_arm_is_compared_with_none_and_with_random() -> None:
    none, random, cover, _ = rows_of("sst2", arms())
    assert (none.to_none, none.to_random, none.perturbed_to_none) == (None, None, None)
    assert random.to_random is None
    assert cover.to_none == difference(cover.arm.correct, none.arm.correct)
    assert cover.to_random == difference(cover.arm.correct, random.arm.correct)
    assert cover.perturbed_to_none == difference(cover.arm.perturbed, none.arm.perturbed)
    values = record(cover)
    assert list(values) == list(FIELDS)
    assert record(rows_of("other", arms(0))[1])["perturbed_accuracy"] is None


def test_the_reports_numbers_are_in_text_csv_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_retraining("sst2", arms(), {"epochs": 3}, tmp_path)
    shown = (tmp_path / "retraining.txt").read_text()
    assert "mncover" in capsys.readouterr().out
    with (tmp_path / "retraining.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    content = json.loads((tmp_path / "retraining.json").read_text())
    assert content["settings"] == {"epochs": 3}
    for row, line, found in zip(rows, table, content["rows"], strict=True):
        accuracies = row.arm.correct.mean(axis=1)
        assert float(line["accuracy"]) == found["accuracy"] == pytest.approx(accuracies.mean())
        assert content["by_seed"][row.arm.name]["accuracy"] == accuracies.tolist()
        assert f"{100 * accuracies.mean():.2f} ± {100 * (row.accuracy.half or 0):.2f}" in shown
        if row.to_none is not None:
            assert float(line["minus_none_low"]) == row.to_none.low == found["minus_none_low"]
            assert f"[{100 * row.to_none.low:+.2f}, {100 * row.to_none.high:+.2f}]" in shown
    assert table[0]["minus_none"] == ""
    assert "90.45" in shown
    assert "so those with more texts for more steps" in " ".join(shown.split())


def test_the_table_lines_up_in_110_columns() -> None:
    wide = [
        Arm(name, texts, np.tile(row, (2, 50)), np.tile(row, (2, 50)))
        for name, texts, row in (
            ("none", 0, np.array([[True, False, False], [True, True, False]])),
            ("mncover", 1_234_567, np.array([[False, False, False], [True, False, False]])),
        )
    ]
    for some in (wide, arms()):
        file = io.StringIO()
        print_retraining(rows_of("sst2", some), {"steps": 5}, Console(file=file, width=110))
        lines = file.getvalue().splitlines()
        assert max(len(line) for line in lines) <= 110
        assert "…" not in file.getvalue()
        (head,) = (line for line in lines if line.startswith("with"))
        (first,) = (line for line in lines if line.startswith("none"))
        assert len(head.rstrip()) == len(first.rstrip())
        assert "equally many steps." in file.getvalue()
