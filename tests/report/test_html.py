"""The HTML report: what its pages say, and how they behave in a real browser."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mncover.coverage import Coverage
from mncover.errors import SettingsError
from mncover.report import html_tests
from mncover.report.describe import print_failures
from mncover.report.html import MARK, write_html
from mncover.report.html_overview import _coarse, heatmaps
from mncover.report.html_tests import PageMaker, Place, ShownOwner, pieces
from mncover.selection.cases import cases_of
from mncover.selection.scores import score_cases
from mncover.suites.expectations import Expectation
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows
from mncover.types import display_percent
from tests import tiny
from tests.folders import suite_of
from tests.masks.test_mncover import random_masks
from tests.report.conftest import LABELS, SCRIPT, Measure, Watched, labelled_texts
from tests.slow import SlowCover

FILE = Path("run.mncover")


@pytest.fixture(scope="session")
def report(measured: Coverage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report of a nasty suite."""
    return write_html(measured.data, FILE, tmp_path_factory.mktemp("report") / "html").parent


def test_the_numbers_on_the_pages_are_those_of_the_results(
    measured: Coverage, report: Path
) -> None:
    result = measured.result()
    index = (report / "index.html").read_text(encoding="utf-8")
    assert f"<b>{display_percent(result.share_of_reachable('cover'))}</b>" in index
    drawn = result.yardstick()
    assert drawn is not None
    assert f"<b>{display_percent(drawn.share)}</b>" in index
    failing = sum(outcome.failing for outcome in result.outcomes)
    assert f"<b>{failing:,}</b>" in index
    for context in result.contexts:
        for tally in (context.main.tally, context.main.new, context.main.own):
            assert f'data-value="{tally.share_of_reachable}"' in index
        assert f'data-value="{context.outside}"' in index
        assert f'data-value="{context.failing / context.judged}"' in index
    assert len(list((report / "tests").iterdir())) == 3


def test_a_suites_text_stays_text(report: Path) -> None:
    pages = [report / "index.html", *sorted((report / "tests").iterdir())]
    for page in pages:
        content = page.read_text(encoding="utf-8")
        assert "<script>document" not in content
        assert "<b>bold" not in content
        # Its own script, and on the first page the data of the maps.
        assert content.count("<script") == (2 if page.name == "index.html" else 1)
        assert "default-src 'none'" in content
        assert not re.search(r"(src|href)=\"(https?:)?//", content)
    assert "&lt;script&gt;" in pages[1].read_text(encoding="utf-8")


def test_failing_cases_and_those_that_add_little_are_those_of_the_data(measured: Coverage) -> None:
    cases = cases_of(measured.data)
    pages = PageMaker(cases, 0.5, None).pages()
    novelty, gain = score_cases(cases, "novelty"), score_cases(cases, "gain")
    for number, page in enumerate(pages):
        mine = np.flatnonzero(cases.test == number)
        failing = [int(cases.number[i]) for i in mine if cases.verdicts[i] == 0]
        assert [case.number for case in page.failing_cases] == failing
        assert page.failing == len(failing)
        little = [int(cases.number[i]) for i in mine if novelty[i] <= 0.5]
        bad = [i for i in little if i in failing]  # which come first
        assert [c.number for c in page.little_cases] == [*bad, *(i for i in little if i not in bad)]
        assert [c.number for c in page.little_cases if c.fails] == bad
        assert (page.little, page.little_failing) == (len(little), len(bad))
        tally = measured.result().main.tally
        scale = tally.share_of_reachable / tally.share
        assert page.curve[-1][1] == pytest.approx(scale * gain[mine].sum())
        assert page.curve[-1][0] == sum(len(cases.rows[i]) for i in mine)
        for case in page.failing_cases:
            assert any(text.passes is False for text in case.texts)
    # The second and third copy of a text add nothing; the first hit everything before them.
    copies = [case for case in pages[0].little_cases if case.number in (1, 2)]
    here = Place(0, f"words {SCRIPT}", "0001.html")
    assert [case.owner for case in copies] == [ShownOwner(SCRIPT, here, 100.0)] * 2


