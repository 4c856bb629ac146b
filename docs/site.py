"""What mkdocs adds to the pages in this folder: the README as first page, and files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
LINKED = ("LICENSE", "examples/quickstart.py")


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside of the folder, at the top of the site."""
    for name, uri in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text.replace("](docs/", "](")))
    for name in LINKED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files outside of the folder to where they are on the site."""
    names = "|".join(map(re.escape, (*PAGES, *LINKED)))
    return re.sub(rf"\]\(\.\./({names})", r"](\1", markdown)
