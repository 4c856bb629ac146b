"""Files at addresses, tried with a file system that fsspec keeps in memory."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

from mncover.cli import main
from mncover.data import addresses, datafile
from mncover.data.addresses import here, is_address, recorded, shown
from mncover.errors import LimitError, MissingExtraError, TextError
from mncover.suites.formats import (
    converted,
    copy_records,
    field_names,
    is_test_suite,
    load_suite,
    read_texts,
)
from mncover.suites.formats.hub import is_hub
from mncover.suites.formats.records import Fields
from mncover.suites.intake import given_rows
from mncover.suites.traffic import given_traffic
from tests.folders import write_material

TEXTS = ["good film", "bad food", "slow service"]
LINES = "".join(json.dumps({"text": text, "label": n % 2}) + "\n" for n, text in enumerate(TEXTS))
SUITE = """{"suite": 1, "labels": ["negative", "positive"]}
{"test": "praise", "type": "MFT", "expectation": {"expect": "label"}}
{"case": ["good film"], "label": 1}
"""


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Put files where only fsspec finds them; copies of other tests are forgotten."""
    addresses._copied.cache_clear()
    put("memory://b/texts.jsonl", LINES.encode())
    yield
    fsspec.filesystem("memory").store.clear()


def put(address: str, content: bytes) -> Path:
    with fsspec.open(address, "wb") as file:
        file.write(content)
    return Path(address)


def test_what_is_an_address() -> None:
    for given in ("s3://b/x.csv", "gs://b/x", "https://h/x?y=1", "memory://b/x", "file:///t/x"):
        assert is_address(given)
        assert shown(Path(given)) == given
        assert not is_hub(given)
    for given in ("x.csv", "/a/b.csv", "C:/a/b.csv", "hf:a/b:train", "hf:/folder:train", "a:b.csv"):
        assert not is_address(given)
        assert shown(Path(given)) == str(Path(given))


@pytest.mark.parametrize("given", [Path, str])
def test_texts_at_an_address_are_those_of_the_same_file_here(given: type, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text(LINES)
    local, found = read_texts(tmp_path / "texts.jsonl"), given_rows(given("memory://b/texts.jsonl"))
    assert (found.texts, found.labels) == (TEXTS, [0, 1, 0])
    for name in ("texts", "contexts", "labels", "lines"):
        assert list(getattr(found, name)) == list(getattr(local, name))
    assert found.origin[0] == "memory://b/texts.jsonl"
    assert found.fingerprint == local.fingerprint
    assert given_traffic(given("memory://b/texts.jsonl"), Fields()).lines == 3


def test_what_is_secret_in_an_address_is_kept_in_no_file(tmp_path: Path) -> None:
    signed = "https://me:password@host/a/t.csv?X-Signature=abc#part"
    assert recorded(Path(signed)) == "https://host/a/t.csv"
    assert recorded(Path("s3://bucket/a@b.csv")) == "s3://bucket/a@b.csv"
    assert recorded(Path("file:///a/b.csv")) == "file:///a/b.csv"
    assert recorded(tmp_path / "what?.csv") == str(tmp_path / "what?.csv")
    put("memory://b/t.jsonl?token=abc", LINES.encode())
    assert given_rows("memory://b/t.jsonl?token=abc").origin[0] == "memory://b/t.jsonl"
    assert given_traffic("memory://b/t.jsonl?token=abc", Fields()).source == "memory://b/t.jsonl"


def test_every_format_can_be_at_an_address(tmp_path: Path) -> None:
    put("memory://b/t.jsonl.gz", gzip.compress(LINES.encode()))
    put("memory://b/t.csv", b"text,label\n" + "".join(f"{t},1\n" for t in TEXTS).encode())
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), tmp_path / "t.parquet")
    put("memory://b/t.parquet", (tmp_path / "t.parquet").read_bytes())
    for name in ("t.jsonl.gz", "t.csv", "t.parquet"):
        assert read_texts(Path(f"memory://b/{name}")).texts == TEXTS
    assert field_names(Path("memory://b/t.csv")) == {"text", "label"}
    suite = put("memory://b/suite.jsonl", SUITE.encode())
    assert is_test_suite(suite)
    assert load_suite(suite).tests[0].name == "praise"
    assert converted(suite)[0].tests[0].name == "praise"


