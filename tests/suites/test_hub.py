"""Data sets by name, tried with folders that datasets reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import datasets
import pytest

from mncover.cli import main
from mncover.errors import MissingExtraError, TextError
from mncover.suites.formats import copy_records, is_test_suite, read_texts
from mncover.suites.formats.hub import is_hub
from mncover.suites.formats.records import Fields
from mncover.suites.intake import given_rows
from tests.folders import write_material

TEXTS = ["good film", "bad food", "slow service"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    made = tmp_path / "reviews"
    made.mkdir()
    for split, texts in (("train", TEXTS), ("test", TEXTS[:2])):
        rows = [{"sentence": text, "label": n % 2, "k": "é"} for n, text in enumerate(texts)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (made / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return made


def test_a_split_is_read_like_a_file(folder: Path) -> None:
    rows = read_texts(Path(f"hf:{folder}:train"))
    assert (rows.texts, rows.labels) == (TEXTS, [0, 1, 0])
    assert rows.contexts == ["reviews:train"] * 3
    assert read_texts(Path(f"hf:{folder}:default:test")).texts == TEXTS[:2]
    assert read_texts(Path(f"hf:{folder}:train[1:]")).texts == TEXTS[1:]
    assert read_texts(Path(f"hf:{folder}:train"), limit=1).texts == TEXTS[:1]
    assert given_rows(f"hf:{folder}:train", Fields(text="k"), context="sentence").contexts == TEXTS
    assert not is_test_suite(Path(f"hf:{folder}:train"))
    assert not is_hub("hf.csv")


def test_commands_take_data_sets_by_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    material = write_material(tmp_path / "material")
    options = ["--train", f"hf:{folder}:train", "--max-length", "12", "-q"]
    assert main(["run", str(material.model), f"hf:{folder}:test", *options]) == 0
    assert main(["select", "--budget", "1", "-o", "few.jsonl"]) == 0
    assert read_texts(Path("few.jsonl")).texts[0] in TEXTS[:2]


def test_chosen_records_become_json_lines(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "few.jsonl"
    copy_records(Path(f"hf:{folder}:train"), [(2, TEXTS[2]), (0, TEXTS[0])], 3, output)
    found = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["sentence"] for row in found] == [TEXTS[2], TEXTS[0]]
    assert read_texts(output).texts == [TEXTS[2], TEXTS[0]]
    with pytest.raises(TextError, match=r"its records go to a \.jsonl file"):
        copy_records(Path(f"hf:{folder}:train"), [(0, TEXTS[0])], 3, tmp_path / "few.csv")


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("", "it has the splits train, test; name one, as in hf:.*reviews:SPLIT"),
        (":dev", "cannot be loaded .*dev"),
        (":none:train", "cannot be loaded .*none"),
        (":", r"the name of a data set is hf:NAME\[:CONFIG\]\[:SPLIT\]"),
        (":a:b:c", "the name of a data set is"),
        ("-gone:train", "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(
    tail: str, message: str, folder: Path
) -> None:
    with pytest.raises(TextError, match=message) as raised:
        read_texts(Path(f"hf:{folder}{tail}"))
    assert "\n" not in str(raised.value)


def test_the_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[datasets\]'"):
        read_texts(Path(f"hf:{folder}:train"))
