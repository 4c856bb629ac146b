"""Draw the pictures of the gallery from `mncover demo`: `make gallery`. It needs Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from mncover import Coverage
from mncover.cli import main
from mncover.cli.demo import MAX_LENGTH, demo_model
from mncover.report.plots import save_figure

IMAGES = Path(__file__).parent / "images"
WIDE, PHONE = (1000, 720), (390, 720)
COLORS = 128  # enough for tables and plots, and a smaller file


def draw(folder: Path) -> None:
    """Run the demo, and draw everything that there is to see of it."""
    assert main(["demo", "--folder", str(folder)]) == 0
    data = folder / "run.mncover"
    cov = Coverage.load(data)
    for name in ("contexts", "layers", "heads"):
        save_figure(getattr(cov, f"plot_{name}")(), IMAGES / f"gallery-{name}.png")
    given = [str(demo_model()), str(folder / "suite.jsonl")]
    given += ["--train", str(folder / "calibration.txt"), "--max-length", str(MAX_LENGTH)]
    assert main(["curve", *given, "-o", str(folder / "curve"), "-q"]) == 0
    shutil.copy(next((folder / "curve").glob("*.png")), IMAGES / "gallery-curve.png")
    assert main(["html", str(data), "-o", str(folder / "html"), "-q"]) == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        photograph(browser, folder / "html" / "index.html")
        browser.close()
    for path in IMAGES.glob("gallery-*.png"):
        shrink(path)


def photograph(browser: Any, index: Path) -> None:
    """Take pictures of the first page, of a test's page, and of what a phone shows of that."""
    page = browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]})
    page.goto(index.as_uri())
    page.screenshot(path=IMAGES / "gallery-report.png")
    page.get_by_role("link", name="negation", exact=True).first.click()
    page.screenshot(path=IMAGES / "gallery-test.png")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page.screenshot(path=IMAGES / "gallery-phone.png")


def shrink(path: Path) -> None:
    """Make a picture at most as wide as the pages, with few colours."""
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail(WIDE)
    small.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
