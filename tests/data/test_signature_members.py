"""Signatures in a data file: they come back, and what is damaged or missing is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.signatures import SignatureSpace
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.ranges import Ranges
from mncover.errors import DataFileError
from tests import tiny
from tests.data.test_datafile import changed, npy, resealed
from tests.engine.test_laws import POOL, TRAIN, fresh

NAMES = [
    f"{part}.{what}" for part in ("middle", "last", "token") for what in ("mean", "components")
]
NAMES += ["low", "high", "reference", "places", "labels"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.mncover"
    fresh().update(POOL[:8]).save(path)
    return path


def space_of(path: Path) -> SignatureSpace:
    space = datafile.read(path).space
    assert space is not None
    return space


def test_signatures_and_their_space_come_back(saved: Path, tmp_path: Path) -> None:
    cov = fresh().update(POOL[:8])
    again = datafile.read(saved)
    np.testing.assert_array_equal(again.table.signatures, cov.data.table.signatures)
    assert cov.data.space is not None
    mine, theirs = cov.data.space.arrays(), space_of(saved).arrays()
    assert sorted(mine) == sorted(theirs) == sorted(NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(mine[name], theirs[name])


def without(*names: str) -> Callable[[dict[str, bytes]], object]:
    """Take members out, and out of the checksums: the file does not know that it had them."""

    def change(members: dict[str, bytes]) -> None:
        head = json.loads(members["header.json"])
        for name in names:
            del members[name]
            del head["checksums"][name]
        members["header.json"] = json.dumps(head).encode()

    return change


def refusal(path: Path) -> str:
    with pytest.raises(DataFileError) as caught:
        datafile.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_part_of_the_space_is_refused_in_one_line(saved: Path, name: str) -> None:
    changed(saved, without(f"space/{name}.npy"))
    assert f"its projection of signatures lacks '{name}'" in refusal(saved)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["shorter", "flat", "scalar"])
def test_a_part_of_another_shape_is_refused_in_one_line(saved: Path, name: str, how: str) -> None:
    whole = space_of(saved).arrays()[name]
    bad: Any = {"shorter": whole[:-1], "flat": whole[None], "scalar": whole.ravel()[0]}[how]
    changed(saved, resealed(f"space/{name}.npy", npy(np.asarray(bad))))
    assert "its projection of signatures does not fit together" in refusal(saved)


@pytest.mark.parametrize("name", ["middle.mean", "reference", "places", "labels", "low"])
def test_a_part_of_words_is_refused_in_one_line(saved: Path, name: str) -> None:
    whole = space_of(saved).arrays()[name]
    changed(saved, resealed(f"space/{name}.npy", npy(np.full(whole.shape, "x"))))
    assert "something but numbers" in refusal(saved)


def signatures(shape: Callable[[int, int], tuple[int, ...]], kind: str = "<f2") -> Any:
    """Return a damage: signatures of a shape that is made from their true one, of a type."""

    def change(members: dict[str, bytes]) -> None:
        size = sum(
            len(np.load(io.BytesIO(members[f"space/{part}.components.npy"])))
            for part in ("middle", "last", "token")
        )
        array = np.zeros(shape(len(json.loads(members["texts.json"])), size), dtype=kind)
        resealed("signatures.npy", npy(array))(members)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (signatures(lambda n, size: (n, size - 1)), "do not fit their projection"),
        (signatures(lambda n, size: (n, size, 1)), "do not fit their projection"),
        (signatures(lambda n, size: (n,)), "do not fit their projection"),
        (signatures(lambda n, size: ()), "do not fit their projection"),
        (signatures(lambda n, size: (n - 1, size)), "signatures in its table have the wrong shape"),
        (signatures(lambda n, size: (n, size), "<f8"), "has the type float64, not <f2"),
        (lambda m: m.update({"signatures.npy": b"x"}), "checksum of signatures.npy"),
        (lambda m: m.pop("signatures.npy"), "damaged"),
        (lambda m: m.pop("space/low.npy"), "damaged"),
    ],
)
def test_signatures_that_do_not_fit_are_refused_in_one_line(
    saved: Path, change: Callable[[dict[str, bytes]], object], message: str
) -> None:
    changed(saved, change)
    assert message in refusal(saved)


def test_a_file_without_signatures_is_read_as_one_that_kept_none(saved: Path) -> None:
    changed(saved, without("signatures.npy", *(f"space/{name}.npy" for name in NAMES)))
    data = datafile.read(saved)
    assert data.space is None
    assert data.table.signatures.shape == (8, 0)
    assert Coverage.load(saved).result() == fresh().update(POOL[:8]).result()


def test_a_cache_of_ranges_whose_space_lacks_something_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNCOVER_CACHE_DIR", str(tmp_path))

    def calibrated() -> Coverage:
        return Coverage(*tiny.make("bert"), max_length=10, progress=False).calibrate(TRAIN)

    calibrated()
    (path,) = tmp_path.rglob("*.safetensors")
    whole = Ranges.load(path).space
    about, arrays = read_tensors(path, "mncover")
    del arrays["space.low"]
    write_tensors(path, "mncover", about, arrays)
    with pytest.raises(DataFileError, match="lacks 'low'"):
        Ranges.load(path)
    calibrated()
    again = Ranges.load(path).space
    assert whole is not None
    assert again is not None
    np.testing.assert_array_equal(again.low, whole.low)