def test_a_file_is_copied_once_however_often_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = fsspec.open

    def counting(address: str, mode: str) -> object:
        opened.append(address)
        return real(address, mode)

    monkeypatch.setattr(fsspec, "open", counting)
    assert not is_test_suite(Path("memory://b/texts.jsonl"))
    assert field_names(Path("memory://b/texts.jsonl")) == {"text", "label"}
    assert len(read_texts(Path("memory://b/texts.jsonl"))) == 3
    assert opened == ["memory://b/texts.jsonl"]


def test_errors_name_the_address_and_not_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = put("memory://b/damaged.jsonl", b'{"text": "a"}\n{"text": \n')
    with pytest.raises(TextError, match=r"^memory://b/damaged\.jsonl, line 2: not JSON"):
        read_texts(damaged)
    without = put("memory://b/without.jsonl", b'{"text": "a"}\n{"txt": "a"}\n')
    with pytest.raises(TextError, match=r"^memory://b/without\.jsonl, line 2: no field 'text'"):
        read_texts(without)
    empty = put("memory://b/empty.jsonl", b"")
    with pytest.raises(TextError, match=r"^memory://b/empty\.jsonl: the file holds no text\."):
        read_texts(empty)
    with pytest.raises(TextError, match=r"^memory://b/x\.doc: unknown kind of file"):
        read_texts(Path("memory://b/x.doc"))
    monkeypatch.setenv("MNCOVER_MAX_ROWS", "2")
    with pytest.raises(LimitError, match=r"^memory://b/texts\.jsonl: lines: more than 2"):
        read_texts(Path("memory://b/texts.jsonl"))


def test_what_cannot_be_opened_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TextError, match=r"^memory://b/gone\.csv: no such file\.$"):
        read_texts(Path("memory://b/gone.csv"))
    with pytest.raises(TextError, match=r"^none://b/x\.csv: cannot be read \(Protocol not known"):
        read_texts(Path("none://b/x.csv"))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[remote\]'"):
        read_texts(Path("memory://b/gone.csv"))


def test_a_copy_that_broke_off_is_not_taken_for_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(source: object, copy: object, size: int) -> None:
        copy.write(b'{"text": "good film"}\n')  # type: ignore[attr-defined]
        raise OSError("connection reset")

    path = Path("memory://b/texts.jsonl")
    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copyfileobj", half)
        with pytest.raises(TextError, match=r"cannot be read \(connection reset\)"):
            read_texts(path)
    assert read_texts(path).texts == TEXTS


def test_a_file_that_is_here_is_read_where_it_is(tmp_path: Path) -> None:
    with here(tmp_path / "t.csv") as found:
        assert found == tmp_path / "t.csv"


def test_commands_take_addresses_and_copy_records_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    material = write_material(tmp_path / "material")
    address = "memory://b/texts.jsonl"
    options = ["--train", address, "--max-length", "12", "-q"]
    assert main(["run", str(material.model), address, *options]) == 0
    assert datafile.read(Path("run.mncover")).runs[0].suite == address
    select = ["select", "--budget", "1", "-o", "few.jsonl", "-q"]
    assert main(select) == 1  # whose data file it is cannot be known
    assert f"add --suite {address}" in capsys.readouterr().err
    assert main([*select, "--suite", address]) == 0
    assert read_texts(Path("few.jsonl")).texts[0] in TEXTS
    put(address, b'{"text": "other"}\n')
    addresses._copied.cache_clear()  # another command is another process
    with pytest.raises(TextError, match=r"^memory://b/texts\.jsonl: it has 1 text, but 3 were run"):
        copy_records(Path(address), [(0, TEXTS[0])], 3, tmp_path / "few.jsonl")
    assert main(["run", str(material.model), "memory://b/gone.csv", *options]) == 1
    assert "memory://b/gone.csv: no such file." in capsys.readouterr().err
