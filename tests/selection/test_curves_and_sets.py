"""Curves and comparisons of sets equal the slow implementation, and the commands write them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.engine.engine import Engine
from mncover.errors import SettingsError
from mncover.report.sets import averages, reductions
from mncover.selection.saturation import Curve, saturation
from mncover.selection.sets import compare_sets, sample_size
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, write_material
from tests.slow import SlowCover

BINS, LENGTH = 5, 10


def subjects(name: str) -> tuple[Engine, SlowCover, int]:
    """Return an engine, the slow implementation of the same, and the number of all bins."""
    model, tokenizer = tiny.make(name)
    train = tiny.texts(8, seed=6)
    cov = Coverage(model, tokenizer, bins=BINS, max_length=LENGTH)
    cov.calibrate(train, cache=False)
    engine = cov._engine
    assert engine is not None
    slow = SlowCover(model, tokenizer, BINS, LENGTH)
    slow.calibrate(train)
    layout = engine.layout
    return engine, slow, sum(layout.neurons(site) for site in layout.sites) * BINS


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_curves_equal_the_slow_implementation(name: str) -> None:
    engine, slow, total = subjects(name)
    texts = [*tiny.texts(9, seed=5), tiny.texts(9, seed=5)[2]]
    hits = [slow.hits(text) for text in texts]
    sizes = sorted(len(h) / total for h in hits)
    thresholds = (0.0, sizes[3] / 2, 2.0)
    curves = saturation(engine, "a", texts, thresholds, seeds=(4,))
    assert len(curves) == 2 * 4
    for curve in curves:
        order: list[int] = list(range(len(texts)))
        if curve.seed is not None:
            order = np.random.default_rng(curve.seed).permutation(len(texts)).tolist()
        seen: set[Any] = set()
        shares = []
        for row in order:
            gain = len(hits[row] - seen) / total
            if curve.threshold is None or gain > curve.threshold:
                seen |= hits[row]
                shares.append(len(seen) / total)
        assert curve.texts == tuple(range(1, len(shares) + 1))
        assert curve.shares == pytest.approx(shares)
        assert curve.reduction == 1 - len(shares) / len(texts)
    by_threshold = {c.threshold: c for c in curves if c.seed is None}
    assert by_threshold[None].kept == 10
    assert by_threshold[0.0].kept == 9  # the copy adds nothing
    assert by_threshold[0.0].share == pytest.approx(by_threshold[None].share)
    assert by_threshold[2.0].kept == 0
    assert by_threshold[2.0].reduction == 1


def test_a_long_curve_is_thinned_but_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, _ = subjects("bert")
    texts = tiny.texts(20, seed=5)
    (whole,) = saturation(engine, "a", texts, ())
    monkeypatch.setattr("mncover.selection.saturation.POINTS", 5)
    (thin,) = saturation(engine, "a", texts, ())
    assert thin.texts == (1, 6, 10, 15, 20) or len(thin.texts) == 5
    assert (thin.texts[0], thin.texts[-1]) == (1, 20)
    assert thin.share == whole.share
    assert set(zip(thin.texts, thin.shares, strict=True)) <= set(
        zip(whole.texts, whole.shares, strict=True)
    )


def test_reductions_and_their_averages_by_hand() -> None:
    def curve(name: str, seed: int | None, threshold: float | None, kept: int) -> Curve:
        return Curve(name, "cover", seed, threshold, 10, (1, kept), (0.1, 0.02 * kept))

    curves = [
        *(curve("a", None, None, 10), curve("a", None, 0.0, 8), curve("a", 0, 0.0, 6)),
        *(curve("a", 1, 0.0, 4), curve("b", None, None, 10), curve("b", None, 0.0, 2)),
    ]
    a, b = reductions(curves)
    assert [a.reduction, a.shuffled, a.kept] == pytest.approx([0.2, 0.5, 8])
    assert b.reduction == pytest.approx(0.8)
    assert b.shuffled is None
    assert [a.cover, a.cover_unfiltered] == pytest.approx([0.16, 0.2])
    assert list(averages([a, b], "cover")[0.0]) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_comparisons_equal_the_slow_implementation(name: str) -> None:
    engine, slow, total = subjects(name)
    pool = tiny.texts(14, seed=5)
    sets = {"a": pool[:5], "b": pool[4:9], "c": pool[8:14]}
    # All texts of the two small sets are drawn, and all of the third but one.
    (found,) = compare_sets(engine, sets, texts=5, draws=3, seed=1)
    rng = np.random.default_rng(1)
    maps = []
    for _ in range(3):
        rows = [rng.choice(len(texts), 5, replace=False) for texts in sets.values()]
        drawn = [
            slow.union([texts[i] for i in mine])
            for texts, mine in zip(sets.values(), rows, strict=True)
        ]
        maps.append(drawn)
    for i in range(3):
        alone = [len(m[i]) / total for m in maps]
        assert found.alone[i].mean == pytest.approx(np.mean(alone))
        assert found.alone[i].low == pytest.approx(np.quantile(alone, 0.025))
        union = [len(set().union(*m[: i + 1])) / total for m in maps]
        assert found.union[i].mean == pytest.approx(np.mean(union))
        only = [len(m[i] - set().union(*(m[j] for j in range(3) if j != i))) / total for m in maps]
        assert found.only[i].mean == pytest.approx(np.mean(only))
        for j in range(3):
            overlap = [len(m[i] & m[j]) / len(m[i] | m[j]) for m in maps]
            assert found.overlap[i][j].mean == pytest.approx(np.mean(overlap))
    assert found.alone[0].low == found.alone[0].high  # all of it, every time
    assert found.alone[2].low < found.alone[2].high
    assert found.overlap[1][1].mean == 1


def test_draws_that_are_all_alike_can_be_drawn_as_a_picture() -> None:
    from mncover.report.plots import comparison_figure
    from mncover.selection.sets import Comparison, Spread

    share = 0.1  # three times this, divided by three, is a little more than it
    alike = Spread(np.nextafter(share, 1), share, share)
    below = Spread(np.nextafter(share, 0), share, share)
    rows = ((alike, below), (below, alike))
    found = Comparison("cover", ("a", "b"), (3, 3), 3, 3, *rows, (alike, alike), rows)
    assert len(comparison_figure(found, "title").axes) == 2


def test_the_size_of_the_draws() -> None:
    assert sample_size([100, 50], None) == 40
    assert sample_size([100, 50], 50) == 50
    assert sample_size([1, 1], None) == 1
    with pytest.raises(SettingsError, match="smallest set has 50 texts"):
        sample_size([100, 50], 51)


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return write_material(tmp_path)


def test_curve_writes_tables_and_pictures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--train", str(material.train), "--max-length", "12", "--shuffles", "2"]
    command = ["curve", str(material.model), str(material.suite), *options]
    assert main([*command, "--threshold", "0", "--threshold", "0.001", "-o", "out"]) == 0
    shown = capsys.readouterr().out
    assert "average, shuffled" in shown
    with Path("out/curves.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert {p["name"] for p in points} == {"a", "b", "c"}
    assert {p["order"] for p in points} == {"given", "shuffled 0", "shuffled 1"}
    assert {p["threshold"] for p in points} == {"", "0.0", "0.001"}
    with Path("out/reductions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    texts = [json.loads(line) for line in material.suite.read_text().splitlines()]
    mine = [row["text"] for row in texts if row["context"] == "b"]
    kept = cov.filter(mine, 0.001).kept
    (row,) = (r for r in rows if (r["name"], r["threshold"]) == ("b", "0.001"))
    assert int(row["kept"]) == len(kept)
    assert Path("out/curves-cover.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in Path("out/curves-cover.svg").read_text()
    assert main([*command, "--test", "b", "--texts", "4", "-o", "few", "-q"]) == 0
    with Path("few/reductions.csv").open(encoding="utf-8") as file:
        assert {(r["name"], r["texts"]) for r in csv.DictReader(file)} == {("b", "4")}
    assert "no test 'z'; it has a, b, c" in error_of(capsys, *command, "--test", "z")
    assert "--train" in error_of(capsys, *command[:3])


def test_compare_writes_tables_and_pictures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("more.txt").write_text("\n".join(tiny.texts(10, seed=3)))
    options = ["--train", str(material.train), "--max-length", "12", "--draws", "3"]
    command = ["compare", str(material.model), str(material.suite), "more.txt", *options]
    assert main([*command, "-o", "out"]) == 0
    assert "8 texts of each set" in capsys.readouterr().out
    content = json.loads(Path("out/compare.json").read_text())["cover"]
    assert content["names"] == ["suite", "more"]
    assert content["sizes"] == [30, 10]
    assert content["texts"] == 8
    assert content["union"][1]["mean"] >= max(x["mean"] for x in content["alone"])
    assert Path("out/compare-cover.png").read_bytes()[:4] == b"\x89PNG"
    assert "two sets to compare" in error_of(capsys, *command[:3], *options)
    assert "fewer than 11" in error_of(capsys, *command, "--texts", "11")
    twice = ["compare", str(material.model), "more.txt", "./more.txt", *options]
    assert "two sets are called 'more'" in error_of(capsys, *twice)


def test_figure4_and_table3_put_the_papers_figures_beside_ours(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--model", str(material.model), "--train", str(material.train), "--max-length", "12"]
    suite = ["--suite", str(material.suite), "--test", "a", "--test", "c", "--shuffles", "1"]
    assert main(["reproduce", "figure4", *files, *suite]) == 0
    assert "28.83" in capsys.readouterr().out
    assert Path("figure4/figure4-cover.png").exists()
    assert "97.17" in Path("figure4/reductions.txt").read_text()
    Path("more.txt").write_text("\n".join(tiny.texts(10, seed=3)))
    sets = ["--set", str(material.suite), "--set", "more.txt", "--texts", "10", "--draws", "2"]
    assert main(["reproduce", "table3", *files, *sets]) == 0
    assert "0.175 for A1" in " ".join(capsys.readouterr().out.split())
    assert Path("table3/table3.json").exists()


def test_drawing_without_matplotlib_is_refused_before_any_work(
    material: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    command = ["curve", "no model", str(material.suite), "--train", str(material.train)]
    assert "mncover[plot]" in error_of(capsys, *command)
