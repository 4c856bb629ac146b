"""A flipped bit or a cut in a file that is read back is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from mncover.data.files import load_json, save_json
from mncover.data.tensors import read_tensors, write_tensors
from mncover.errors import DataFileError


def damaged(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw))
    if rng.random() < 0.2:
        return raw[:place]
    return raw[:place] + bytes([raw[place] ^ (1 << rng.randrange(8))]) + raw[place + 1 :]


def test_damaged_tensors_are_refused_or_the_same(tmp_path: Path) -> None:
    path, rng = tmp_path / "a", random.Random(0)
    arrays = {"low": np.arange(40, dtype=np.float32), "step": np.array(3.0)}
    write_tensors(path, "mncover", {"texts": 7}, arrays)
    raw = path.read_bytes()
    for _ in range(400):
        path.write_bytes(damaged(raw, rng))
        try:
            about, found = read_tensors(path, "mncover", checksum=True)
        except DataFileError:
            continue
        assert about == {"texts": 7}
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_tensors_without_a_checksum_are_read_only_where_none_is_needed(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "a"
    save_file({"a": np.zeros(2)}, path, {"mncover": '{"texts": 7}'})
    assert read_tensors(path, "mncover")[0] == {"texts": 7}
    with pytest.raises(DataFileError, match="checksum"):
        read_tensors(path, "mncover", checksum=True)


def test_damaged_states_are_refused_or_the_same(tmp_path: Path) -> None:
    path, rng = tmp_path / "a", random.Random(0)
    state = {"seed": 12, "texts": ["good", "bad"]}
    save_json(path, {"a": 1}, state)
    raw = path.read_bytes()
    for _ in range(400):
        path.write_bytes(damaged(raw, rng))
        try:
            assert load_json(path, {"a": 1}) == state
        except DataFileError:
            continue
    assert load_json(tmp_path / "none", {"a": 1}) is None
