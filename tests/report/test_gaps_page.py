"""The page of gaps: 50,000 dots, texts that try to get out, and what a reader can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.report.gaps import headline, looked_at, unvisited_words
from mncover.report.html_gaps import embedded, write_page
from mncover.selection.gap_groups import Flagged, Gaps, Spot, TestVisits, groups_of
from mncover.selection.gaps import Share
from tests.report.conftest import Watched

NASTY = "</script><script>document.title='out'</script><b>&amp;\x1b"


def gaps_of(spots: int) -> Gaps:
    """Return gaps in three groups, on a map of so many texts."""
    rng = np.random.default_rng(0)
    flagged = tuple(
        Flagged(f"{NASTY} {i}", 2, 0.001, 1.5, i % 3, "negative", 0.9, 0.2, NASTY, NASTY, True, {})
        for i in range(90)
    )
    kinds = rng.choice(["test", "within", "beyond"], spots - len(flagged))
    places = rng.normal(size=(len(kinds), 2)).tolist()
    dots = [
        Spot(x, y, str(kind), -1, f"text {i}")
        for i, ((x, y), kind) in enumerate(zip(places, kinds, strict=True))
    ]
    dots += [Spot(9.0, 9.0 + one.group, "flagged", one.group, one.text) for one in flagged]
    tests = TestVisits(NASTY, 3, 0, 0), TestVisits("b", 3, 1, 4)
    groups = groups_of(flagged, rng.normal(size=(90, 3)), 1000)
    about = ("model", "layer 3", "suite", 500, 400, "logs", 2000, 1000, 900, 0.1)
    return Gaps(*about, Share(0.7, 0.6, 0.8), flagged, groups, tests, tuple(dots))


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_opens_from_disk_and_shows_texts(
    tmp_path: Path, browser: Any, width: int, scheme: str
) -> None:
    write_page(gaps_of(50_000), tmp_path / "gaps.html")
    watched = Watched(browser, width, scheme)
    page = watched.open(tmp_path / "gaps.html")
    assert page.title() == "Gaps in the tests of model"
    assert "49,910" not in page.inner_text("#spot-keys")  # they are of three kinds
    assert "flagged, group 3 (30)" in page.inner_text("#spot-keys")
    page.locator("#spots").scroll_into_view_if_needed()
    box = page.locator("#spots").bounding_box()
    # The third group is at the upper right corner, where no other dot is.
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] * 0.03)
    assert page.inner_text("#spot-text").startswith("flagged, group 3: </script>")
    page.locator("#spot-keys input").last.uncheck()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] * 0.03)
    assert "group 3" not in page.inner_text("#spot-text")
    assert page.locator("#tests + p + .scroll tbody tr").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.check()


def test_words_say_what_was_drawn_and_what_is_within_reach() -> None:
    found = gaps_of(100)
    assert headline(found).startswith("70.0 % of the traffic is within reach of a test (95 %")
    assert "2,000 lines, 1,000 of them drawn at random; 900 different texts" in looked_at(found)
    assert "400 of 500 texts, spread over all tests" in looked_at(found)
    assert unvisited_words(found) == "No traffic comes near 1 of 2 tests:"
    every = replace(found, tests=found.tests[1:])
    assert unvisited_words(every) == "Traffic comes near every test."
    assert "<" not in embedded(found)
