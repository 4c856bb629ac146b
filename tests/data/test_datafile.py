"""The data file: everything comes back, and nothing bad gets in."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.identity import Run
from mncover.data.store import CoverageData
from mncover.errors import DataFileError, MismatchError
from tests import tiny
from tests.engine.test_laws import POOL, TRAIN, assert_same_data, fresh


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.mncover"
    cov = fresh().update(POOL[:6], context="one", labels=[0, 1, 2, 0, 1, None], gains=True)
    cov.update([("good film", "bad film"), "\ud800 lone surrogate"], context="two [b]")
    cov.save(path)
    return path


def test_a_file_gives_back_everything_that_was_saved(tmp_path: Path) -> None:
    for bins in (10, 40, 200):
        cov = fresh(bins=bins).update(POOL, context=["a", "b", "c"] * 15, gains=True)
        cov.save(tmp_path / "x.mncover")
        again = Coverage.load(tmp_path / "x.mncover")
        assert_same_data(cov, again)
        assert again.data.identity == cov.data.identity
        assert again.data.runs == cov.data.runs
        np.testing.assert_array_equal(again.data.table.probabilities, cov.data.table.probabilities)
        assert again.result() == cov.result()


def test_pairs_and_strange_characters_come_back(saved: Path) -> None:
    texts = Coverage.load(saved).data.table.texts
    assert texts[-2:] == (("good film", "bad film"), "\ud800 lone surrogate")


def test_equal_data_makes_equal_files(saved: Path, tmp_path: Path) -> None:
    datafile.write(datafile.read(saved), tmp_path / "again.mncover")
    assert saved.read_bytes() == (tmp_path / "again.mncover").read_bytes()


def test_a_loaded_file_goes_on_measuring_with_its_model(tmp_path: Path) -> None:
    model, tokenizer = tiny.make("bert")
    first = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN, cache=False)
    first.update(POOL[:5], context="a").save(tmp_path / "x.mncover")
    second = Coverage.load(tmp_path / "x.mncover", model, tokenizer)
    second.calibrate(TRAIN, cache=False).update(POOL[5:9], context="a")
    first.update(POOL[5:9], context="a")
    np.testing.assert_array_equal(first.data.total(), second.data.total())
    assert len(second.data.runs) == 2
    with pytest.raises(MismatchError, match="other ranges"):
        Coverage.load(tmp_path / "x.mncover", model, tokenizer).calibrate(POOL, cache=False)


def test_another_model_or_tokenizer_is_refused(tmp_path: Path) -> None:
    fresh().update(POOL[:2]).save(tmp_path / "x.mncover")
    with pytest.raises(MismatchError, match="another model"):
        Coverage.load(tmp_path / "x.mncover", *tiny.make("bert", seed=1))
    tokenizer = tiny.tokenizer()
    tokenizer.add_tokens(["splendid"])
    with pytest.raises(MismatchError, match="another tokenizer"):
        Coverage.load(tmp_path / "x.mncover", tiny.make("bert")[0], tokenizer)


def test_a_file_without_model_cannot_measure(saved: Path) -> None:
    from mncover.errors import ModelError

    with pytest.raises(ModelError, match="loaded without a model"):
        Coverage.load(saved).update(["good"])


def changed(path: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """Write a copy of a data file whose members went through `change`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def header(**values: Any) -> Callable[[dict[str, bytes]], object]:
    def change(members: dict[str, bytes]) -> None:
        head = json.loads(members["header.json"])
        members["header.json"] = json.dumps({**head, **values}).encode()

    return change


def as_format_3(members: dict[str, bytes]) -> None:
    """Take from a file what the third format did not have."""
    head = json.loads(members["header.json"])
    for name in ("positions", "sites"):
        del head["settings"][name]
    for criterion in head["criteria"]:
        del criterion["layout"]
    members["header.json"] = json.dumps({**head, "version": 3}).encode()


def as_format_2(members: dict[str, bytes]) -> None:
    """Turn a file of Cover alone into one of the second format."""
    as_format_3(members)
    head = json.loads(members["header.json"])
    (cover,) = head.pop("criteria")
    hidden, attention = np.load(io.BytesIO(members.pop("new/cover.npy")))
    unknown = np.full_like(hidden, -1)
    columns = {"hidden": hidden, "attention": attention}
    columns |= {"masked_hidden": unknown, "masked_attention": unknown}
    members |= {f"table/new_{name}.npy": npy(column) for name, column in columns.items()}
    for name in [name for name in members if name.endswith(".cover.bits")]:
        members[name.replace(".cover", "")] = members.pop(name)
    members["header.json"] = json.dumps(
        {**head, "version": 2, "reachable": cover["reachable"], "checksums": sums(members)}
    ).encode()


