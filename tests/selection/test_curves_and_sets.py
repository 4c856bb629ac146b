"""Curves and comparisons of sets equal the slow implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.errors import SettingsError
from mncover.report.sets import averages, reductions
from mncover.selection.sets import Curve, sample_size
from tests import tiny
from tests.slow import SlowCover

BINS, LENGTH = 5, 10


def subjects(name: str) -> tuple[Coverage, SlowCover, int]:
    """Return a Coverage, the slow implementation of the same, and the number of all bins."""
    model, tokenizer = tiny.make(name)
    train = tiny.texts(8, seed=6)
    cov = Coverage(model, tokenizer, bins=BINS, max_length=LENGTH)
    cov.calibrate(train, cache=False)
    slow = SlowCover(model, tokenizer, BINS, LENGTH)
    slow.calibrate(train)
    layout = cov.engine.layout
    return cov, slow, sum(layout.neurons(site) for site in layout.sites) * BINS


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_curves_equal_the_slow_implementation(name: str) -> None:
    cov, slow, total = subjects(name)
    texts = [*tiny.texts(9, seed=5), tiny.texts(9, seed=5)[2]]
    hits = [slow.hits(text) for text in texts]
    sizes = sorted(len(h) / total for h in hits)
    thresholds = (0.0, sizes[3] / 2, 2.0)
    curves = cov.curve("a", texts, thresholds, seeds=(4,))
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
    cov, _, _ = subjects("bert")
    texts = tiny.texts(20, seed=5)
    (whole,) = cov.curve("a", texts, ())
    monkeypatch.setattr("mncover.selection.sets.POINTS", 5)
    (thin,) = cov.curve("a", texts, ())
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
    cov, slow, total = subjects(name)
    pool = tiny.texts(14, seed=5)
    sets = {"a": pool[:5], "b": pool[4:9], "c": pool[8:14]}
    # All texts of the two small sets are drawn, and all of the third but one.
    (found,) = cov.compare(sets, texts=5, draws=3, seed=1)
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
    found = Comparison("cover", "Cover", ("a", "b"), (3, 3), 3, 3, *rows, (alike, alike), rows)
    assert len(comparison_figure(found, "title").axes) == 2


def test_the_size_of_the_draws() -> None:
    assert sample_size([100, 50], None) == 40
    assert sample_size([100, 50], 50) == 50
    assert sample_size([1, 1], None) == 1
    with pytest.raises(SettingsError, match="smallest set has 50 texts"):
        sample_size([100, 50], 51)
