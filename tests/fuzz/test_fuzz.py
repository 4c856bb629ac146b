"""A few hundred damaged files of every kind: each is read or refused, soon and in little memory."""

from __future__ import annotations

import contextlib
import faulthandler
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.data.schema import Each, Maybe, Number, OneOf, Whole, check_shape
from mncover.errors import MnCoverError, SchemaError
from mncover.suites.formats import is_test_suite, load_suite, read_texts
from mncover.suites.formats.safepickle import load_inert
from tests.fuzz.harness import Kind, fuzz, run_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.mutations import damaged_bytes

CASES = 60


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    found = fuzz(kind, tmp_path / "fuzz", 0, max(4, round(CASES / kind.cost)))
    assert not found.faults, found.summary


def _crash(path: Path) -> None:
    if path.read_bytes() != b"sound":
        faulthandler.disable()  # pytest's would print a traceback
        os.abort()


def _fill(path: Path) -> None:
    if path.read_bytes() != b"sound":
        bytearray(3 * 2**30)


def _say_much(path: Path) -> None:
    if path.read_bytes() != b"sound":
        raise MnCoverError("x" * 501)


def _made(folder: Path) -> list[Path]:
    (folder / "a").write_bytes(b"sound")
    return [folder / "a"]


@pytest.mark.parametrize(("read", "fault"), [(_crash, "ended with -6"), (_fill, "MemoryError")])
def test_the_harness_notices_what_it_is_for(read: object, fault: str, tmp_path: Path) -> None:
    kind = Kind(_made, read, [damaged_bytes])  # type: ignore[arg-type]
    found = fuzz(kind, tmp_path / "fuzz", 0, 3)
    assert found.cases == 3
    assert fault in next(iter(found.faults.values()))


def test_no_message_is_longer_than_500_characters(tmp_path: Path) -> None:
    kind = Kind(_made, _say_much, [])
    assert run_case(kind, tmp_path / "a", b"other") == "refused"
    with pytest.raises(MnCoverError) as caught:
        raise MnCoverError("start " + "x" * 10**7 + " end")
    assert len(str(caught.value)) == 500
    assert str(caught.value).startswith("start x")
    assert str(caught.value).endswith("x end")


@settings(max_examples=150)
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".txt", ".csv", ".tsv", ".jsonl"]))
def test_texts_of_any_bytes(
    content: bytes, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(MnCoverError):
        read_texts(path)
        if is_test_suite(path):
            load_suite(path)


@settings(max_examples=200)
@given(st.binary(max_size=100))
def test_a_pickle_of_any_bytes_is_refused(content: bytes) -> None:
    with pytest.raises(MnCoverError):
        load_inert(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
SHAPES = [str, bool, int, float, list, Whole(0, 9), Number(0, 1), OneOf(("a", "b"))]
SHAPES += [[int], (str, int), {"a": str, "b": Maybe(int)}, Each(float), Maybe([str])]


@given(VALUES, st.sampled_from(SHAPES))
def test_a_shape_refuses_only_by_its_own_error(value: object, shape: object) -> None:
    with contextlib.suppress(SchemaError):
        check_shape(value, shape, "value")
