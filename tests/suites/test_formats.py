"""Formats of suites: our own, CheckList's pickles without danger, and the registry."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.errors import TextError
from mncover.suites.expectations import Expectation
from mncover.suites.formats import SUITE_FORMATS, is_test_suite, load_suite, save_suite
from mncover.suites.formats.checklist import RELEASED, read_checklist
from mncover.suites.formats.jsonlines import is_suite, read_suite, write_suite
from mncover.suites.formats.records import SuiteFormat
from mncover.suites.model import Case, Suite, Test
from tests.cli.test_commands import error_of

SUITE = Suite(
    (
        Test(
            "words", "MFT", Expectation("label"), (Case(("good",), 1), Case(("bad é \ud800",), 0))
        ),
        Test(
            "pairs",
            "INV",
            Expectation("inv", tolerance=0.2),
            (Case((("a", "b"), ("a", "c"))), Case((("x", "y"),), (0, "one"))),
            capability="Logic",
            description="two\nlines",
        ),
    ),
    ("no", "yes"),
)


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz"])
def test_a_suite_comes_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    write_suite(SUITE, tmp_path / name)
    assert read_suite(tmp_path / name) == SUITE
    first = (tmp_path / name).read_bytes()
    write_suite(SUITE, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert is_suite(tmp_path / name)
    assert (SUITE.cases, SUITE.texts, SUITE["pairs"].texts) == (4, 5, 3)
    assert len(list(SUITE.each_text())) == 5


def test_a_suite_written_by_hand_needs_little(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"test": "t"}\n\n{"case": "good", "label": 1}\n{"case": ["a"], "label": "no"}\n'
    )
    suite = read_suite(path)
    assert suite.tests[0].expectation == Expectation("label")
    assert [case.label for case in suite.tests[0].cases] == [1, "no"]
    (tmp_path / "texts.jsonl").write_text('{"text": "good"}\n')
    assert not is_suite(tmp_path / "texts.jsonl")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"case": "a"}', "line 1: a case comes before any test"),
        ('{"test": "t"}\n{"case": []}', "line 2: 'case' must be"),
        ('{"test": "t"}\n{"case": [1]}', "line 2: 'case' must be"),
        ('{"test": "t"}\n{"case": "a", "label": true}', "line 2: 'label' must be"),
        ('{"test": "t"}\n{"cases": "a"}', "line 2: a line must have"),
        ('{"test": "t"}\n[1]', "line 2: expected an object"),
        ('{"test": "t"}\n{', "line 2: not JSON"),
        ('{"test": "t", "type": "ABC"}', "line 1: 'type' must be one of MFT, INV, DIR"),
        ('{"test": ""}', "line 1: 'test' must not be empty"),
        ('{"test": 5}', "line 1: 'test', 'capability' and 'description' must be text"),
        ('{"test": "t", "description": 5}', "line 1: 'test', 'capability'"),
        ('{"test": "t", "expectation": "x"}', "line 1: unknown expectation"),
        ('{"test": "t"}', "the test 't' has no cases"),
        ('{"suite": 1}', "has no tests"),
        ('{"suite": 9}', "line 1: this version reads"),
        ('{"suite": 1, "labels": [1]}', "line 1: 'labels' must be"),
        ('{"test": "t"}\n{"case": "a"}\n{"test": "t"}\n{"case": "a"}', "two tests are called 't'"),
    ],
)
def test_a_bad_suite_is_refused_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(content)
    with pytest.raises(TextError, match=message) as caught:
        read_suite(path)
    assert str(path) in str(caught.value)


def test_a_suite_format_in_the_registry_is_read_recognised_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_toy(path: Path) -> Suite:
        cases = tuple(Case((line,), 1) for line in path.read_text().splitlines())
        return Suite((Test(path.stem, "MFT", Expectation("label"), cases),))

    path = tmp_path / "words.toy"
    path.write_text("good\nbetter\n")
    assert not is_test_suite(path)
    monkeypatch.setitem(SUITE_FORMATS, ".toy", SuiteFormat(read_toy))
    assert is_test_suite(path)
    assert list(load_suite(path).each_text()) == ["good", "better"]
    with pytest.raises(TextError, match=r"\.tgz, \.toy\.$"):
        load_suite(tmp_path / "words.csv")
    with pytest.raises(TextError, match=r"ends with \.jsonl or \.jsonl\.gz\.$"):
        save_suite(SUITE, path)  # it cannot be written


# CheckList.


@pytest.fixture(scope="module")
def released(shared: Path) -> dict[str, Suite]:
    folder = shared / "data" / "checklist"
    return {name: load_suite(folder / f"{name}_suite.tar.gz") for name in ("sentiment", "qqp")}


SENTIMENT_CASES = [
    *(34, 35, 13, 8658, 1716, 2000, 2000, 500, 500, 500, 500, 500, 500, 500, 1000, 331, 909, 1000),
    *(8000, 4368, 600, 600, 600, 600, 6318, 6786, 2496, 1992, 2124, 804, 1000, 1000, 1000, 8528),
    *(7644, 1560, 7644, 1560),
]
QQP_CASES = [
    *(
        1000,
        954,
        928,
        1000,
        987,
        938,
        975,
        6000,
        326,
        251,
        2000,
        2000,
        500,
        500,
        200,
        100,
        972,
        984,
    ),
    *(990, 500, 500, 500, 500, 682, 1386, 1500, 500, 999, 1000, 1000, 1000, 1000, 1000, 1000, 1000),
    *(2000, 2000, 2000, 1000, 990, 990, 988, 1000, 1000, 990, 989, 828, 971, 970, 1000, 1000, 500),
    8328,
]


def test_the_released_suites_load_completely(released: dict[str, Suite]) -> None:
    sentiment, qqp = released["sentiment"], released["qqp"]
    assert [len(test.cases) for test in sentiment.tests] == SENTIMENT_CASES
    assert (len(sentiment.tests), sentiment.texts) == (38, 178_578)
    assert [len(test.cases) for test in qqp.tests] == QQP_CASES
    assert (len(qqp.tests), qqp.texts) == (53, 207_301)
    assert all(test.capability for suite in released.values() for test in suite.tests)
    assert sentiment["change names"].description == "Replace names with other common names"
    hard = next(test for test in sentiment.tests if test.name.startswith("Hard: Negation of pos"))
    first = hard.cases[0].texts[0]  # a NumPy scalar in the pickle
    assert str(first).startswith("I don't think, given the time")


def test_every_released_expectation_is_bound(released: dict[str, Suite]) -> None:
    bound = [test for suite in released.values() for test in suite.tests]
    for beginning, expectation in RELEASED.items():
        found = [test for test in bound if test.name.startswith(beginning)]
        assert len(found) == 1, beginning
        assert found[0].expectation == expectation
    for test in bound:
        if test.kind == "INV":
            assert test.expectation == Expectation("inv")
        if test.expectation == Expectation("label"):
            assert test.kind == "MFT"
            assert all(case.label is not None for case in test.cases)
    lenient = {case.label for case in released["sentiment"]["Q & A: no"].cases}
    assert lenient == {0, (1, 2)}


def test_the_released_suites_convert_and_come_back(
    released: dict[str, Suite], tmp_path: Path
) -> None:
    for name, suite in released.items():
        save_suite(suite, tmp_path / f"{name}.jsonl.gz")
        assert load_suite(tmp_path / f"{name}.jsonl.gz") == suite


def run_marker() -> None:
    os.environ["MNCOVER_TEST_RAN"] = "1"


class Evil:
    """Pickles into a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def as_suite(body: bytes) -> bytes:
    """Return a pickle of a CheckList suite whose tests are what `body` makes."""
    start = b"\x80\x03cchecklist.test_suite\nTestSuite\n)\x81}X\x05\x00\x00\x00tests"
    return start + body + b"sb."


