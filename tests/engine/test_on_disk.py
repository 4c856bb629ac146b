"""A run holds neither its texts nor its rows in memory."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from mncover import Coverage
from mncover.data import store
from mncover.engine import windows
from mncover.engine.answers import first_of_each
from mncover.engine.suite_run import SuiteRun
from mncover.suites.formats import read_rows
from mncover.suites.rows import Rows
from tests import tiny


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", ("x", "y")]))))
def test_the_first_of_each_text_is_found_context_by_context(items: list[tuple[str, Any]]) -> None:
    rows = Rows.make([text for _, text in items], [context for context, _ in items])
    firsts, which = list[int](), list[int]()
    seen: dict[Any, int] = {}
    for row, (context, text) in enumerate(items):
        if row and context != items[row - 1][0]:
            seen = {}  # a context that comes again begins anew
        which.append(seen.setdefault(text, len(firsts)))
        if which[-1] == len(firsts):
            firsts.append(row)
    found = first_of_each(rows)
    assert [one.tolist() for one in found] == [firsts, which]


def held_after(cov: Coverage, path: Path, output: Path) -> int:
    """Return how much memory a run holds when it is over, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        data = SuiteRun(cov.engine, read_rows(path), output, "auto").run()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        assert data.n_rows
    finally:
        tracemalloc.stop()
    return held


def test_a_run_holds_a_few_bytes_a_text_however_small_its_windows_are(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8, progress=False)
    cov.calibrate(tiny.texts(40, seed=3), cache=False)
    rng, paths = random.Random(0), {}
    for n in (600, 600, 3000):
        paths[n] = tmp_path / f"{n}.txt"
        with paths[n].open("w") as file:
            for number in range(n):
                file.write(f"{number} {' '.join(rng.choices(tiny.WORDS, k=80))}\n")
    with patch.object(windows, "WINDOW_TEXTS", 100), patch.object(store, "FEW_ROWS", 128):
        held_after(cov, paths[600], tmp_path / "warm.mncover")
        few, many = (held_after(cov, path, tmp_path / "x.mncover") for path in paths.values())
    # A text alone takes more than 300 bytes, and a row as much again.
    assert (many - few) / 2400 < 150
