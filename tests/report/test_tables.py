"""Plain tables, and what is written to files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from mncover.report.tables import plain_table, write_csv, write_json, write_text


def printed(width: int, **options: bool | int) -> list[str]:
    table = plain_table("long\nname", "a", "b", **options)  # type: ignore[arg-type]
    table.add_row("something long", "1", "22,222")
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_names_are_left_and_numbers_right() -> None:
    assert printed(40) == [
        "long",
        "name            a       b",
        "something long  1  22,222",
    ]
    assert printed(40, narrow=True)[2] == "something long 1 22,222"
    assert printed(40, left=0)[1] == "          name  a       b"


def test_on_a_narrow_screen_names_are_folded_and_numbers_are_whole() -> None:
    assert printed(20)[2:] == ["something  1  22,222", "long"]
    assert printed(16, narrow=True)[2:] == ["somethi 1 22,222", "ng long"]


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"a": 1, "b": "x,y"}, {"a": None, "b": "ü"}])
    assert (tmp_path / "t.csv").read_bytes() == 'a,b\r\n1,"x,y"\r\n,ü\r\n'.encode()
    write_json(tmp_path / "t.json", {"a": [1, "ü"]})
    assert json.loads((tmp_path / "t.json").read_text()) == {"a": [1, "ü"]}
    assert (tmp_path / "t.json").read_text().endswith("\n}\n")
    write_text(tmp_path / "t.txt", lambda console: console.print("x" * 30), 20)
    assert (tmp_path / "t.txt").read_text() == "x" * 20 + "\n" + "x" * 10 + "\n"

    def fail(console: Console) -> None:
        console.print("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "t.txt", fail, 20)
    assert (tmp_path / "t.txt").read_text().startswith("xxx")
    assert len(list(tmp_path.iterdir())) == 3
