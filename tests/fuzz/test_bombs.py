"""Small files that ask for much: each is refused with one line, soon and in little memory.

A command runs as it is used, in a process of its own, and may take half a gigabyte at most.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.augment.recipes import make_suite
from mncover.data import datafile, limits
from mncover.data.files import read_toml
from mncover.errors import DataFileError, LimitError, MnCoverError, TextError
from mncover.suites.exchange import read_predictions
from mncover.suites.formats import load_suite, read_texts
from mncover.suites.formats.safepickle import load_inert
from tests.fuzz import samples

MIB = 2**20
SECONDS, MEMORY = 2.0, 500 * MIB


COMMAND = """
import sys, time
from mncover.cli import main
start = time.process_time()
code = main(sys.argv[1:])
status = open("/proc/self/status").read()
print(time.process_time() - start, status.split("VmHWM:")[1].split()[0])
sys.exit(code)
"""


def refused(*arguments: str) -> str:
    """Run a command that must refuse a file, within the limits; return its one line."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 520
    seconds, kibibytes = map(float, done.stdout.split())
    assert seconds < SECONDS
    assert kibibytes < MEMORY / 1024
    return done.stderr


def gzip_bomb(path: Path, line: bytes, size: int) -> Path:
    path.write_bytes(gzip.compress(line * (size // len(line)), 9))
    return path


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    line = b'{"case": "a"}\n'
    path = gzip_bomb(tmp_path / "bomb.jsonl.gz", line, 400 * MIB)
    assert path.stat().st_size < 2 * MIB
    said = refused("suite", "show", str(path))
    assert "bytes after decompression" in said
    assert "MNCOVER_MAX_BYTES" in said


def test_a_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gzip_bomb(tmp_path / "much.txt.gz", b"the same text again and again\n", 20 * MIB)
    with pytest.raises(LimitError, match="MNCOVER_MAX_BYTES"):
        read_texts(path)
    monkeypatch.setenv("MNCOVER_MAX_BYTES", str(30 * MIB))
    assert len(read_texts(path)) > 600_000
    monkeypatch.setenv("MNCOVER_MAX_ROWS", "1000")
    with pytest.raises(LimitError, match=r"more than 1,000; .* MNCOVER_MAX_ROWS"):
        read_texts(path)
    monkeypatch.setenv("MNCOVER_MAX_ROWS", "many")
    with pytest.raises(MnCoverError, match="MNCOVER_MAX_ROWS must be a whole number, got 'many'"):
        read_texts(path)


def test_every_limit_is_in_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    for limit in limits.LIMITS:
        assert f"`{limit.variable}`" in page


def test_a_line_of_many_megabytes_is_refused_in_a_short_message(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'["' + b"x" * (17 * MIB))
    with pytest.raises(LimitError, match=r"line 1: bytes: more than 16,777,216") as caught:
        read_texts(path)
    assert len(str(caught.value)) < 500
    path.write_bytes(json.dumps({"a" * 10**6: 1}).encode())
    with pytest.raises(TextError) as other:
        read_texts(path)
    assert len(str(other.value)) <= 500


def test_damaged_gzip_is_one_of_our_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    content = bytearray(gzip.compress(b'{"text": "a"}\n' * 1000))
    content[30] ^= 255
    path.write_bytes(content)
    with pytest.raises(TextError, match="cannot be read"):
        read_texts(path)


def test_a_parquet_file_whose_rows_share_one_long_text(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "bomb.parquet"
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(5000, np.int32), ["x" * MIB])
    parquet.write_table(pyarrow.table({"text": texts}), path)
    assert path.stat().st_size < 2 * MIB
    with pytest.raises(LimitError, match="bytes after decompression"):
        read_texts(path)


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_times_in_parquet(tmp_path: Path, unit: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = pyarrow.array([1, 2**62 + 1], pyarrow.timestamp(unit))
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "at": times}), tmp_path / "t.parquet")
    with contextlib.suppress(TextError):  # with pandas, nanoseconds are read
        read_texts(tmp_path / "t.parquet")


def test_names_in_parquet_that_are_no_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    samples.parquet(tmp_path / "a.parquet")
    path = tmp_path / "b.parquet"
    content = (tmp_path / "a.parquet").read_bytes()
    for old, new in (
        (b"quotes", b"quo\xff\xfes"),
        (b"text", b"te\xff\xfe"),
        (b"label", b"l\xffbel"),
    ):
        path.write_bytes(content.replace(old, new))
        with pytest.raises(TextError):
            read_texts(path)


# Recipes and TOML.


def recipe(folder: Path, content: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(content)
    return path


ONE = '[[tests]]\nname = "t"\nlabel = 1\n'
LONG = f'[lexicons]\na = ["{"x" * 10**5}"]\n'
NUMBERED = "".join(f"{{last_name{i}}}" for i in range(101))
MANY_FIELDS = "".join(f"{{last_name{i}}}" for i in range(10))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            ONE + 'texts = ["a b c"]\nperturb = ["WordSwapQWERTY"]\nvariants = 1000000000',
            "VARIANTS",
        ),
        (ONE + f'template = "{MANY_FIELDS}"', "give it an `n`.*MNCOVER_MAX_TEXTS"),
        (ONE + f'template = "{MANY_FIELDS}"\nn = 1000000000', "MNCOVER_MAX_TEXTS"),
        (ONE + 'texts = ["a"]\nx = ' + "[" * 5000, "cannot be read"),
        (ONE + "n = " + "9" * 5000, "cannot be read"),
        ("a." * 5000 + "b = 1", "more than 100 parts"),
        (LONG + ONE + f'template = "{"{a}" * 10**5}"', "characters that the recipe makes"),
        (ONE + f'template = "{NUMBERED}"\nn = 5', "at most 100 different fields"),
        (
            ONE + f'texts = ["{"a b " * 10**5}"]\nperturb = ["RandomSwap"]\nvariants = 1000',
            "characters that the recipe makes",
        ),
        ("x = {" + "a." * 5000 + "b = 1}", "more than 100 parts"),
    ],
)
def test_a_recipe_that_asks_for_too_much(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(MnCoverError, match=message):
        make_suite(recipe(tmp_path, content))


def test_a_few_of_very_many_fillings_are_drawn(tmp_path: Path) -> None:
    content = ONE + f'template = "{MANY_FIELDS}"\nn = 5'
    assert make_suite(recipe(tmp_path, content)).texts == 5


def test_a_key_of_a_few_parts_is_read(tmp_path: Path) -> None:
    path = recipe(tmp_path, f'a."b c".d = 1\n{"a." * 40}x = 2\ns = "{"w." * 500}"')
    assert read_toml(path)["a"]["b c"] == {"d": 1}


# Pickles and archives.


def suite_with(state: bytes) -> bytes:
    """Return a pickle of a suite with the given instructions as its state."""
    return (
        b"\x80\x04ccheck\n".replace(b"check", b"checklist.test_suite")
        + b"TestSuite\n)\x81"
        + (state + b"b.")
    )


DEEP = b"N" + b"\x85" * 200_000
LAUGH = (
    b"(N"
    + b"N" * 9
    + b"t"
    + b"\x94"
    + b"".join(b"(" + b"h%c" % i * 10 + b"t\x94" for i in range(30))
)


@pytest.mark.parametrize(
    "content",
    [
        suite_with(b"}" + DEEP + b"Ns"),
        suite_with(b"}(" + DEEP + b"Nu"),
        suite_with(b"(" + DEEP + b"Nd"),
        suite_with(b"}" + LAUGH + b"Ns"),
        suite_with(b"\x8f(" + LAUGH + b"\x90"),
        suite_with(b"(" + LAUGH + b"\x91"),
    ],
    ids=["item", "items", "dictionary", "laughs", "laughs in a set", "laughs in a frozen set"],
)
def test_keys_are_looked_at_before_they_are_hashed(content: bytes) -> None:
    with pytest.raises(MnCoverError):
        load_inert(content)


def test_a_far_number_of_an_object_takes_no_room() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TextError):
        load_inert(b"\x80\x04Nr\xff\xff\xff\x7f.")
    with pytest.raises(TextError):
        load_inert(b"\x80\x05\x96\xff\xff\xff\x7f\x00\x00\x00\x00.")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_the_same_list_copied_over_and_over_is_refused() -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\n)R"
    kind = b"cnumpy\ndtype\n\x8c\x02O8\x85R\x94"
    many = b"](" + b"N" * 50_000 + b"e\x94"
    state = b"(K\x01K\x00h\x00K\x00h\x01t"
    content = b"\x80\x04" + kind + b"0" + many + b"0" + (array + state + b"b0") * 5000 + b"N."
    with pytest.raises(TextError, match="many times over"):
        load_inert(content)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_arrays_of_objects_are_read(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "s.pkl"
    samples.checklist_pickle(path, protocol)
    assert b"O8" in path.read_bytes()
    assert load_suite(path).texts == 6


def test_names_that_are_no_text_are_not_written_out(tmp_path: Path) -> None:
    with samples._checklist() as known:
        suite, test = known.TestSuite(), known.MFT()
        laugh: Any = "x"
        for _ in range(40):
            laugh = [laugh, laugh]
        vars(test).update(data=["good"], labels=[1], capability=laugh, description=laugh)
        vars(suite).update(tests={"words": test}, info={})
        (tmp_path / "s.pkl").write_bytes(pickle.dumps(suite, 3))
    assert load_suite(tmp_path / "s.pkl").tests[0].capability == ""


def test_a_tar_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("suite.pkl")
        info.size = 300 * MIB
        archive.addfile(info, io.BytesIO(b"]" * info.size))
    assert "MNCOVER_MAX_BYTES" in refused("suite", "show", str(path))


# Data files.


def resealed(path: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> Path:
    """Change members and header of a sound data file, with checksums that fit."""
    with zipfile.ZipFile(samples.material().folder / "run.mncover") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    change(members, header)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    header["checksums"] = sums
    members.setdefault("header.json", json.dumps(header).encode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def many_neurons(members: dict[str, bytes], header: dict[str, Any]) -> None:
    first = header["criteria"][0]
    for layout in (header["layout"], first["layout"]):
        layout["sites"] = [["hidden", 0, 1, 2**17, 2**16]]
    first["reachable"] = [[1]]
    for name in list(members):
        if name.startswith("maps/"):
            members[name] = zlib.compress(bytes(100 * MIB), 9)


def many_texts(members: dict[str, bytes], header: dict[str, Any]) -> None:
    members["texts.json"] = b"[" + b"[]," * (100 * MIB // 3) + b"[]]"


def large_header(members: dict[str, bytes], header: dict[str, Any]) -> None:
    members["header.json"] = b"[" * 300 * MIB


@pytest.mark.parametrize("change", [many_neurons, many_texts, large_header])
def test_a_small_data_file_that_unpacks_to_much(tmp_path: Path, change: Any) -> None:
    path = resealed(tmp_path / "bomb.mncover", change)
    assert path.stat().st_size < 4 * MIB
    for command in (("report",), ("debug", "data")):
        if command == ("report",) or change is large_header:
            assert "set MNCOVER_MAX_" in refused(*command, str(path))


def entry(name: str, value: Any) -> Any:
    def change(members: dict[str, bytes], header: dict[str, Any]) -> None:
        header[name] = value

    return change


def array(name: str, content: bytes) -> Any:
    def change(members: dict[str, bytes], header: dict[str, Any]) -> None:
        members[name] = content

    return change


def outline(**values: Any) -> Any:
    def change(members: dict[str, bytes], header: dict[str, Any]) -> None:
        outlines = json.loads(members["suites.json"])
        next(iter(outlines.values()))["tests"][0] |= values
        members["suites.json"] = json.dumps(outlines).encode()

    return change


def reachable(members: dict[str, bytes], header: dict[str, Any]) -> None:
    header["criteria"][0]["reachable"][0][0] = int("9" * 400)


HEADER = np.lib.format.magic(1, 0)
WRONG = {
    "contexts that are numbers": entry("contexts", [1, 2, 3]),
    "the same context twice": entry("contexts", ["a", "a", "b"]),
    "runs that are lists": entry("runs", [[["a"], "b", "c", "d", []]]),
    "runs that are too short": entry("runs", [["a"]]),
    "runs that are numbers": entry("runs", 7),
    "labels that are objects": entry("labels", [{}, {}, {}]),
    "a number of texts of 400 digits": entry("calibration_texts", int("9" * 400)),
    "a reachable count of 400 digits": reachable,
    "an infinite weight": entry(
        "settings", {"bins": 10, "max_length": 12, "attention_weight": float("inf")}
    ),
    "masks that are a list": entry("masks", [1]),
    "an array cut short": array("table/length.npy", HEADER + b"\x10"),
    "an array of one trillion": array(
        "table/length.npy",
        HEADER + b"\x76\x00" + b"{'descr': '<i4', 'fortran_order': False, 'shape': (10**12,), }",
    ),
    "an array whose header is nested": array(
        "table/length.npy", HEADER + b"\xf0\x0f" + b"(" * 4080
    ),
    "cases of no texts": outline(sizes=[0] * 12),
    "sizes that are texts": outline(sizes=["a"] * 12),
    "an expectation that is a number": outline(expectation=3),
    "a tolerance of 400 digits": outline(expectation={"expect": "inv", "tolerance": 10**400}),
    "a class that is an object": outline(expectation={"expect": "not", "labels": [{}]}),
    "a class out of range": outline(
        expectation={"expect": "goes", "labels": [0, 10**15], "direction": "up"}
    ),
    "a type that is a list": outline(type=["MFT"]),
    "labels of cases that are objects": outline(right=[{}] * 12),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_data_file_of_wrong_types_is_refused_in_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from mncover.cli import main

    path = resealed(tmp_path / "a.mncover", WRONG[name])
    assert main(["report", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "please report this" not in said


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_of_compressing_are_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.mncover"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", b"{}")
    with pytest.raises(DataFileError, match="compressed in a foreign way"):
        datafile.read(path)


# Predictions and expectations.


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1000000000000000", "pred_only"),
        ("inf", "pred_only"),
        ("inf 0.5", "softmax"),
        ("nan", "binary_softmax"),
        ("-1", "pred_only"),
        ("-10000000000000000000", "pred_only"),
        ("5000000000 1", "pred_and_conf"),
        ("0 " * 2000, "softmax"),
    ],
)
def test_predictions_out_of_range_are_refused(tmp_path: Path, line: str, kind: str) -> None:
    path = tmp_path / "p.txt"
    path.write_text(line + "\n")
    with pytest.raises(MnCoverError):
        read_predictions(path, kind, 1)


def lines_of(expectation: Any) -> str:
    rows = [{"suite": 1}, {"test": "t", "type": "DIR", "expectation": expectation}]
    rows += [{"case": ["the film", "the food"]}, {"case": ["a plot", "no plot"]}]
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    "expectation",
    [
        {"expect": "goes", "labels": [0, 9], "direction": "up"},
        {"expect": "not", "labels": [9]},
        {"expect": "inv", "only_if": [3]},
    ],
)
def test_a_class_that_the_model_lacks_is_refused_before_anything_is_run(
    tmp_path: Path, expectation: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from mncover.cli import main

    made, path = samples.material(), tmp_path / "suite.jsonl"
    path.write_text(lines_of(expectation))
    run = ["run", str(made.model), str(path), "--train", str(made.train), "--max-length", "12"]
    assert main([*run, "-o", str(tmp_path / "x.mncover")]) == 1
    said = capsys.readouterr().err.strip()
    assert "the test 't': there is no class" in said.splitlines()[-1]
    assert not (tmp_path / "x.mncover").exists()


@pytest.mark.parametrize(
    "expectation",
    [
        {"expect": "not", "labels": [{}]},
        {"expect": "not", "labels": [-1]},
        {"expect": "not", "labels": [10**15]},
        {"expect": "inv", "tolerance": 10**400},
        {"expect": "inv", "tolerance": float("inf")},
        {"expect": "inv", "tolerance": float("nan")},
        {"expect": "inv", "first": 1},
        {"expect": ["inv"]},
        {"expect": "goes", "labels": [0, 1], "direction": ["up"]},
    ],
)
def test_an_expectation_of_wrong_values_is_refused(tmp_path: Path, expectation: Any) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(lines_of(expectation))
    with pytest.raises(TextError, match="line 2"):
        load_suite(path)


# What nobody foresaw.


def test_an_error_that_nobody_foresaw_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mncover.cli import main

    def broken(path: Path) -> Any:
        raise ZeroDivisionError("first\nsecond")

    monkeypatch.setattr("mncover.cli.debug.read_header", broken)
    assert main(["debug", "data", "x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("mncover: ZeroDivisionError: first second. ")
    assert "please report this" in said
    assert said.count("\n") == 1
    assert main(["--debug", "debug", "data", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_masks_whose_tokenizer_is_named_by_half_a_character(tmp_path: Path) -> None:
    from dataclasses import replace

    from mncover.masks.masks import Masks
    from tests import tiny

    made = replace(Masks.from_words(tiny.tokenizer(), ["good"]), tokenizer_fingerprint="\ud800")
    made.save(tmp_path / "m.safetensors")
    assert Masks.load(tmp_path / "m.safetensors").summary().words_kept == 1