def test_a_case_that_adds_little_names_the_other_case_that_owns_most_of_a_text(
    measured: Coverage, tmp_path: Path
) -> None:
    cases, table = cases_of(measured.data), measured.data.table
    case_of = {row: case for case, rows in enumerate(cases.rows) for row in rows.tolist()}
    every = [one for page in PageMaker(cases, 1.0, None).pages() for one in page.little_cases]
    by_number = {one.number: one for one in every}
    shown = [by_number[int(number)] for number in cases.number]
    assert len(every) == len(cases)
    assert any(len(rows) > 1 for rows in cases.rows)
    for case, one in enumerate(shown):
        best = (0.0, -1)
        for row in cases.rows[case].tolist():
            owner, share = int(table["owner"][row]), float(table["owned"][row])
            if owner >= 0 and case_of[owner] != case and share > best[0]:
                best = (share, owner)
        share, owner = best
        if not share:
            assert one.owner is None
            continue
        theirs = case_of[owner]
        test = int(cases.test[theirs])
        place = Place(int(cases.number[theirs]), cases.tests[test], f"{test + 1:04d}.html")
        text, elsewhere = html_tests._flat(table.texts[owner]), test != cases.test[case]
        assert one.owner == ShownOwner(text, place, 100 * share, elsewhere)
    assert shown[0].owner is None  # nothing was before it
    write_html(measured.data, FILE, tmp_path / "html", adds_little_at=0.5)
    pages = sorted((tmp_path / "html" / "tests").iterdir())
    assert "(case 0, 100.0 % of a sample)" in pages[0].read_text(encoding="utf-8")


def test_the_twin_of_a_case_is_found_in_another_test_and_in_another_run(
    measure: Measure, tmp_path: Path
) -> None:
    expects = Expectation("label")
    first, second = (
        Test(name, "MFT", expects, (Case((text,), 0), Case(("the plot is slow .",), 0)))
        for name, text in (("one", "a good film ."), ("two", "a bad film ."))
    )
    both = measure(Suite((first, second), LABELS))
    write_html(both.data, FILE, tmp_path / "html")
    page = (tmp_path / "html" / "tests" / "0002.html").read_text(encoding="utf-8")
    assert 'the plot is slow . (<a href="0001.html">one</a>, case 1, 100.0 % of a' in page
    again = measure(Suite((replace(second, name="three"),), LABELS))
    joined = (both | again).data
    table, row = joined.table, len(joined.table) - 1
    assert table.texts[row] == "the plot is slow ."
    table["owner"][row], table["owned"][row] = table.texts.index(table.texts[row]), 1.0
    write_html(joined, FILE, tmp_path / "joined", adds_little_at=1.0)
    page = (tmp_path / "joined" / "tests" / "0003.html").read_text(encoding="utf-8")
    assert '<a href="0001.html">one</a>, case 1' in page


def test_both_texts_of_a_failing_pair_are_shown_however_long(
    measure: Measure, tmp_path: Path
) -> None:
    pairs = [("film " * 300, f"plot {number}") for number in range(6)]
    cov = measure(Rows.make(pairs, labels=[0, 1, 2] * 2))
    assert cov.result().contexts[0].wrong
    write_html(cov.data, FILE, tmp_path / "html")
    page = (tmp_path / "html" / "tests" / "0001.html").read_text(encoding="utf-8")
    for i, (prediction, label) in enumerate(
        zip(cov.data.table["prediction"], cov.data.table["label"], strict=True)
    ):
        if prediction != label:
            assert f"… | plot {i}" in page
    console = Console(width=80, record=True, file=io.StringIO())
    print_failures(cov.data, 6, console)
    assert "… | plot " in " ".join(console.export_text().split())


