"""Figures show the numbers of the results, and leave the user's matplotlib alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mncover.coverage import Coverage
from mncover.errors import MissingExtraError, SettingsError
from mncover.report.plots import require_plotting, saturation_figure, save_figure, trade_off
from mncover.selection.sets import Curve


def test_figures_show_the_results_numbers(measured: Coverage) -> None:
    result = measured.result()
    bars = measured.plot_contexts().axes[0].patches
    assert [bar.get_width() for bar in bars[:3]] == pytest.approx(
        [100 * context.share_of_reachable("cover") for context in result.contexts]
    )
    lines = measured.plot_layers().axes[0].lines
    words = [site for site in result.sites if site.kind == "hidden"]
    assert list(lines[0].get_ydata()) == pytest.approx(
        [100 * site.count.share_of_reachable for site in words]
    )
    image = measured.plot_heads().axes[0].images[0].get_array()
    attention = [site for site in result.sites if site.kind == "attention"]
    assert image.shape == (len(attention), len(attention[0].heads))
    assert image[0, 0] == pytest.approx(100 * attention[0].heads[0].share_of_reachable)


def test_the_backend_of_the_user_stays(measured: Coverage, tmp_path: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    before = matplotlib.get_backend()
    pyplot.switch_backend("svg")
    try:
        figure = measured.plot_contexts()
        save_figure(figure, tmp_path / "a.png")
        assert matplotlib.get_backend() == "svg"
        assert pyplot.get_fignums() == []
    finally:
        pyplot.switch_backend(before)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_drawing_does_not_import_pyplot(measured: Coverage, tmp_path: Path) -> None:
    measured.save(tmp_path / "x.mncover")
    code = (
        "import sys; from mncover.coverage import Coverage; "
        f"Coverage.load({str(tmp_path / 'x.mncover')!r}).plot_layers(); "
        "sys.exit('matplotlib.pyplot' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_curves_are_of_one_criterion() -> None:
    curves = [
        Curve(name, criterion, seed, threshold, 4, (1, 2, 4), (0.1, 0.2, height))
        for name in ("a", "b", "c", "d")
        for criterion, height in (("cover", 0.3), ("mncover", 0.25))
        for seed, threshold in ((None, None), (None, 0.01), (0, None), (1, None))
    ]
    figure = saturation_figure(curves, "title", "mncover")
    assert len(figure.axes) == 6
    line = figure.axes[0].lines[0]
    assert list(line.get_ydata()) == pytest.approx([10, 20, 25])
    assert figure.axes[0].get_ylabel() == "mnCover, %"


def test_the_trade_off_of_a_sweep_is_drawn(tmp_path: Path) -> None:
    from mncover.masks.sweep import Point

    points = [Point(value, value / 2, 0.9, 0.8, 0.95, value) for value in (0.5, 0.7)]
    trade_off(points, "words_kept", tmp_path / "x.svg")
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_what_cannot_be_drawn_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"x\.bmp: a plot must end with \.png, \.svg, \.pdf"):
        require_plotting(Path("x.bmp"))
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"mncover\[plot\]"):
        require_plotting()
