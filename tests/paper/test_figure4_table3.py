"""Figure 4 and Table 3, and the same for any texts: what is written is what was measured."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mncover.coverage import Coverage
from mncover.errors import MissingExtraError, SettingsError
from mncover.paper.figure4_table3 import (
    PAPER_FIGURE4,
    PAPER_TABLE3,
    chosen_lists,
    compare_files,
    draw_curves,
    named_sets,
)
from mncover.suites.formats import read_texts
from mncover.suites.rows import Rows
from mncover.types import display_percent
from tests import tiny

TRAIN = tiny.texts(20, seed=9)


@pytest.fixture(scope="module")
def cov() -> Coverage:
    """A tiny model that is calibrated."""
    return Coverage(*tiny.make("bert"), max_length=12).calibrate(TRAIN, cache=False)


@pytest.fixture
def suite() -> Rows:
    """Thirty texts in three contexts."""
    return Rows.make(tiny.texts(30, seed=8), ["abc"[i % 3] for i in range(30)])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_curves_are_written_as_tables_and_pictures(
    cov: Coverage, suite: Rows, tmp_path: Path
) -> None:
    shown = StringIO()
    curves = draw_curves(
        cov,
        chosen_lists(suite),
        tmp_path,
        suite="suite.jsonl",
        thresholds=(0.0, 0.001),
        shuffles=2,
        console=Console(file=shown, width=120),
    )
    assert len(curves) == 3 * 3 * 3
    assert "average, shuffled" in shown.getvalue()
    points = rows_of(tmp_path / "curves.csv")
    assert {p["name"] for p in points} == {"a", "b", "c"}
    assert {p["order"] for p in points} == {"given", "shuffled 0", "shuffled 1"}
    assert {p["threshold"] for p in points} == {"", "0.0", "0.001"}
    rows = rows_of(tmp_path / "reductions.csv")
    assert len(rows) == 3 * 2
    kept = cov.filter(chosen_lists(suite)["b"], 0.001).kept
    (row,) = (r for r in rows if (r["name"], r["threshold"]) == ("b", "0.001"))
    assert int(row["kept"]) == len(kept)
    assert (tmp_path / "curves-cover.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "curves-cover.svg").read_text()
    assert "curves-cover.svg" in shown.getvalue()


def test_lists_are_the_first_texts_of_the_tests_named(suite: Rows) -> None:
    assert chosen_lists(suite, ["c", "a"], 2) == {
        "c": [suite.texts[2], suite.texts[5]],
        "a": [suite.texts[0], suite.texts[3]],
    }
    with pytest.raises(SettingsError, match="no test 'z'; it has a, b, c"):
        chosen_lists(suite, ["z"])


def test_a_comparison_is_written_as_tables_and_pictures(
    cov: Coverage, suite: Rows, tmp_path: Path
) -> None:
    shown = StringIO()
    sets = {"suite": suite.texts, "more": tiny.texts(10, seed=3)}
    console = Console(file=shown, width=120)
    (found,) = compare_files(cov, sets, tmp_path, draws=3, console=console)
    assert "Cover of 8 texts of each set, mean of 3 draws" in shown.getvalue()
    content = json.loads((tmp_path / "compare.json").read_text())["cover"]
    assert content["names"] == ["suite", "more"]
    assert content["sizes"] == [30, 10]
    assert content["texts"] == 8
    assert content["union"][1]["mean"] == found.union[1].mean
    assert content["union"][1]["mean"] >= max(x["mean"] for x in content["alone"])
    assert (tmp_path / "compare-cover.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SettingsError, match="fewer than 11"):
        compare_files(cov, sets, tmp_path, texts=11)


def test_a_comparison_fits_80_columns(cov: Coverage, suite: Rows, tmp_path: Path) -> None:
    names = ["a", "rather_long_name_of_a_set", *"bcdef"]
    sets = {name: suite.texts[i : i + 12] for i, name in enumerate(names)}
    shown = StringIO()
    (found,) = compare_files(cov, sets, tmp_path, draws=5, console=Console(file=shown, width=80))
    lines = [line for line in shown.getvalue().splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)  # nothing is cut
    for spread in (*found.alone, *found.only, found.overlap[1][0], found.overlap[6][5]):
        for share in (spread.mean, spread.low, spread.high):
            assert display_percent(share) in "".join(lines)
    assert any(
        line.split()[:3] == ["e,", "f", display_percent(found.overlap[6][5].mean)] for line in lines
    )


def test_sets_are_called_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a\nb\n")
    (tmp_path / "two.csv").write_text("text\nc\n")
    one, two = read_texts(tmp_path / "one.txt"), read_texts(tmp_path / "two.csv")
    assert named_sets([one, two]) == {"one": ["a", "b"], "two": ["c"]}
    with pytest.raises(SettingsError, match="two sets are called 'one'"):
        named_sets([one, two, one])


def test_the_papers_figures_stand_beside_ours(cov: Coverage, suite: Rows, tmp_path: Path) -> None:
    lists, paper = chosen_lists(suite, "ac"), PAPER_FIGURE4
    draw_curves(cov, lists, tmp_path, suite="suite.jsonl", shuffles=1, name="figure4", paper=paper)
    text = (tmp_path / "reductions.txt").read_text()
    assert "28.83" in text
    assert "97.17" in text
    assert (tmp_path / "figure4-cover.png").exists()
    sets = {"A1": suite.texts, "A2": tiny.texts(10, seed=3)}
    compare_files(cov, sets, tmp_path, texts=10, draws=2, name="table3", paper=PAPER_TABLE3)
    assert "0.175 for A1" in (tmp_path / "table3.txt").read_text()
    assert (tmp_path / "table3.json").exists()


def test_drawing_without_matplotlib_is_refused_before_any_work(
    cov: Coverage, suite: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = __import__("sys").modules
    for name in [name for name in modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(modules, name, None)
    monkeypatch.setitem(modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="plot"):
        draw_curves(cov, chosen_lists(suite), tmp_path / "out", suite="suite.jsonl")
    with pytest.raises(MissingExtraError, match="plot"):
        compare_files(cov, {"a": suite.texts, "b": suite.texts}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
