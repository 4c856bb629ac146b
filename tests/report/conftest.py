"""For tests of reports: tiny models that ran a suite with nasty names and texts, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mncover.coverage import Coverage
from mncover.suites.model import Case, Suite
from mncover.suites.rows import Rows
from tests import tiny
from tests.folders import suite_of

LABELS = ("LABEL_0", "LABEL_1", "LABEL_2")
SCRIPT = "<script>document.title = 'broken'</script><b>bold</b> & \"quoted\""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TRAIN = tiny.texts(20, seed=9)

Measure = Callable[..., Coverage]


def nasty_suite() -> Suite:
    """Return a suite whose names and texts try to break out of the page."""
    suite = suite_of()
    first, second, third = suite.tests
    cases = (Case((SCRIPT,), 0), Case((SCRIPT,), 1), Case((SCRIPT,), 2), *first.cases)
    tests = (
        replace(first, name=f"words {SCRIPT}", cases=cases, description=SCRIPT),
        replace(second, capability=SCRIPT),
        third,
    )
    return replace(suite, tests=tests)


def labelled_texts() -> Rows:
    """Return labelled texts in three contexts, without any test."""
    labels = [number % 3 for number in range(30)]
    return Rows.make(tiny.texts(30, seed=8), ["abc"[number % 3] for number in range(30)], labels)


@pytest.fixture(scope="session")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Return a function that runs a suite, or rows, through a tiny model."""

    def run(suite: Suite | Rows, model: str = "bert", **options: Any) -> Coverage:
        folder = tmp_path_factory.mktemp("run")
        rows = suite if isinstance(suite, Rows) else Rows.of_suite(Path("suite.jsonl"), suite)
        cov = Coverage(*tiny.make(model), max_length=12, **options).calibrate(TRAIN, cache=False)
        cov.run(rows, folder / "run.mncover")
        return Coverage.load(folder / "run.mncover")

    return run


@pytest.fixture(scope="session")
def measured(measure: Measure) -> Coverage:
    """Return what a nasty suite covers."""
    return measure(nasty_suite())


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a browser to open pages in."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    quiet += ["--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield found
        found.close()


class Watched:
    """A page that remembers errors and requests."""

    def __init__(self, browser: Any, width: int = 1440, scheme: str = "light") -> None:
        viewport = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> Any:
        self.page.goto(path.as_uri())
        return self.page

    def check(self) -> None:
        """Require that nothing went wrong and nothing left the machine."""
        assert self.trouble == []
        assert all(url.startswith("file:") for url in self.requests)
        self.page.close()