def test_long_lists_are_cut_and_say_so(
    measured: Coverage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_tests, "MOST_FAILING", 1)
    cases = cases_of(measured.data)
    pages = [page for page in PageMaker(cases, 0.01, None).pages() if page.failing > 1]
    assert pages
    assert all(len(page.failing_cases) == 1 for page in pages)
    write_html(measured.data, FILE, tmp_path / "html")
    texts = [path.read_text() for path in (tmp_path / "html" / "tests").iterdir()]
    assert any("The first 1 of" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "original", "marked"),
    [
        ("Ann is here.", "Bo is here.", ["Ann"]),
        ("Bo is not here!", "Bo is here.", ["not ", "!"]),
        (("a b", "c"), ("a b", "d"), ["c"]),
        ("same", "same", []),
    ],
)
def test_what_differs_from_the_original_is_marked(
    text: Any, original: Any, marked: list[str]
) -> None:
    found = pieces(text, original)
    assert [piece for piece, differs in found if differs] == marked
    whole = text if isinstance(text, str) else " | ".join(text)
    assert "".join(piece for piece, _ in found) == whole


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_maps_equal_the_slow_implementation(name: str) -> None:
    model, tokenizer = tiny.make(name)
    texts, train = tiny.texts(6, seed=5), tiny.texts(8, seed=6)
    cov = Coverage(model, tokenizer, bins=5, max_length=10).calibrate(train, cache=False)
    cov.update(texts)
    slow = SlowCover(model, tokenizer, 5, 10)
    slow.calibrate(train)
    hits = slow.union(texts)
    length = int(cov.data.table["length"].max())
    hidden, attention = heatmaps(cov.data, cov.result())
    reachable = slow.reachable_cells()
    for layer in hidden:
        assert len(layer.positions) == length
        for t, share in enumerate(layer.positions):
            mine = [h for h in hits if h[0][:2] == ("hidden", layer.layer) and h[0][3] == t]
            there = sum(
                n for key, n in reachable if key[:2] == ("hidden", layer.layer) and key[3] == t
            )
            assert share == pytest.approx(len(mine) / max(there, 1))
    for block in attention:
        for head in block.heads:
            mine = [h for h in hits if h[0][:3] == ("attention", block.layer, head.number)]
            start = ("attention", block.layer, head.number)
            there = sum(n for key, n in reachable if key[:3] == start)
            assert head.share == pytest.approx(len(mine) / there)
            for (_, _, _, i, j), _ in mine:
                assert head.cells[i][j] > 0


def test_a_large_map_is_averaged_in_blocks() -> None:
    counts = np.arange(64.0 * 64).reshape(64, 64)
    coarse = _coarse(counts)
    assert coarse.shape == (32, 32)
    assert coarse[3, 5] == counts[6:8, 10:12].mean()
    assert _coarse(np.ones((100, 100))).mean() == pytest.approx(1)


def test_since_tells_which_cases_newly_fail(measure: Measure, tmp_path: Path) -> None:
    then, now = measure(suite_of()).data, measure(suite_of(), "distilbert").data
    folder = tmp_path / "html"
    write_html(now, FILE, folder, since=(Path("old.mncover"), then))
    old, new = cases_of(then), cases_of(now)
    newly = (old.verdicts == 1) & (new.verdicts == 0)
    fixed = (old.verdicts == 0) & (new.verdicts == 1)
    assert newly.any() or fixed.any()
    for number in range(3):
        page = (folder / "tests" / f"{number + 1:04d}.html").read_text()
        mine = old.test == number
        assert f"{int((newly & mine).sum())} newly failing" in page
        assert f"{int((fixed & mine).sum())} no longer failing" in page
    index = (folder / "index.html").read_text()
    assert "compared with old.mncover" in index
    assert "coverage not compared" in index
    assert "new, " in index
    write_html(then, FILE, folder, since=(Path("old.mncover"), then))
    index = (folder / "index.html").read_text()
    assert "Cover +0.00 points" in index
    assert "fixed" not in index


def test_since_shows_how_the_coverage_of_a_test_changed(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=10).calibrate(tiny.texts(20, 1), cache=False)
    texts = tiny.texts(30, seed=2)
    (before,) = cov.update(texts[:10], context="a").result().contexts
    cov.save(tmp_path / "old.mncover")
    (after,) = cov.update(texts[10:], context="a").result().contexts
    then = Coverage.load(tmp_path / "old.mncover").data
    first = write_html(cov.data, FILE, tmp_path / "html", since=(Path("old.mncover"), then))
    change = 100 * (after.share_of_reachable("cover") - before.share_of_reachable("cover"))
    assert f'<span class="tag ">{change:+.2f}</span>' in first.read_text()


