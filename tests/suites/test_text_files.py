"""Text files: every format, every kind of mistake, and the registry."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mncover.errors import MissingExtraError, SettingsError, TextError
from mncover.suites.formats import TEXT_FORMATS, copy_records, read_texts
from mncover.suites.formats.records import Fields, Record, TextFormat, raw_lines


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


JSONL = """{"text": "a b", "label": 1, "context": "x"}

{"text": "c", "label": null, "context": "y"}
"""
CSV = 'context,text,label\nx,"a, ""b""\nc",1\ny,d,\n'


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz", "s.ndjson"])
def test_json_lines_are_read_with_labels_contexts_and_line_numbers(
    tmp_path: Path, name: str
) -> None:
    found = read_texts(write(tmp_path, name, JSONL))
    assert found.texts == ["a b", "c"]
    assert found.labels == [1, None]
    assert found.contexts == ["x", "y"]
    assert found.lines == [1, 3]


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.csv.gz"])
def test_tables_are_read_with_quotes_and_line_breaks(tmp_path: Path, name: str) -> None:
    content = CSV.replace(",", "\t").replace("a\t", "a,") if name == "s.tsv" else CSV
    found = read_texts(write(tmp_path, name, content))
    assert found.texts == ['a, "b"\nc', "d"]
    assert found.labels == ["1", None]
    assert found.contexts == ["x", "y"]


def test_plain_text_is_a_text_a_line_in_a_context_named_after_the_file(tmp_path: Path) -> None:
    found = read_texts(write(tmp_path, "tweets.txt", "\ufeffone\n\ntwo words \r\n"))
    assert found.texts == ["one", "two words "]
    assert found.contexts == ["tweets", "tweets"]


def test_parquet_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 2]})
    parquet.write_table(table, tmp_path / "nli.parquet")
    found = read_texts(tmp_path / "nli.parquet")
    assert found.texts == [("a", "c"), ("b", "d")]
    assert found.labels == [0, 2]


def test_parquet_without_its_package_names_the_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[parquet\]'"):
        read_texts(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ('{"sentence": "a"}', "a"),
        ('{"premise": "a", "hypothesis": "b"}', ("a", "b")),
        ('{"s1": "a", "s2": "b"}', ("a", "b")),
        ('{"text": "a", "pair": "b"}', ("a", "b")),
        ('"a"', "a"),
        ('["a", "b"]', ("a", "b")),
    ],
)
def test_usual_field_names_need_no_options(tmp_path: Path, record: str, expected: object) -> None:
    assert read_texts(write(tmp_path, "s.jsonl", record)).texts == [expected]


def test_fields_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "s.csv", "q,a,gold,test\nx,y,1,t\n")
    found = read_texts(path, Fields("q", "a", "gold", "test"))
    assert (found.texts, found.labels, found.contexts) == ([("x", "y")], ["1"], ["t"])


def test_limit_stops_reading(tmp_path: Path) -> None:
    path = write(tmp_path, "s.txt", "a\nb\nc\n")
    assert read_texts(path, limit=2).texts == ["a", "b"]


MISTAKES: list[tuple[str, str | bytes, str]] = [
    ("s.jsonl", '{"text": "a"}\n{"text": 5}', r"line 2: field 'text' must be text, got 5"),
    ("s.jsonl", '{"text": "a"}\n{"txt": "b"}', r"line 2: no field 'text'"),
    ("s.jsonl", '{"text": "a"}\n"b"', r"line 2: expected an object"),
    ("s.jsonl", '"a"\n{"text": "b"}', r"line 2: expected a string"),
    ("s.jsonl", '{"text": "a"\n', r"line 1: not JSON"),
    ("s.jsonl", "[" * 100_000, r"line 1: (nested too deeply|not JSON)"),
    ("s.jsonl", '{"words": "a"}', r"line 1: which field is the text\? It has 'words'"),
    ("s.jsonl", '{"text": "a", "context": 3}', r"line 1: field 'context' must be text"),
    ("s.jsonl", "5", r"line 1: expected a string or a list of two strings"),
    ("s.jsonl", "", r"holds no text"),
    ("s.jsonl", b'"a"\n"\xff"', r"line 2: not UTF-8"),
    ("s.csv", "text,label\na,1\nb\n", r"line 3: 1 fields, but the header has 2"),
    ("s.csv", "text,text\na,1\n", r"occurs twice"),
    ("s.csv", 'text\n"a\n', r"line 2: unexpected end of data"),
    ("s.csv", "text\n", r"holds no text"),
    ("s.jsonl.gz", b"", r"holds no text"),
    ("s.parquet", "no parquet", r"not a readable Parquet file"),
    ("s.docx", "a", r"unknown kind of file '.docx'; known are \.jsonl\[\.gz\], .*, \.parquet,"),
    ("s.parquet.gz", "a", r"unknown kind of file '.parquet.gz'"),
    ("noending", "a", r"unknown kind of file ''"),
]


@pytest.mark.parametrize(("name", "content", "message"), MISTAKES)
def test_a_mistake_is_named_with_file_line_and_field(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(TextError, match=message) as caught:
        read_texts(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_fields_files_and_broken_gzip_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "s.jsonl", '{"text": "a"}')
    with pytest.raises(TextError, match="no field 'review'; it has 'text'"):
        read_texts(path, Fields(text="review"))
    with pytest.raises(SettingsError, match="name the first"):
        read_texts(path, Fields(pair="text"))
    with pytest.raises(TextError, match="no such file"):
        read_texts(tmp_path / "none.jsonl")
    (tmp_path / "bad.txt.gz").write_bytes(b"no gzip at all")
    with pytest.raises(TextError, match="cannot be read"):
        read_texts(tmp_path / "bad.txt.gz")
    cut = gzip.compress(b"a\n" * 1000)[:-9]
    (tmp_path / "cut.txt.gz").write_bytes(cut)
    with pytest.raises(TextError, match="cannot be read"):
        read_texts(tmp_path / "cut.txt.gz")


def read_toy(path: Path) -> Iterator[Record]:
    for number, line in raw_lines(path):
        label, text = line.split("|")
        yield number, {"text": text, "label": label}


def copy_toy(path: Path, places: Sequence[int]) -> bytes:
    lines = [line for _, line in raw_lines(path)]
    return "".join(f"{lines[place]}\n" for place in places).encode()


def test_a_text_format_in_the_registry_is_read_copied_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "s.toy.gz", "1|a\n0|b\n1|c\n")
    with pytest.raises(TextError, match=r"unknown kind of file '.toy.gz'"):
        read_texts(path)
    monkeypatch.setitem(TEXT_FORMATS, ".toy", TextFormat(read_toy, copy_toy))
    found = read_texts(path)
    assert (found.texts, found.labels, found.lines) == (["a", "b", "c"], ["1", "0", "1"], [1, 2, 3])
    copy_records(path, [(2, "c"), (0, "a")], 3, tmp_path / "few.toy")
    assert (tmp_path / "few.toy").read_text() == "1|c\n1|a\n"
    with pytest.raises(TextError, match=r"known are \.jsonl\[\.gz\], .*, \.toy\[\.gz\]\.$"):
        read_texts(tmp_path / "s.docx")


@pytest.mark.parametrize(("name", "between"), [("long.csv", ","), ("long.tsv.gz", "\t")])
def test_fields_may_be_longer_than_the_csv_module_takes(
    name: str, between: str, tmp_path: Path
) -> None:
    long = "word " * 50_000
    path = write(tmp_path, name, f"text{between}label\n{long}{between}1\n")
    assert read_texts(path).texts == [long]
    copy_records(path, [(0, long)], 1, tmp_path / f"few.{name}")
    assert read_texts(tmp_path / f"few.{name}").texts == [long]


@pytest.mark.parametrize(
    ("name", "content", "copied"),
    [
        ("s.jsonl", '{"text":  "a"}\n\n{"text": "b"}\n', '{"text": "b"}\n{"text":  "a"}\n'),
        ("s.csv", 'id,text\n1,"a"\n\n2,b\n', "id,text\n2,b\n1,a\n"),
        ("s.tsv", "id\ttext\n1\ta\n2\tb", "id\ttext\n2\tb\n1\ta\n"),
        ("s.txt.gz", "a\n \nb", "b\na\n"),
    ],
)
def test_records_are_copied_whole_and_in_the_order_asked_for(
    name: str, content: str, copied: str, tmp_path: Path
) -> None:
    source, output = write(tmp_path, name, content), tmp_path / f"few.{name}"
    copy_records(source, [(1, "b"), (0, "a")], 2, output)
    raw = output.read_bytes()
    assert (gzip.decompress(raw) if name.endswith(".gz") else raw).decode() == copied