def as_format_1(members: dict[str, bytes]) -> None:
    """Take from it what the first format did not have."""
    as_format_2(members)
    head = json.loads(members["header.json"])
    for name in ("case", "new_masked_hidden", "new_masked_attention"):
        del members[f"table/{name}.npy"]
        del head["checksums"][f"table/{name}.npy"]
    del head["masks"]
    members["header.json"] = json.dumps({**head, "version": 1}).encode()


def sums(members: dict[str, bytes]) -> dict[str, str]:
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in members.items()
        if name != "header.json"
    }


@pytest.mark.parametrize("change", [as_format_1, as_format_2, as_format_3])
def test_a_file_of_an_earlier_format_is_read_and_written_as_the_present_one(
    saved: Path, change: Callable[[dict[str, bytes]], object]
) -> None:
    now = Coverage.load(saved)
    before = Coverage.load(changed(saved, change))
    assert before.result() == now.result()
    assert (before.data.table["case"] == -1).all()
    assert list(before.data.table.new) == ["cover"]
    before.save(saved)
    assert Coverage.load(saved).result() == now.result()
    assert datafile.read_header(saved)["version"] == 4


def test_a_file_that_the_second_format_wrote_with_masks_has_the_numbers_it_had_then() -> None:
    folder = Path(__file__).parent / "old"
    cov = Coverage.load(folder / "format_2.mncover")
    then, result = json.loads((folder / "format_2.json").read_text()), cov.result()
    assert (result.cover, result.mncover) == (then["cover"], then["mncover"])
    contexts = [
        [c.name, c.cover, c.mncover, c.adds, c.only_here, c.by["mncover"].adds, c.adds_little]
        for c in result.contexts
    ]
    assert contexts == then["contexts"]
    new = cov.data.table.new
    assert new["cover"].tolist() == [then["new"]["new_hidden"], then["new"]["new_attention"]]
    assert new["mncover"].tolist() == [
        then["new"]["new_masked_hidden"],
        then["new"]["new_masked_attention"],
    ]
    heads = [head.covered for site in result.criteria["mncover"].sites for head in site.heads]
    assert heads == then["heads"]


