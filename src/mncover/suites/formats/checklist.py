"""Read the suites that CheckList saves, without executing anything in them.

CheckList stores expectations as functions. For the suites released with it, the expectation of
each test is known by the test's name; for others it follows from the test's type and labels.
"""

from __future__ import annotations

import io
import tarfile
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from mncover.data.files import read_toml
from mncover.errors import TextError
from mncover.suites.expectations import Expectation
from mncover.suites.formats.records import SuiteFormat
from mncover.suites.formats.safepickle import DIR, INV, MFT, Bag, load_inert
from mncover.suites.model import Case, Kind, Label, Suite, Test
from mncover.types import Text, are_texts

MAX_BYTES = 2**30
KINDS: dict[type, Kind] = {MFT: "MFT", INV: "INV", DIR: "DIR"}
TODO = "TODO_DESCRIPTION"  # a placeholder in CheckList's released suites

# Sentiment: 0 negative, 1 neutral, 2 positive. Paraphrase: 0 different, 1 duplicate.
NEGATIVE, NEUTRAL, POSITIVE = 0, 1, 2
SENTIMENT_LABELS = ("negative", "neutral", "positive")
PARAPHRASE_LABELS = ("different", "duplicate")

# Expectations that do not follow from the type of test. Keys are prefixes of test names.
_FILE = read_toml(Path(__file__).with_name("released.toml"))
RELEASED = {prefix: Expectation.from_json(value) for prefix, value in _FILE.items()}
# In this test the label 1 means "anything but negative".
LENIENT = "Q & A: no"


def read_checklist(path: Path) -> Suite:
    """Read a suite that CheckList saved: a pickle, or a tar archive that contains one."""
    try:
        with _opened(path) as file:
            return _suite(load_inert(file))
    except OSError as error:
        raise TextError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except TextError as error:
        raise TextError(f"{path}: {error}") from None


def _opened(path: Path) -> BinaryIO:
    if not path.is_file():
        raise TextError("no such file.")
    if not path.name.endswith((".tar.gz", ".tgz")):
        return path.open("rb")
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith((".pkl", ".pickle")):
                    content = archive.extractfile(member)
                    if content is None or member.size > MAX_BYTES:
                        raise TextError("the pickle in this archive is too large.")
                    return io.BytesIO(content.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TextError(f"not a readable archive ({error}).") from error
    raise TextError("no pickle in this archive.")


def _suite(bag: Bag) -> Suite:
    tests, info = bag.values.get("tests"), bag.values.get("info") or {}
    if not isinstance(tests, dict) or not isinstance(info, dict):
        raise TextError("the suite has no tests.")
    made = tuple(_test(str(name), test, info.get(name)) for name, test in tests.items())
    texts = chain.from_iterable(case.texts for test in made for case in test.cases)
    return Suite(made, PARAPHRASE_LABELS if tuple in {*map(type, texts)} else SENTIMENT_LABELS)


def _test(name: str, bag: Any, info: Any) -> Test:
    if type(bag) not in KINDS:
        raise TextError(f"the test {name!r} has an unknown type.")
    kind, given = KINDS[type(bag)], info if isinstance(info, dict) else {}
    data = bag.values.get("data")
    if not isinstance(data, list) or not data:
        raise TextError(f"the test {name!r} has no cases.")
    expectation = expectation_of(name, kind)
    labels = _labels(name, bag.values.get("labels"), len(data), expectation)
    cases = tuple(Case(_texts(name, row), label) for row, label in zip(data, labels, strict=True))
    capability, about = (
        str(given.get(key) or bag.values.get(key) or "") for key in ("capability", "description")
    )
    return Test(name, kind, expectation, cases, capability, "" if about == TODO else about)


def expectation_of(name: str, kind: Kind) -> Expectation:
    """Return a test's expectation: by name if CheckList released it, otherwise by type."""
    default = Expectation("label" if kind == "MFT" else "inv")
    return next((found for prefix, found in RELEASED.items() if name.startswith(prefix)), default)


def _labels(name: str, labels: Any, n: int, expectation: Expectation) -> list[Label]:
    """Return the label of each case; only the expectation `label` needs one."""
    if expectation.expect != "label" or expectation.labels:
        return [None] * n
    each = labels if isinstance(labels, list) else [labels] * n
    if len(each) != n or not all(isinstance(x, int) and not isinstance(x, bool) for x in each):
        raise TextError(f"the test {name!r} needs a class number as the label of every case.")
    return [(NEUTRAL, POSITIVE) if name == LENIENT and x == NEUTRAL else x for x in each]


def _texts(name: str, row: Any) -> tuple[Text, ...]:
    texts = tuple(row) if isinstance(row, list) else (row,)
    if not texts or not are_texts(texts):
        raise TextError(f"a case of the test {name!r} holds something other than text.")
    return texts


SUITE = SuiteFormat(read_checklist)
