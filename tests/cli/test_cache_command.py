"""`mncover cache`: what it lists, what it deletes, and what it leaves alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.cli.demo import demo_model
from mncover.data.cache import DAY, entries
from mncover.data.files import cache_folder
from tests.folders import write_material


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cache", *arguments]) == 0
    return capsys.readouterr().out


def test_an_empty_cache_holds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == f"{cache_folder()} holds 0 B.\n"
    assert shown(capsys, "clear") == f"Deleted 0 B from {cache_folder()}.\n"


def test_ranges_are_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_material(tmp_path)
    run = files.run("-q", "-o", str(tmp_path / "run.mncover"))
    assert main(run) == 0
    entry, yardstick = entries()
    assert entry.kind == yardstick.kind == "ranges"
    assert entry.size == entry.path.stat().st_size
    listed = shown(capsys)
    assert "2 layers, 12 tokens, 20 texts" in listed
    assert "what random calibration texts reach" in listed
    assert "today" in listed
    assert max(map(len, listed.splitlines()[:-1])) <= 80
    mine = cache_folder("ranges") / "notes.txt"
    mine.write_text("not mncover's")
    assert "Deleted" in shown(capsys, "clear")
    assert entries() == []
    assert mine.exists()
    assert main(run) == 0  # it is made again


def test_only_what_was_not_used_for_long_is_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_material(tmp_path)
    run = files.run("-q", "-o", str(tmp_path / "run.mncover"))
    assert main(run) == 0
    entry, yardstick = entries()
    old = time.time() - 40 * DAY
    os.utime(entry.path, (old, old))
    assert "40 days ago" in shown(capsys)
    assert main(run) == 0  # it is read, and so not old any more
    assert "Deleted 0 B" in shown(capsys, "clear", "--older-than", "30")
    os.utime(entry.path, (old, old))
    assert shown(capsys, "clear", "--older-than", "41", "--quiet") == ""
    assert len(entries()) == 2
    shown(capsys, "clear", "--older-than", "30")
    assert [one.path for one in entries()] == [yardstick.path]


def test_damaged_and_unfinished_files_and_the_demo_are_listed_and_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = cache_folder("ranges")
    folder.mkdir(parents=True)
    (folder / f"{'0' * 40}.partial").write_bytes(b"half of it")
    (folder / f".{'1' * 40}.safetensors.abc.tmp").write_bytes(b"")
    demo_model()
    listed = shown(capsys)
    assert "unfinished" in listed
    assert "left by a process that ended" in listed
    assert "minilm-sst2" in listed
    shown(capsys, "clear")
    assert entries() == []
    assert not (cache_folder("demo") / "minilm-sst2").exists()
