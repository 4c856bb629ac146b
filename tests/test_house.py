"""The package stays small enough to be read: few entries at the top, no long file."""

from __future__ import annotations

from pathlib import Path

import mncover

PACKAGE = Path(mncover.__file__).parent
ENTRIES, LONGEST = 17, 400


def test_the_package_has_few_entries_and_no_long_file() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")
    }
    assert len(entries) <= ENTRIES, entries
    assert max(lines.values()) <= LONGEST, max(lines, key=lambda path: lines[path])
