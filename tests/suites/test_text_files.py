"""Reading texts: every kind of file, every kind of mistake."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mncover.errors import MissingExtraError, TextError
from mncover.suites.formats.tables import Fields, read_texts


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
    ("s.docx", "a", r"unknown kind of file '.docx'"),
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
    with pytest.raises(TextError, match="name the first"):
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


def test_the_fingerprint_depends_on_texts_labels_contexts_and_order(tmp_path: Path) -> None:
    prints = {
        read_texts(write(tmp_path, "s.jsonl", content)).fingerprint
        for content in (
            '{"text": "a", "label": 1, "context": "x"}\n{"text": "b", "label": 0, "context": "x"}',
            '{"text": "b", "label": 0, "context": "x"}\n{"text": "a", "label": 1, "context": "x"}',
            '{"text": "a", "label": 0, "context": "x"}\n{"text": "b", "label": 0, "context": "x"}',
            '{"text": "a", "label": 1, "context": "y"}\n{"text": "b", "label": 0, "context": "x"}',
        )
    }
    assert len(prints) == 4
