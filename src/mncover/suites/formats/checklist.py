"""Read the suites that CheckList saves, without executing anything in them.

CheckList stores expectations as functions. For the suites released with it, the expectation of
each test is known by the test's name; for others it follows from the test's type and labels.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

from mncover.data.files import read_toml
from mncover.data.gzipped import DAMAGED
from mncover.data.limits import BYTES, most_bytes
from mncover.data.memory import give_back
from mncover.data.texts import TextFile
from mncover.errors import LimitError, TextError
from mncover.suites.cases import Case, written
from mncover.suites.expectations import Expectation, is_class
from mncover.suites.formats.records import SuiteFormat
from mncover.suites.formats.safepickle import DIR, INV, MFT, Bag, load_inert
from mncover.suites.model import Kind, Label, Suite, Test
from mncover.types import Text, are_texts, brief

# An archive may unpack to this many bytes, or so many times its own size: each byte of a pickle
# may make an object.
FREE, RATIO = 2**22, 30
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
        return _suite(load_inert(_pickle(path)))
    except OSError as error:
        raise TextError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (TextError, LimitError) as error:
        raise type(error)(f"{path}: {error}") from None


def _pickle(path: Path) -> bytes:
    """Return the bytes of a pickle, which may be in an archive."""
    if not path.is_file():
        raise TextError("no such file.")
    if not path.name.endswith((".tar.gz", ".tgz")):
        BYTES.check(path.stat().st_size, "bytes")
        return path.read_bytes()
    most = most_bytes(path.stat().st_size, FREE, RATIO)
    try:
        with gzip.open(path) as file:
            content = file.read(most + 1)
    except DAMAGED as error:
        raise TextError(f"not a readable archive ({error}).") from error
    BYTES.check(len(content), "bytes after decompression", most)
    found = _member(content)
    if found is None:
        raise TextError("no pickle in this archive.")
    return found


def _member(archive: bytes) -> bytes | None:
    """Return the first pickle in a tar archive; what it says of sizes is not believed."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as found:
            for member in found:
                if member.isreg() and member.name.endswith((".pkl", ".pickle")):
                    start = member.offset_data
                    return archive[start : start + member.size]
    except Exception as error:  # damaged bytes make tarfile raise almost anything
        raise TextError(f"not a readable archive ({brief(error)}).") from error
    return None


def _suite(bag: Bag) -> Suite:
    tests, info = bag.values.get("tests"), bag.values.get("info") or {}
    if not isinstance(tests, dict) or not isinstance(info, dict):
        raise TextError("the suite has no tests.")
    if wrong := [name for name in tests if not isinstance(name, str | int)]:
        raise TextError(f"a test must have a name, got {brief(wrong[0])}.")
    file = TextFile()
    # Each is forgotten once its texts are in the file.
    made = tuple(_test(str(name), tests.pop(name), info.get(name), file) for name in list(tests))
    pairs = any(isinstance(text, tuple) for text in file.texts())
    give_back()
    return Suite(made, PARAPHRASE_LABELS if pairs else SENTIMENT_LABELS)


def _test(name: str, bag: Any, info: Any, file: TextFile) -> Test:
    if type(bag) not in KINDS:
        raise TextError(f"the test {name!r} has an unknown type.")
    kind, given = KINDS[type(bag)], info if isinstance(info, dict) else {}
    data = bag.values.get("data")
    if not isinstance(data, list) or not data:
        raise TextError(f"the test {name!r} has no cases.")
    expectation = expectation_of(name, kind)
    labels = _labels(name, bag.values.get("labels"), len(data), expectation)
    each = zip(data, labels, strict=True)
    cases = written((Case(_texts(name, row), label) for row, label in each), file)
    said = (given.get(key) or bag.values.get(key) for key in ("capability", "description"))
    capability, about = (one if isinstance(one, str) else "" for one in said)
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
    if len(each) != n or not all(type(x) is int and is_class(x) for x in each):
        raise TextError(f"the test {name!r} needs a class number as the label of every case.")
    return [(NEUTRAL, POSITIVE) if name == LENIENT and x == NEUTRAL else x for x in each]


def _texts(name: str, row: Any) -> tuple[Text, ...]:
    texts = tuple(row) if isinstance(row, list) else (row,)
    if not texts or not are_texts(texts):
        raise TextError(f"a case of the test {name!r} holds something other than text.")
    return texts


SUITE = SuiteFormat(read_checklist)
