"""The messages that the source raises and those that docs/messages.md lists, and how they differ.

`python -m tests.messages` prints messages that the page lacks, those that are gone from the source,
and for each that only changed its wording the old and the new one. `--write` puts the new wording
of these on the page. What varies is written `{name}`; two messages are the same if they differ only
in these names and in white space.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mncover import errors

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mncover"
PAGE = ROOT / "docs" / "messages.md"
BLOCK = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)
VARIES = re.compile(r"\{[^{}]*\}")

# A message with fewer characters of its own only passes on another one, as "{path}: {error}" does.
OWN = 12

# Functions whose names say nothing of what they are called with.
CALLED = ("brief", "counted", "len", "sorted", "str", "type")

# What the variables of a function may hold, by their names.
Strings = dict[str, list[str]]


def same(message: str) -> str:
    """Return what two messages share if they are the same one."""
    return " ".join(VARIES.sub("{}", message).split())


def raised() -> dict[str, list[str]]:
    """Return every message of an error, each with the class and places that raise it."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for call, variables in _errors(_parsed(path), {}):
            where = f"{ast.unparse(call.func)} {path.relative_to(PACKAGE)}:{call.lineno}"
            for message in filter(_says_something, _messages(call, variables)):
                found.setdefault(same(message), [message]).append(where)
    return {places[0]: places[1:] for places in found.values()}


def said() -> dict[str, str]:
    """Return every string of the source, raised or printed, by what `same` gives for it."""
    strings = (
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )
    return {same(text): text for node in strings for text in _templates(node, {})}


def listed() -> list[str]:
    """Return the messages of the page."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def missing() -> dict[str, list[str]]:
    """Return the messages that the source raises and the page lacks, with where they are raised."""
    on_page = {same(message) for message in listed()}
    return {message: where for message, where in raised().items() if same(message) not in on_page}


def stale() -> list[str]:
    """Return the messages of the page that the source neither raises nor prints."""
    known = said().keys() | {same(message) for message in raised()}
    return [message for message in listed() if same(message) not in known]


def reworded() -> dict[str, str]:
    """Return the stale messages that a new one resembles: one that is raised, or else printed."""
    on_page = {same(message) for message in listed()}
    left = {same(message): message for message in missing()}
    printed = {key: text for key, text in said().items() if key not in on_page and "{}" in key}
    pairs = {}
    for old in stale():
        for new, least in ((left, 0.6), (printed, 0.75)):
            found = difflib.get_close_matches(same(old), new, n=1, cutoff=least)
            if found:
                pairs[old] = new.pop(found[0])
                break
    return pairs


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _errors(node: ast.AST, variables: Strings) -> Iterator[tuple[ast.Call, Strings]]:
    """Yield every error that is made, with the strings that its function's variables may hold."""
    if isinstance(node, ast.FunctionDef):
        variables = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                texts = [text for text in _templates(inner.value, {}) if _says_something(text)]
                variables.setdefault(inner.targets[0].id, []).extend(texts)
    if isinstance(node, ast.Call) and _is_error(node.func) and node.args:
        yield node, variables
    for child in ast.iter_child_nodes(node):
        yield from _errors(child, variables)


def _is_error(function: ast.expr) -> bool:
    kind = getattr(errors, function.id, None) if isinstance(function, ast.Name) else None
    return isinstance(kind, type) and issubclass(kind, errors.MnCoverError)


def _says_something(message: str) -> bool:
    return len(VARIES.sub("", message)) >= OWN


def _messages(call: ast.Call, variables: Strings) -> list[str]:
    if ast.unparse(call.func) == errors.MissingExtraError.__name__:
        parts = (_templates(argument, variables)[0] for argument in call.args)
        return [str(errors.MissingExtraError(*parts))]
    return _templates(call.args[0], variables)


def _templates(node: ast.expr, variables: Strings) -> list[str]:
    """Return what a string may be, with names in braces for what varies."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return _joined([_templates(part, variables) for part in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([_templates(part, variables) for part in (node.left, node.right)])
    name = next(_names(node), "…")
    return variables.get(name) or ["{" + name + "}"]


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(choice) for choice in itertools.product(*parts)]


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names in an expression that may say what it stands for, the best first."""
    if isinstance(node, ast.FormattedValue):
        yield from _names(node.value)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in CALLED:
                yield inner.id


def _write(pairs: dict[str, str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for old, new in pairs.items():
        page = page.replace(f"\n{old}\n", f"\n{new}\n")
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Print what differs, or write what was only reworded."""
    pairs = reworded()
    if "--write" in sys.argv:
        _write(pairs)
    for old, new in pairs.items():
        print(f"reworded:\n  - {old}\n  + {new}")
    for message, where in missing().items():
        if message not in pairs.values():
            print(f"missing ({', '.join(where)}):\n  + {message}")
    for message in stale():
        if message not in pairs:
            print(f"stale:\n  - {message}")


if __name__ == "__main__":
    main()
