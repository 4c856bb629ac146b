"""Open a suite of tests, whatever kind of file it is in. No torch here."""

from __future__ import annotations

from pathlib import Path

from mncover.errors import TextError
from mncover.suites.formats.checklist import SUFFIXES, read_checklist
from mncover.suites.formats.own import is_suite, read_suite, write_suite
from mncover.suites.model import Suite

OWN = (".jsonl", ".jsonl.gz")


def load_suite(path: Path) -> Suite:
    """Return the suite in a file: CheckList's pickle or archive, or our own JSON Lines."""
    if path.name.endswith(SUFFIXES):
        return read_checklist(path)
    if path.name.endswith(OWN):
        return read_suite(path)
    raise TextError(f"{path}: a suite of tests ends with {', '.join((*OWN, *SUFFIXES))}.")


def is_test_suite(path: Path) -> bool:
    """Return whether a file is a suite of tests rather than a plain list of texts."""
    return path.name.endswith(SUFFIXES) or (path.name.endswith(OWN) and is_suite(path))


def save_suite(suite: Suite, path: Path) -> None:
    """Write a suite as JSON Lines."""
    if not path.name.endswith(OWN):
        raise TextError(f"{path}: a suite is written to a file that ends with {' or '.join(OWN)}.")
    write_suite(suite, path)