# _get_attr(_import_module("os"), "system")("touch …"): dill's way to any function there is.
BY_ATTRIBUTE = (
    b"cdill._dill\n_get_attr\ncdill._dill\n_import_module\nX\x02\x00\x00\x00os\x85R"
    b"X\x06\x00\x00\x00system\x86RX\x0b\x00\x00\x00touch owned\x85R"
)
# A state for the class itself, and for a function that is allowed.
STATE_FOR_A_CLASS = b"cchecklist.test_types\nMFT\n}X\x03\x00\x00\x00xyzK\x01sb"
STATE_FOR_A_FUNCTION = b"cdill._dill\n_load_type\nN}X\x08\x00\x00\x00__code__K\x01s\x86b"

PICKLES = {
    "a call of os.system": (pickle.dumps(Evil(os.system, "touch owned"), 2), "names posix.system"),
    "builtins.eval": (pickle.dumps(Evil(eval, "1"), 2), "names __builtin__.eval|builtins.eval"),
    "a call inside a suite": (as_suite(pickle.dumps(Evil(run_marker), 2)[2:-1]), "run_marker"),
    "a function reached through dill": (as_suite(BY_ATTRIBUTE), "damaged|names"),
    "a state for a class": (as_suite(STATE_FOR_A_CLASS), "damaged|names"),
    "a state for a function": (as_suite(STATE_FOR_A_FUNCTION), "a state for a function"),
    "a class of CheckList that is not listed": (
        as_suite(b"cchecklist.editor\nEditor\n)\x81"),
        "names checklist.editor.Editor",
    ),
    "a dotted name": (as_suite(b"cchecklist.test_types\nMFT.__init__\n"), "names checklist"),
    "an object elsewhere": (b"\x80\x02X\x01\x00\x00\x00aQ.", "stored elsewhere"),
    "something else": (pickle.dumps({"tests": 1}), "holds no CheckList suite"),
    "a suite without tests": (as_suite(b"K\x01"), "has no tests"),
    "a test of no type": (as_suite(b"}X\x01\x00\x00\x00aK\x01s"), "has an unknown type"),
    "nothing": (b"", "damaged"),
    "no pickle": (b"hello", "damaged"),
}