def test_every_criterion_has_a_card_and_a_column(measured: Coverage, tmp_path: Path) -> None:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 1)
    cov = Coverage(model, tokenizer, max_length=10, masks=masks)
    cov.calibrate(tiny.texts(20, 1), cache=False).update(tiny.texts(10, 2), "a", gains=True)
    index = write_html(cov.data, FILE, tmp_path / "html").read_text()
    result = cov.result()
    for criterion in result.criteria.values():
        share = display_percent(criterion.tally.share_of_reachable)
        assert f"<b>{share}</b><span>{criterion.title}" in index
        assert f'<button type="button">{criterion.title} %</button>' in index
        assert f'data-value="{result.contexts[0].share_of_reachable(criterion.name)}"' in index
    assert "Masks: which words matter" in index


def test_a_report_replaces_a_report_and_nothing_else(measured: Coverage, tmp_path: Path) -> None:
    mine, folder = tmp_path / "mine", tmp_path / "html"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingsError, match="exists and is not an mncover report"):
        write_html(measured.data, FILE, mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    write_html(measured.data, FILE, folder)
    (folder / "tests" / "9999.html").write_text("of an earlier report")
    with (folder / MARK).open("a") as mark:
        mark.write("tests/9999.html\n../mine/thesis.txt\n")
    (folder / "notes.txt").write_text("of a user")
    (folder / "tests" / "9998.html").write_text("of a user, too")
    assert write_html(measured.data, FILE, folder) == folder / "index.html"
    assert not (folder / "tests" / "9999.html").exists()
    assert (folder / "notes.txt").read_text() == "of a user"
    assert (folder / "tests" / "9998.html").read_text() == "of a user, too"
    assert (mine / "thesis.txt").read_text() == "years of work"
    (folder / MARK).write_text("no list\n")
    with pytest.raises(SettingsError, match="not of an earlier report"):
        write_html(measured.data, FILE, folder)


def test_plain_texts_and_models_without_classes_have_pages_too(
    measure: Measure, tmp_path: Path
) -> None:
    labelled = measure(labelled_texts())
    write_html(labelled.data, FILE, tmp_path / "bert")
    page = (tmp_path / "bert" / "tests" / "0001.html").read_text()
    assert page.count("✗") == labelled.result().contexts[0].wrong > 0
    plain = measure(Rows.make(tiny.texts(30, seed=8)), "gpt2")
    write_html(plain.data, FILE, tmp_path / "gpt2")
    assert len(list((tmp_path / "gpt2" / "tests").iterdir())) == 1


# In a browser.


def first_column(page: Any) -> list[str]:
    rows = page.locator("#test-table tbody tr:visible td:first-child")
    return [text.strip() for text in rows.all_inner_texts()]


def test_tables_are_sorted_and_searched(report: Path, browser: Any) -> None:
    watched = Watched(browser)
    page = watched.open(report / "index.html")
    before = first_column(page)
    assert len(before) == 3
    page.get_by_role("button", name="Cases").click()
    cases = page.locator("#test-table tbody td:nth-child(3)").all_inner_texts()
    assert [int(text) for text in cases] == sorted((int(text) for text in cases), reverse=True)
    page.get_by_role("button", name="Cases").press("Enter")  # by keyboard too
    cases = page.locator("#test-table tbody td:nth-child(3)").all_inner_texts()
    assert [int(text) for text in cases] == sorted(int(text) for text in cases)
    page.get_by_role("button", name="Test").click()
    assert first_column(page) == sorted(before, key=str.lower, reverse=True)
    page.get_by_label("Search").fill("change")
    assert first_column(page) == ["change names"]
    assert page.locator("#found").inner_text() == "1 of 3"
    page.get_by_label("Search").fill("")
    assert len(first_column(page)) == 3
    watched.check()


def test_heads_and_layers_open_when_clicked(report: Path, browser: Any) -> None:
    watched = Watched(browser)
    page = watched.open(report / "index.html")
    assert page.locator("#head-detail").is_hidden()
    page.locator("#heads .cell").nth(1).click()
    assert page.locator("#head-detail").is_visible()
    assert page.locator("#head-title").inner_text().startswith("Layer 1, head 2:")
    assert page.locator("#heads .tick").all_inner_texts() == ["1", "2"]
    for axis in ("#head-columns", "#head-rows"):  # the longest text has 12 tokens
        numbers = page.locator(f"{axis} span").all_inner_texts()
        assert numbers == ["0", "2", "4", "6", "8", "10"]
    pixels = page.evaluate(
        "[...document.getElementById('head-map').getContext('2d').getImageData(0, 0, 2, 2).data]"
    )
    assert len(set(map(tuple, np.array(pixels).reshape(-1, 4).tolist()))) > 1
    page.locator("#positions button").nth(1).press("Enter")
    assert page.locator("#layer-detail").is_visible()
    assert page.locator("#layer-line").get_attribute("d").startswith("M")
    watched.check()


def test_a_tests_page_opens_and_its_cases_are_searched(report: Path, browser: Any) -> None:
    watched = Watched(browser)
    page = watched.open(report / "index.html")
    page.locator("#test-table a").first.click()
    assert page.locator("h1").inner_text() == f"words {SCRIPT}"
    assert page.title() == f"words {SCRIPT}"
    n = page.locator("#cases .case:visible").count()
    assert n > 1
    page.get_by_label("Search").fill("quoted")
    assert 0 < page.locator("#cases .case:visible").count() < n
    page.get_by_role("link", name="All tests").click()
    assert "Coverage of" in page.locator("h1").inner_text()
    watched.check()


@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_at_any_width(
    report: Path, browser: Any, width: int, scheme: str
) -> None:
    for path in (report / "index.html", report / "tests" / "0001.html"):
        watched = Watched(browser, width, scheme)
        page = watched.open(path)
        for button in page.locator("#heads .cell, #positions button").all()[:1]:
            button.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        too_wide = page.evaluate(
            "[...document.querySelectorAll('body *')].filter((e) => "
            "!e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map((e) => e.outerHTML.slice(0, 80))"
        )
        assert too_wide == []
        watched.check()


def test_a_phone_keeps_the_first_columns_in_view(report: Path, browser: Any) -> None:
    watched = Watched(browser, 375)
    page = watched.open(report / "index.html")
    places = "[...document.querySelectorAll('#test-table tbody tr:first-child td')].map((cell) => "
    places += "cell.getBoundingClientRect().left)"
    before = page.evaluate(places)
    page.evaluate("document.querySelector('#test-table').parentElement.scrollLeft = 200")
    after = page.evaluate(places)
    assert after[:2] == before[:2]
    assert after[2] < before[2] - 100
    watched.check()


def test_light_and_dark_have_grounds_of_their_own(report: Path, browser: Any) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        watched = Watched(browser, scheme=scheme)
        page = watched.open(report / "index.html")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        watched.check()
    assert grounds == ["rgb(255, 255, 255)", "rgb(18, 22, 29)"]


def test_hundreds_of_tests_are_listed_and_searched(tmp_path: Path, browser: Any) -> None:
    """The first page is a summary: what it takes depends on the tests, not on their cases."""
    texts = tiny.texts(40, seed=5)
    cov = Coverage(*tiny.make("bert"), max_length=10).calibrate(texts, cache=False)
    cov.update(texts, context="a", gains=True)
    data = cov.data
    for number in range(300):
        data.context_number(f"context {number}")
    table = data.table
    rows = np.arange(300) % len(texts)
    many = table.take(rows)
    many.columns["context"][:] = np.arange(1, 301)
    many.columns["number"][:] = len(texts) + np.arange(300)
    many.columns["index"][:] = len(texts) + np.arange(300)
    data.add_rows(many)
    first = write_html(data, tmp_path / "x.mncover", tmp_path / "html")
    watched = Watched(browser)
    page = watched.open(first)
    assert len(first_column(page)) == 301
    page.get_by_label("Search").fill("context 29")
    assert len(first_column(page)) == 11
    watched.check()
