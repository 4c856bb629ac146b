"""Exchange suites with other programs: one line per text out, one line per prediction in.

An index file gives the test and case of each line. Predictions use CheckList's formats.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mncover.data.harmless import in_cell
from mncover.data.limits import CLASSES
from mncover.errors import TextError
from mncover.suites.expectations import MAX_CLASS, Answers
from mncover.suites.formats.records import raw_lines, write_content
from mncover.suites.model import Suite
from mncover.types import Text, counted

# A line has the class; all probabilities; the probability of class 1; the class and its
# probability; or the class and all probabilities. The names are CheckList's.
FORMATS = ("pred_only", "softmax", "binary_softmax", "pred_and_conf", "pred_and_softmax")
# Formats that give the class itself, which is then one of the suite's classes.
CERTAIN = ("pred_only", "pred_and_conf", "pred_and_softmax")
Parsed = tuple[int, list[float]]  # a class, and those probabilities that are known


def index_path(path: Path) -> Path:
    """Return the path of the index that belongs to a file of texts."""
    return path.with_name(path.name + ".index.tsv")


def export_texts(suite: Suite, path: Path) -> None:
    """Write all texts, one per line, and their index; a tab separates the texts of a pair."""
    rows = ["test\tcase\ttext"]
    for test in suite.tests:
        for number, case in enumerate(test.cases):
            name = in_cell(_flat(test.name))
            rows += [f"{name}\t{number}\t{i}" for i in range(len(case.texts))]
    for target, lines in ((path, map(_flat, suite.each_text())), (index_path(path), rows)):
        content = "".join(f"{line}\n" for line in lines)
        write_content(content.encode("utf-8", "replace"), target)


def _flat(text: Text) -> str:
    """Return a text on one line, without tabs, or a pair of such texts with a tab between them."""
    parts = (text,) if isinstance(text, str) else text
    return "\t".join(" ".join(part.replace("\t", " ").splitlines()) for part in parts)


def read_predictions(path: Path, kind: str, texts: int) -> Answers:
    """Read a file of predictions, which must have one line for each of the suite's texts."""
    if kind not in FORMATS:
        raise TextError(f"the format of predictions is one of {', '.join(FORMATS)}; got {kind!r}.")
    lines = list(raw_lines(path))
    if len(lines) != texts:
        raise TextError(
            f"{path}: {counted(len(lines), 'line')}, but the suite has {counted(texts, 'text')}."
        )
    found = []
    for number, line in lines:
        try:
            found.append(_parsed(kind, [float(part) for part in line.replace(",", " ").split()]))
        except (ValueError, OverflowError) as error:
            raise TextError(f"{path}, line {number}: not {kind} ({line[:40]!r}).") from error
    classes = np.array([number for number, _ in found], dtype=np.int64)
    width = max([len(row) for _, row in found] + [int(classes.max(initial=0)) + 1])
    CLASSES.check(width, f"{path}: classes")
    probabilities = np.zeros((len(found), width))  # 0 where a line does not give one
    for place, (_, row) in enumerate(found):
        probabilities[place, : len(row)] = row
    if not np.isfinite(probabilities).all() or (classes < 0).any():
        raise TextError(f"{path}: it has negative classes, or probabilities that are not finite.")
    return Answers(classes, probabilities)


def _parsed(kind: str, parts: list[float]) -> Parsed:
    """Return what a line says; a line in another format is a ValueError."""
    if kind == "binary_softmax":
        (one,) = parts
        parts = [1 - one, one]
    if kind in ("softmax", "binary_softmax"):
        return int(np.argmax(parts)), parts
    number, *rest = parts
    place = int(number)
    CLASSES.check(place + 1, "classes of predictions")
    if place != number or place < -MAX_CLASS or (kind == "pred_and_softmax" and place >= len(rest)):
        raise ValueError
    if kind == "pred_and_softmax":
        return place, rest
    (share,) = [*rest, 1.0] if kind == "pred_only" else rest
    return place, [0.0] * place + [share]
