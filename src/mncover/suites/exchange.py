"""Exchange with programs that only know lines: texts out, predictions in. No torch here.

Texts are written one per line in the suite's order, so that any program can predict them; an
index beside them says which test and case each line belongs to. Predictions come back one per
line in the formats that CheckList reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from mncover.data.files import replacing
from mncover.errors import TextError
from mncover.suites.expectations import Answers
from mncover.suites.model import Suite
from mncover.types import Text

# One class; probabilities; the probability of class 1; class and its probability; class and
# all probabilities. The names are CheckList's.
Format = Literal["pred_only", "softmax", "binary_softmax", "pred_and_conf", "pred_and_softmax"]
FORMATS: tuple[Format, ...] = get_args(Format)
# Those that name the class themselves: it is taken as it is, in the suite's classes.
CERTAIN: tuple[Format, ...] = ("pred_only", "pred_and_conf", "pred_and_softmax")


def index_path(path: Path) -> Path:
    """Return where the index of a file of texts lies."""
    return path.with_name(path.name + ".index.tsv")


def export_texts(suite: Suite, path: Path) -> None:
    """Write all texts, a line each, and their index; a pair has a tab between its texts."""
    rows = ["test\tcase\ttext"]
    for test in suite.tests:
        for number, case in enumerate(test.cases):
            rows += [f"{_flat(test.name)}\t{number}\t{i}" for i in range(len(case.texts))]
    for target, lines in ((path, map(_line, suite.each_text())), (index_path(path), rows)):
        with replacing(target) as temporary:
            content = "".join(f"{line}\n" for line in lines)
            temporary.write_bytes(content.encode("utf-8", "replace"))


def _line(text: Text) -> str:
    return _flat(text) if isinstance(text, str) else "\t".join(_flat(part) for part in text)


def _flat(text: str) -> str:
    """Return a text on one line and without tabs."""
    return " ".join(text.replace("\t", " ").splitlines())


def read_predictions(path: Path, kind: str, texts: int) -> Answers:
    """Return the answers in a file of predictions, one line for each of so many texts."""
    if kind not in FORMATS:
        raise TextError(f"predictions come as {', '.join(FORMATS)}; got {kind!r}.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise TextError(f"{path}: no such file.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TextError(f"{path}: cannot be read ({error}).") from error
    if len(lines) != texts:
        raise TextError(f"{path}: {len(lines):,} lines for the suite's {texts:,} texts.")
    parse = _PARSERS[kind]
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse([float(part) for part in line.replace(",", " ").split()]))
        except (ValueError, IndexError) as error:
            raise TextError(f"{path}, line {number}: not {kind} ({line[:40]!r}).") from error
    return _answers(found, path)


Parsed = tuple[int, list[float]]  # class, and probabilities as far as they are known


def _answers(found: list[Parsed], path: Path) -> Answers:
    """Put the lines together; what a line does not say of other classes is 0."""
    classes = np.array([number for number, _ in found], dtype=np.int64)
    width = max([len(row) for _, row in found] + [int(classes.max(initial=0)) + 1])
    probabilities = np.zeros((len(found), width))
    for place, (_, row) in enumerate(found):
        probabilities[place, : len(row)] = row
    if not np.isfinite(probabilities).all() or (classes < 0).any():
        raise TextError(f"{path}: it has negative classes, or probabilities that are no numbers.")
    return Answers(classes, probabilities)


def _pred_only(parts: list[float]) -> Parsed:
    (number,) = parts
    return _class(number), _one_hot(_class(number), 1.0)


def _softmax(parts: list[float]) -> Parsed:
    return int(np.argmax(parts)), parts


def _binary(parts: list[float]) -> Parsed:
    (one,) = parts
    return _softmax([1 - one, one])


def _pred_and_conf(parts: list[float]) -> Parsed:
    number, confidence = parts
    return _class(number), _one_hot(_class(number), confidence)


def _pred_and_softmax(parts: list[float]) -> Parsed:
    number, *probabilities = parts
    if _class(number) >= len(probabilities):
        raise ValueError
    return _class(number), probabilities


def _class(number: float) -> int:
    if number != int(number):
        raise ValueError
    return int(number)


def _one_hot(number: int, value: float) -> list[float]:
    return [0.0] * number + [value]


_PARSERS: dict[str, Callable[[list[float]], Parsed]] = {
    "pred_only": _pred_only,
    "softmax": _softmax,
    "binary_softmax": _binary,
    "pred_and_conf": _pred_and_conf,
    "pred_and_softmax": _pred_and_softmax,
}
