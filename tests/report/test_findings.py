"""The report of what judging has found: its numbers, its words, its page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mncover.coverage import Coverage
from mncover.report import findings as words
from mncover.report.findings import Found, found_by, print_found, to_json
from mncover.report.html_findings import chance_band, chart, write_page
from mncover.selection.chance import random_interval
from mncover.selection.finder import Finder
from mncover.selection.findings import BatchFound, Estimate, Findings
from mncover.selection.found_groups import GROUPS, Group
from mncover.suites.rows import Rows
from tests import tiny
from tests.report.conftest import SCRIPT, Measure, Watched

FILE = Path("run.mncover")
STEERING = "red \x1b[31m [bold]loud[/bold] \u202eback"
HAND_MADE = Findings(
    cases=1000,
    asked=60,
    judged=50,
    failing=20,
    drawn=10,
    chance=Estimate(5.04, 1, 11),
    left=Estimate(80.6, 12.5, 190.2),
    batches=(BatchFound(1, 50, 45, 19, 24.6), BatchFound(2, 10, 5, 1, 3.21)),
)


@pytest.fixture(scope="session")
def pool(measure: Measure) -> Coverage:
    """Return 60 texts that were run, two of them nasty."""
    return measure(Rows.make([SCRIPT, STEERING, *tiny.texts(58, seed=8)]))


@pytest.fixture
def finder(pool: Coverage, tmp_path: Path) -> Finder:
    """Return a finder that was told verdicts on three batches, and on the nasty texts."""
    made = Finder(pool, journal=tmp_path / "run.verdicts.jsonl")
    rng = np.random.default_rng(3)
    for _ in range(3):
        batch = made.next(12)
        made.tell({item.case: "wrong" if rng.random() < 0.6 else "ok" for item in batch[:-2]})
    made.tell({0: "wrong", 1: "wrong"})
    return made


def shown(found: Found, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_found(found, console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def page_of(found: Found, folder: Path) -> str:
    write_page(found, folder / "found.html")
    return (folder / "found.html").read_text(encoding="utf-8")


def slow_counts(journal: Path) -> tuple[dict[int, str], dict[int, list[Any]]]:
    """Return the verdicts in a journal, and the cases of each batch, line by line."""
    verdicts: dict[int, str] = {}
    batches: dict[int, list[Any]] = {}
    for line in journal.read_text().splitlines()[1:]:
        row = json.loads(line)
        if "asked" not in row:
            verdicts[row["case"]] = row["verdict"]
        elif row["asked"]["why"] != "given":
            batches.setdefault(row["asked"]["batch"], []).append(row["asked"])
    return verdicts, batches


def test_numbers_on_page_and_screen_are_those_of_a_slow_count(
    finder: Finder, tmp_path: Path
) -> None:
    found = found_by(finder, FILE)
    verdicts, batches = slow_counts(tmp_path / "run.verdicts.jsonl")
    failing = sum(verdict == "wrong" for verdict in verdicts.values())
    page, screen = page_of(found, tmp_path), shown(found)
    assert f"<b>{failing}</b><span>of {len(verdicts)} judged cases fail" in page
    assert f"{failing} of {len(verdicts)} judged cases fail; there are 60 cases." in screen
    assert len(batches) == 3
    for number, mine in batches.items():
        judged = [verdicts[one["case"]] for one in mine if one["case"] in verdicts]
        likely = sum(one["expected"] for one in mine)
        expected = "" if number == 1 else words.rounded(likely)  # the start predicts nothing
        cells = [number, len(mine), len(judged), judged.count("wrong"), expected]
        assert "".join(f"<td>{cell}</td>" for cell in cells) in page
        assert re.search("^" + r" +".join(map(str, cells)) + "$", screen, re.M)


def test_groups_have_every_failing_case_once_and_all_other_cases(finder: Finder) -> None:
    found = found_by(finder, FILE)
    verdicts, judged = finder.journal.verdicts, len(finder.journal.verdicts)
    cases = [item.case for group in found.groups for item in group.failing]
    assert sorted(cases) == sorted(case for case, said in verdicts.items() if said == "wrong")
    whole = [*found.groups, found.rest]
    assert 1 < len(found.groups) <= GROUPS
    assert sum(group.size for group in whole) == 60
    assert sum(group.judged for group in whole) == judged
    predicted = finder.chooser.predict(finder.seen())
    assert predicted is not None
    left = sum(predicted[case] for case in range(60) if case not in verdicts)
    assert sum(group.expected or 0 for group in whole) == pytest.approx(left)
    assert [len(group.failing) for group in found.groups] == sorted(
        (len(group.failing) for group in found.groups), reverse=True
    )


def test_typical_cases_are_the_nearest_to_the_centre_of_those_that_fail(finder: Finder) -> None:
    inside, order = finder.chooser.pool.inside, [one.case for one in finder.journal.asked]
    for group in found_by(finder, FILE).groups:
        cases = [item.case for item in group.failing]
        assert cases == sorted(cases, key=order.index)
        centre = sum(inside[case] for case in cases) / len(cases)
        far = {case: float(((inside[case] - centre) ** 2).sum()) for case in cases}
        nearest = [far[item.case] for item in group.typical]
        assert nearest == pytest.approx(sorted(far.values())[: len(nearest)])
        assert len(nearest) == min(3, len(cases))


def test_a_text_that_occurs_several_times_is_typical_once(measure: Measure) -> None:
    finder = Finder(measure(Rows.make(["good film"] * 10 + tiny.texts(20, seed=3))))
    finder.tell({case: "wrong" if case < 10 else "ok" for case in range(20)})
    groups = found_by(finder, FILE).groups
    assert [item.texts for group in groups for item in group.typical] == [("good film",)]


def test_a_verdict_whose_case_no_batch_had_is_shown_too(finder: Finder, tmp_path: Path) -> None:
    journal = tmp_path / "run.verdicts.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"asked": {"case": 1,' not in line))
    found = found_by(Finder(finder.data, journal=journal), FILE)
    assert 1 in [item.case for group in found.groups for item in group.failing]
    assert len(found.fails) == found.findings.judged
    assert sum(found.fails) == found.findings.failing


def test_texts_of_strangers_stay_text(finder: Finder, tmp_path: Path) -> None:
    found = found_by(finder, FILE)
    items = {item.case: item for group in found.groups for item in group.failing}
    both = items[0], items[1]
    typical = replace(found, groups=(Group(2, 2, None, both, both),))
    page, screen = page_of(typical, tmp_path), shown(typical, 160)
    assert page.count("<script") == 1
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    for content in (page, screen):
        assert r"red \x1b[31m [bold]loud[/bold] \u202eback" in content
        assert not re.search("[\x1b\u202a-\u202e]", content)
    assert "<script>document" in screen
    assert to_json(typical)["groups"][0]["cases"][1]["texts"] == (STEERING,)


def test_long_texts_are_shortened(finder: Finder, tmp_path: Path) -> None:
    found = found_by(finder, FILE)
    item = replace(found.groups[0].failing[0], texts=("w" * 5000,))
    found = replace(found, groups=(Group(1, 1, None, (item,), (item,)),))
    assert "w" * 500 not in page_of(found, tmp_path)
    assert shown(found).count("w") < 200


def test_hand_made_findings_are_put_into_words() -> None:
    assert words.compared(HAND_MADE) == (
        "As many cases drawn at random would hold about 5.0 failures (95 % interval 1 to 11); "
        "judging found 20, which is more than by chance."
    )
    assert words.left(HAND_MADE) == (
        "12 to 191 failures are left among the 950 cases without a verdict (95 % interval; point "
        "estimate 81). It is wide because few cases were drawn at random; every batch adds some."
    )
    rests = words.rests_on(HAND_MADE)
    assert "rests on the 10 judged cases that were drawn at random with known chances" in rests
    assert "The other 40 were not drawn at random" in rests
    assert "plain failure rate (40.0 %) would mislead" in rests
    assert "fewer than by chance" in words.compared(replace(HAND_MADE, failing=0))
    assert "within that interval" in words.compared(replace(HAND_MADE, failing=11))


def test_without_enough_random_cases_it_says_what_to_do(tmp_path: Path) -> None:
    early = replace(HAND_MADE, chance=None, left=None, drawn=3)
    found = Found(FILE, "model", early, (), Group(1000, 50, None), [True] * 20 + [False] * 30)
    for content in (shown(found, 400), page_of(found, tmp_path)):
        assert "at least 5 cases that were drawn at random, and there are 3. Judge" in content
        assert "95 %" not in content
    assert 'class="band" d="M' not in page_of(found, tmp_path)


def test_the_chart_has_a_point_for_every_verdict_and_the_band_ends_at_the_figures() -> None:
    fails = [True] * 20 + [False] * 30
    drawn = chart(HAND_MADE, fails)
    assert drawn.found.count("L") == 50
    assert (drawn.across[-1][1], drawn.up[-1][1]) == (50, 20)
    assert drawn.found.endswith(f"L{drawn.across[-1][0]:.1f} {drawn.up[-1][0]:.1f}")
    assert len(drawn.batches) == 1
    middle, low, high = chance_band(HAND_MADE)
    assert (middle[-1], low[-1], high[-1]) == ((50, 5.04), (50, 1), (50, 11))
    n, lowest = low[12]
    assert lowest == random_interval(1000, 32, int(n))[0]
    assert high[12] == (n, random_interval(1000, 211, int(n))[1])


def test_before_any_verdict_it_says_so(pool: Coverage, tmp_path: Path) -> None:
    finder = Finder(pool)
    assert "No case has a verdict yet: `mncover next`" in shown(found_by(finder, FILE))
    finder.next(7)
    found = found_by(finder, FILE)
    assert "7 cases were chosen, and none has a verdict yet" in shown(found)
    assert "7 cases were chosen, and none has a verdict yet" in page_of(found, tmp_path)
    assert to_json(found)["groups"] == []
    finder.tell(["ok"] * 7)
    assert "0 of 7 judged cases fail" in shown(found_by(finder, FILE))
    finder.tell(["wrong"] * 7)  # no regression without an `ok`
    found = found_by(finder, FILE)
    assert sum(len(group.failing) for group in found.groups) == 7
    assert {group.expected for group in found.groups} == {None}
    assert "expected" not in shown(found).split("Group 1")[1].split("Expected:")[0]


def test_a_case_of_several_texts_shows_them_and_marks_no_single_one(
    measured: Coverage, tmp_path: Path
) -> None:
    finder = Finder(measured)
    finder.tell(dict.fromkeys(range(15, 25), "wrong") | dict.fromkeys(range(10), "ok"))
    found = found_by(finder, FILE)
    item = found.groups[0].typical[0]
    assert len(item.texts) == 3
    page = page_of(found, tmp_path)
    assert "✗" not in page
    assert "<mark>" in page
    assert all(str(text) in shown(found) for text in item.texts)


def test_a_notebook_shows_what_a_finder_has_found(finder: Finder) -> None:
    found, html = finder.findings(), finder._repr_html_()
    assert f"{found.failing} of {found.judged} judged cases fail" in html
    assert html.count("<tr>") == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_the_page_opens_anywhere_and_its_groups_unfold(
    finder: Finder, tmp_path: Path, browser: Any, width: int, scheme: str
) -> None:
    found = found_by(finder, FILE)
    page_of(found, tmp_path)
    watched = Watched(browser, width, scheme)
    page = watched.open(tmp_path / "found.html")
    before = page.locator(".case:visible").count()
    assert before == sum(len(group.typical) for group in found.groups)
    page.locator("summary").first.click()
    assert page.locator(".case:visible").count() == before + len(found.groups[0].failing)
    assert page.locator("svg.chart .line").bounding_box()["width"] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    watched.check()
