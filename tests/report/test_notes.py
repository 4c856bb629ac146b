"""What reports say in words: the yardstick, what adds little, warnings, and what is missing."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mncover.coverage import Coverage
from mncover.data.calibration import Calibration, Yardstick, outside_expected, texts_enough
from mncover.data.results import Result
from mncover.report import REPORTS
from mncover.report.columns import View
from mncover.report.html import write_html
from mncover.report.missing import unreached_words
from mncover.report.notes import headline, keep_all, little_words, warnings_of
from mncover.selection.missing import Gap, Missing
from mncover.suites.judging import FAILS, judged_cases
from mncover.types import display_percent
from tests import tiny
from tests.masks.test_mncover import random_masks
from tests.report.conftest import Measure, labelled_texts


def test_the_headline_says_less_as_much_or_more(
    measured: Coverage, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = measured.result()
    share = result.main.tally.share_of_reachable
    for low, high, expected in (
        (share + 0.1, share + 0.2, "less than"),
        (share - 0.1, share + 0.1, "as much as"),
        (share - 0.2, share - 0.1, "more than"),
    ):
        found = Yardstick(7, (low + high) / 2, low, high)
        monkeypatch.setattr(Result, "yardstick", lambda *given, found=found: found)
        shown, compared = headline(result, result.main)
        assert shown == f"Cover {display_percent(share)} %"
        between = f"({display_percent(low)} to {display_percent(high)})"
        reached = f"{display_percent(found.share)} % {between} that 7 random calibration texts"
        most = ", the most that were drawn," if result.n_texts > 7 else ""
        assert compared == f" of the reachable bins: {expected} the {reached}{most} reach"
    n = result.identity.calibration_texts
    whole = Yardstick(n, 1.0, 1.0, 1.0)
    monkeypatch.setattr(Result, "yardstick", lambda *given: whole)
    text = f" of the reachable bins: less than the 100.00 % that all of {n} calibration texts reach"
    assert headline(result, result.main)[1] == text
    monkeypatch.setattr(Result, "yardstick", lambda *given: None)
    assert headline(result, result.main)[1] == " of the reachable bins"


def test_texts_that_add_little_and_fail_are_counted(measure: Measure) -> None:
    from tests.folders import suite_of

    for cov in (measure(suite_of()), measure(labelled_texts())):
        result = cov.result(adds_little_at=0.3)
        table = cov.data.table
        failing = set()
        for _, outcome, rows in judged_cases(cov.data):
            for verdict, mine in zip(outcome.verdicts, rows, strict=True):
                failing |= set(mine) if verdict == FAILS else set()
        for row in range(len(table)):
            if -1 not in (table["label"][row], table["prediction"][row]):
                failing |= {row} if table["label"][row] != table["prediction"][row] else set()
        new = [row["novelty"] for row in json.loads(_shown(cov, "json", texts=True))["rows"]]
        little = [row for row, share in enumerate(new) if share <= 0.3]
        bad = len(failing.intersection(little))
        assert 0 < bad < len(little)
        assert little_words(result) == (
            f"{len(little)} of {len(new)} texts add little; {bad} of these "
            f"{'fails' if bad == 1 else 'fail'}"
        )


def _shown(cov: Coverage, name: str, **options: Any) -> str:
    file = io.StringIO()
    REPORTS[name].show(View(cov.data, cov.result(), **options), Console(file=file, width=300))
    return file.getvalue()


def _with_lengths(result: Result, lengths: list[int]) -> Result:
    return replace(result, calibration=Calibration(np.array(lengths)))


def test_few_calibration_texts_are_a_warning_in_every_report(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=10).calibrate(tiny.texts(5, 1), cache=False)
    cov.update(tiny.texts(4, 2))
    result = cov.result()
    assert result.calibration is not None
    lengths = result.calibration.lengths
    expected, needed = display_percent(outside_expected(lengths), 1), texts_enough(lengths)
    warning = (
        f"Calibrated on few texts: of another text like them about {expected} % of the values "
        f"would lie outside the ranges. About {needed:,} texts would be enough for 1 %."
    )
    assert warnings_of(result) == [warning]
    for name in ("text", "markdown"):
        assert f"Warning: {warning}" in _shown(cov, name)
    assert json.loads(_shown(cov, "json"))["warnings"] == [warning]
    assert warning in write_html(cov.data, Path("x"), tmp_path / "html").read_text()
    assert warnings_of(_with_lengths(result, [0] * 10 + [5000])) == []
    assert warnings_of(replace(result, calibration=None)) == []


def test_values_outside_are_a_warning_if_they_are_many(measured: Coverage) -> None:
    result = _with_lengths(measured.result(), [0] * 12 + [5000])
    for outside, warned in ((0.0, False), (0.019, False), (0.04, True), (None, False)):
        contexts = tuple(replace(context, outside=outside) for context in result.contexts)
        found = warnings_of(replace(result, contexts=contexts))
        assert bool(found) is warned
        if warned:
            assert found[0].startswith("4.0 % of the values lie outside the ranges (0.1 % of")


def test_masks_that_keep_everything_are_a_warning() -> None:
    masks = random_masks(tiny.make("bert")[1], 1)
    summary = masks.summary()
    assert not keep_all(summary)
    everything = replace(summary, words_kept=summary.words, pairs_kept=summary.pairs)
    assert keep_all(everything)
    assert keep_all(replace(everything, pairs=0, pairs_kept=0))
    assert not keep_all(replace(everything, pairs_kept=summary.pairs // 2))
    cov = Coverage(*tiny.make("bert"), max_length=10, masks=masks)
    result = cov.calibrate(tiny.texts(5, 1), cache=False).update(["film"]).result()
    result = _with_lengths(result, [0] * 10 + [5000])
    all_kept = replace(result, identity=replace(result.identity, masks=everything))
    assert "The masks keep nearly everything" in warnings_of(all_kept)[0]
    assert warnings_of(result) == []


def test_what_no_text_reaches_is_named(measured: Coverage) -> None:
    def gaps(*missing: tuple[int | None, int | None, int]) -> tuple[Gap, ...]:
        return tuple(Gap(layer, part, n, 10) for layer, part, n in missing)

    main = measured.data.identity.main
    positions = gaps(*((None, t, 10 if t in (1, 3, 4, 5) else 5) for t in range(6)))
    found = Missing(main, gaps((0, None, 10), (1, None, 2)), gaps((1, 0, 1), (1, 1, 10)), positions)
    assert unreached_words(found) == [
        "No text reaches layer 0, layer 1 head 2.",
        "No text reaches positions 1, 3 to 5, which calibration texts reach: "
        "80.0 % of the missing bins of words.",
    ]
    reached = Missing(main, gaps((0, None, 1)), gaps((1, 0, 0)), gaps((None, 0, 9)))
    assert unreached_words(reached) == ["Every layer, head and position is reached by some text."]