def npy(array: Any, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def resealed(name: str, content: bytes) -> Callable[[dict[str, bytes]], object]:
    """Replace a member and make its checksum right: damage with intent."""

    def change(members: dict[str, bytes]) -> None:
        members[name] = content
        head = json.loads(members["header.json"])
        head["checksums"][name] = hashlib.sha256(content).hexdigest()
        members["header.json"] = json.dumps(head).encode()

    return change


def criterion(**values: Any) -> Callable[[dict[str, bytes]], object]:
    def change(members: dict[str, bytes]) -> None:
        head = json.loads(members["header.json"])
        head["criteria"][0] |= values
        members["header.json"] = json.dumps(head).encode()

    return change


class Bomb:
    def __reduce__(self) -> Any:
        return (print, ("this must never run",))


BAD = {
    "another format": (header(format="zip"), "not an mncover data file"),
    "a newer version": (header(version=5), "newer mncover.*upgrade"),
    "a version that is no number": (header(version="x"), "newer mncover"),
    "no header": (lambda m: m.pop("header.json"), "not an mncover data file"),
    "a header that is no JSON": (lambda m: m.update({"header.json": b"{"}), "damaged"),
    "a header without fields": (
        lambda m: m.update({"header.json": b'{"format": "mncover", "version": 1}'}),
        "damaged",
    ),
    "a missing map": (lambda m: m.pop("maps/00000.cover.bits"), "damaged"),
    "a changed map": (lambda m: m.update({"maps/00000.cover.bits": b"x"}), "checksum of maps"),
    "a changed table": (lambda m: m.update({"table/length.npy": b"x"}), "checksum of table"),
    "a foreign layout": (header(layout={"sites": [], "causal": False}), "list of sites"),
    "a layout of nonsense": (
        header(layout={"sites": [["x", 1]], "causal": 1}),
        "layout.causal must be",
    ),
    "too few reachable counts": (criterion(reachable=[[1]]), "reachable"),
    "a criterion of no cells": (criterion(cells=0), "cells must be a whole number"),
    "a criterion named like a path": (criterion(name="../x"), "list of criteria"),
    "no criteria": (header(criteria=[]), "list of criteria"),
    "new cells of another shape": (
        resealed("new/cover.npy", npy(np.zeros((2, 3), dtype="<i8"))),
        "differ in length",
    ),
    "settings out of range": (header(settings={"bins": 1}), "damaged"),
    "a pickle in the table": (
        resealed("table/length.npy", npy(np.array([Bomb()], dtype=object), pickled=True)),
        "something but numbers",
    ),
    "a column of another type": (
        resealed("table/length.npy", npy(np.zeros(8))),
        "has the type float64",
    ),
    "a column of another length": (
        resealed("table/length.npy", npy(np.zeros(3, dtype="<i4"))),
        "differ in length",
    ),
    "contexts that do not exist": (
        resealed("table/context.npy", npy(np.full(8, 9, dtype="<i4"))),
        "out of range",
    ),
    "texts that are none": (resealed("texts.json", b"[1, 2]"), "holds something else"),
    "probabilities of another shape": (
        resealed("probabilities.npy", npy(np.zeros((8, 1), dtype="<f4"))),
        "do not fit its labels",
    ),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_file_is_refused_in_one_line(
    saved: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = BAD[kind]
    changed(saved, change)
    with pytest.raises(DataFileError, match=message) as caught:
        datafile.read(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)
    assert "never run" not in capsys.readouterr().out


@pytest.mark.parametrize("bits", [b"", b"not zlib"])
def test_a_map_that_cannot_be_unpacked_is_refused(saved: Path, bits: bytes) -> None:
    changed(saved, resealed("maps/00000.cover.bits", bits))
    with pytest.raises(DataFileError, match="coverage map"):
        datafile.read(saved).total()


def test_a_map_that_would_unpack_to_gigabytes_is_refused(saved: Path) -> None:
    import zlib

    changed(saved, resealed("maps/00000.cover.bits", zlib.compress(bytes(50_000_000))))
    with pytest.raises(DataFileError, match="size that its header gives"):
        datafile.read(saved).total()


def test_a_file_cut_short_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:size])
        with pytest.raises(DataFileError, match=r"cut short|damaged"):
            datafile.read(saved)


def test_a_flipped_bit_anywhere_is_refused_or_harmless(saved: Path) -> None:
    expected = datafile.read(saved).total()
    whole = saved.read_bytes()
    refused = 0
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        flipped = bytearray(whole)
        flipped[place] ^= 16
        saved.write_bytes(flipped)
        try:
            np.testing.assert_array_equal(datafile.read(saved).total(), expected)
        except DataFileError:
            refused += 1
    assert refused > 30


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no such data file"):
        datafile.read(tmp_path / "none.mncover")
    with pytest.raises(DataFileError, match="cannot be read"):
        datafile.read(tmp_path)
    with pytest.raises(DataFileError, match="cannot be written"):
        fresh().update(POOL[:1]).save("/proc/nowhere/x.mncover")


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()
    data = datafile.read(saved)

    def fail(*args: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(datafile, "_header", fail)
    with pytest.raises(KeyboardInterrupt):
        datafile.write(data, saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir() if p.name != "cache"] == ["run.mncover"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fresh("bert", bins=12), r"bins \(10 and 12\)"),
        (lambda: fresh("electra"), "the model's weights"),
    ],
)
def test_union_refuses_strangers_and_names_the_difference(
    make: Callable[[], Coverage], message: str
) -> None:
    with pytest.raises(MismatchError, match=message):
        fresh().update(POOL[:1]) | make().update(POOL[:1])


def test_union_refuses_other_ranges_weights_and_lengths() -> None:
    model, tokenizer = tiny.make("bert")

    def made(train: list[str], **options: Any) -> Coverage:
        options = {"max_length": 10, **options}
        return Coverage(model, tokenizer, **options).calibrate(train, cache=False).update(["good"])

    base = made(TRAIN)
    with pytest.raises(MismatchError, match="ranges"):
        base | made(TRAIN[:3])
    with pytest.raises(MismatchError, match=r"max_length \(10 and 9\)"):
        base | made(TRAIN, max_length=9)
    with pytest.raises(MismatchError, match=r"attention_weight \(1.0 and 0.5\)"):
        base | made(TRAIN, attention_weight=0.5)


def test_an_interrupted_run_is_known_by_its_missing_texts() -> None:
    data = CoverageData(fresh().data.identity)
    data.runs.append(Run.start("suite.jsonl", "x", texts=5))
    assert [run.suite for run in data.incomplete] == ["suite.jsonl"]