@pytest.mark.parametrize("what", PICKLES)
def test_a_dangerous_or_damaged_pickle_is_refused_and_nothing_runs(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = PICKLES[what]
    (tmp_path / "s.pkl").write_bytes(content)
    with pytest.raises(TextError, match=message) as caught:
        read_checklist(tmp_path / "s.pkl")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "owned").exists()
    assert "MNCOVER_TEST_RAN" not in os.environ


def test_a_cut_pickle_is_refused_wherever_it_is_cut(shared: Path, tmp_path: Path) -> None:
    with tarfile.open(shared / "data" / "checklist" / "sentiment_suite.tar.gz") as archive:
        member = archive.extractfile("sentiment_suite.pkl")
        assert member is not None
        whole = member.read()
    for size in (1, 1000, len(whole) // 3, len(whole) - 1):
        (tmp_path / "cut.pkl").write_bytes(whole[:size])
        with pytest.raises(TextError, match="damaged"):
            read_checklist(tmp_path / "cut.pkl")


def test_archives_without_a_pickle_or_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("readme.txt")
        archive.addfile(info, io.BytesIO())
    with pytest.raises(TextError, match="no pickle in this archive"):
        read_checklist(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(TextError, match="not a readable archive"):
        read_checklist(path)
    with pytest.raises(TextError, match="no such file"):
        read_checklist(tmp_path / "none.pkl")


def test_a_suite_is_converted_and_shown_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_suite(SUITE, Path("s.jsonl"))
    assert main(["suite", "convert", "s.jsonl", "-o", "t.jsonl.gz"]) == 0
    assert "2 tests, 4 cases, 5 texts" in capsys.readouterr().out
    assert read_suite(Path("t.jsonl.gz")) == SUITE
    assert main(["suite", "show", "t.jsonl.gz"]) == 0
    shown = capsys.readouterr().out
    assert "pairs" in shown
    assert "Logic" in shown
    assert "inv" in shown
    assert "ends with" in error_of(capsys, "suite", "convert", "s.jsonl", "-o", "t.csv")
    assert "ends with" in error_of(capsys, "suite", "show", "t.csv")
