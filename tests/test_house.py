"""The package stays small enough to be read."""

from __future__ import annotations

from pathlib import Path

import mncover

PACKAGE = Path(mncover.__file__).parent
ENTRIES, FILES, LINES, LONGEST = 16, 110, 17_000, 380


def test_the_package_has_few_entries_files_and_lines() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")
    }
    assert len(entries) <= ENTRIES, entries
    assert len(lines) <= FILES
    assert sum(lines.values()) <= LINES
    assert max(lines.values()) <= LONGEST, max(lines, key=lambda path: lines[path])
