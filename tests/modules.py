"""The list of modules in docs/architecture.md, and a tool that brings it up to date.

`python -m tests.modules` prints the modules that the page lacks and those that are gone. With
`--write` it rewrites the list: new modules get the first sentence of their docstring, the others
keep the sentence they have. `--fresh` takes every sentence from the docstrings.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mncover"
PAGE = ROOT / "docs" / "architecture.md"
HEADING = "\n## Modules\n"
ITEM = re.compile(r"^- `([\w/]+\.py)`: (.+)$", re.M)

# From the highest layer to the lowest; the files at the top of the package come first.
ROOMS = (
    *("", "plugins", "cli", "paper", "augment", "masks", "engine"),
    *("report", "selection", "suites", "criteria", "data"),
)


def existing() -> dict[str, str]:
    """Return every module of the package with the first sentence of its docstring."""
    return {
        path.relative_to(PACKAGE).as_posix(): _first_sentence(path)
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def listed() -> list[tuple[str, str]]:
    """Return the modules of the page, each with its sentence."""
    return ITEM.findall(PAGE.read_text(encoding="utf-8").split(HEADING)[1])


def written(sentences: dict[str, str]) -> str:
    """Return the list as the page has it, room by room."""
    parts = []
    for room in sorted({_room(path) for path in sentences}, key=ROOMS.index):
        lines = [f"- `{path}`: {said}" for path, said in sentences.items() if _room(path) == room]
        parts.append(f"### {room or 'mncover'}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _room(path: str) -> str:
    return path.split("/")[0] if "/" in path else ""


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=[.?!]) ", " ".join(docstring.split("\n\n")[0].split()))[0]


def _rewrite(fresh: bool) -> None:
    known = {} if fresh else dict(listed())
    sentences = {path: known.get(path, said) for path, said in existing().items()}
    head, _, section = PAGE.read_text(encoding="utf-8").partition(HEADING)
    note = section[: section.index("### ")]
    PAGE.write_text(head + HEADING + note + written(sentences), encoding="utf-8")


def main() -> None:
    """Print what differs, or rewrite the list."""
    if {"--write", "--fresh"} & set(sys.argv):
        _rewrite(fresh="--fresh" in sys.argv)
        return
    there, on_page = existing(), dict(listed())
    for path in sorted(there.keys() - on_page.keys()):
        print(f"not on the page: {path}: {there[path]}")
    for path in sorted(on_page.keys() - there.keys()):
        print(f"gone: {path}")


if __name__ == "__main__":
    main()
