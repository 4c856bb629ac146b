"""Columns and texts on disk are what lists of the same items are."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mncover.data import columns, jsonpieces, texts
from mncover.data.columns import Coded, Column, Made, Numbers, Pairs, Parted, taken
from mncover.data.mapped import Pieces, mapped, whole
from mncover.data.texts import Alone, TextFile, first_equal, from_bytes, on_disk, to_bytes
from mncover.types import Text

# Every character, halves of surrogate pairs too, alone or beside each other.
STRINGS = st.text(st.characters(), max_size=6)
TEXTS = st.lists(st.one_of(STRINGS, st.tuples(STRINGS, STRINGS)), max_size=12)
SLICES = st.slices(8)


def check_same(column: Column[Any], items: Sequence[Any], part: slice, seed: int) -> None:
    assert (len(column), list(column)) == (len(items), list(items))
    assert column == list(items)
    assert column[part] == list(items[part])
    for place in range(-len(items), len(items)):
        assert column[place] == items[place]
    with pytest.raises(IndexError):
        column[len(items)]
    rng = random.Random(seed)
    places = np.array([rng.randrange(len(items)) for _ in range(5 if items else 0)], np.int64)
    some, expected = column.taken(places), [items[place] for place in places]
    assert list(some) == expected
    back = np.arange(len(places))[::-1]
    assert list(some.taken(back)) == list(taken(some, back)) == expected[::-1]
    assert pickle.loads(pickle.dumps(some)) == expected


@given(TEXTS, SLICES, st.integers(0, 99), st.sampled_from([1, 3, 10**6]))
def test_texts_on_disk_are_the_texts(
    given_texts: list[Text], part: slice, seed: int, few: int
) -> None:
    with (
        patch.object(columns, "AT_ONCE", few),
        patch.object(texts, "SPAN", few),
        patch.object(texts, "WAITING", few),
    ):
        check_same(on_disk(given_texts), given_texts, part, seed)
        check_same(Alone(on_disk(given_texts)), [[one] for one in given_texts], part, seed)
        check_same(Alone(given_texts), [[one] for one in given_texts], part, seed)
    assert from_bytes(to_bytes(given_texts)) == given_texts


def test_a_file_of_texts_may_grow_after_it_was_read_and_parts_of_it_stay_what_they_were() -> None:
    file = TextFile()
    file.add("one")
    before = file.texts()
    assert list(before) == ["one"]
    file.add(("two", "2"))
    assert (list(before), list(file.texts()), list(file.texts(1))) == (
        ["one"],
        ["one", ("two", "2")],
        [("two", "2")],
    )


@given(
    st.lists(st.sampled_from(["a", "b", 1, 1.0, True, None, "1", (1, "a"), -1]), max_size=12),
    SLICES,
    st.integers(0, 99),
)
def test_a_coded_column_has_its_items_and_tells_equal_ones_of_different_kinds(
    items: list[Any], part: slice, seed: int
) -> None:
    column = Coded[Any].of(items)
    check_same(column, items, part, seed)
    assert list(map(repr, column)) == list(map(repr, items))
    seen: list[str] = list(dict.fromkeys(map(repr, items)))
    assert column.ranks().tolist() == [seen.index(repr(one)) for one in items]
    asked: list[tuple[int, str]] = []

    def number(place: int, item: Any) -> int:
        asked.append((place, repr(item)))
        return 1000 * place

    first = [list(map(repr, items)).index(one) for one in seen]
    assert list(column.mapped(number)) == [1000 * first[seen.index(repr(one))] for one in items]
    assert asked == list(zip(first, seen, strict=True))


def test_what_has_no_hash_or_does_not_equal_itself_can_be_coded() -> None:
    column = Coded[Any].of([[1], {"a": 2}, [1], math.nan, math.nan])
    assert (column[:3], len(column.values)) == ([[1], {"a": 2}, [1]], 3)
    assert all(math.isnan(one) for one in column[3:])


@given(st.lists(st.integers(-9, 300), max_size=12), SLICES, st.integers(0, 99))
def test_numbers_pairs_and_what_is_made_are_what_they_say(
    items: list[int], part: slice, seed: int
) -> None:
    check_same(Numbers(np.array(items, np.int64)), items, part, seed)
    check_same(Made(len(items), items.__getitem__), items, part, seed)
    both = list(zip(items, map(str, items), strict=True))
    names = list(map(str, items))
    check_same(Pairs(items, names), both, part, seed)
    check_same(Pairs(Numbers(np.array(items, np.int64)), Coded.of(names)), both, part, seed)
    assert np.asarray(Numbers(items), np.int64).tolist() == items
    assert list(Numbers.same(7, 3)) == [7, 7, 7]
    assert list(Coded.same("x", 2)) == ["x", "x"]


@given(TEXTS, st.integers(0, 3))
def test_the_first_equal_text_is_the_one_that_a_dictionary_finds(
    given_texts: list[Text], times: int
) -> None:
    every, first = given_texts * times, dict[Text, int]()
    assert first_equal(every).tolist() == [first.setdefault(t, n) for n, t in enumerate(every)]


def test_a_pair_and_its_parts_put_together_differ() -> None:
    assert first_equal([("a", "b"), "ab", ("ab", ""), ("", "ab"), "ab"]).tolist() == [0, 1, 2, 3, 1]


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-3, 300), STRINGS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=7), st.dictionaries(STRINGS, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES, st.lists(st.dictionaries(STRINGS, VALUES, max_size=2), max_size=3))
def test_json_in_pieces_is_json(value: Any, objects: list[Any]) -> None:
    with patch.object(jsonpieces, "AT_ONCE", 2):
        for one in (value, objects, {"tests": objects, "plan": value}):
            assert b"".join(jsonpieces.json_pieces(one)) == json.dumps(one).encode()
        assert b"".join(jsonpieces.json_pieces(range(5))) == b"[0, 1, 2, 3, 4]"
        assert b"".join(jsonpieces.json_pieces(Numbers([3, 4, 5]))) == b"[3, 4, 5]"


@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=8),
    SLICES,
    st.lists(st.integers(0, 99), max_size=8),
)
def test_parts_of_an_array_are_the_arrays(
    parts: list[list[int]], part: slice, chosen: list[int]
) -> None:
    flat = np.array([one for values in parts for one in values], np.int64)
    column = Parted.of(flat, [len(values) for values in parts])
    assert [one.tolist() for one in column] == parts
    assert [one.tolist() for one in column[part]] == parts[part]
    assert column.sizes.tolist() == [len(values) for values in parts]
    places = [place % len(parts) for place in chosen] if parts else []
    some, expected = column.taken(places), [parts[place] for place in places]
    assert [one.tolist() for one in some] == expected
    assert some.values.tolist() == [one for values in expected for one in values]
    assert [one.tolist() for one in some.taken(range(len(places))[::-1])] == expected[::-1]


KINDS = st.sampled_from(["|b1", "<f2", "<f4", "<i8"])
SHAPES = st.sampled_from([(0,), (3,), (2, 0), (2, 5), (4, 3)])


@given(st.lists(st.tuples(KINDS, SHAPES), max_size=5), st.integers(1, 4), st.integers(0, 99))
def test_mapped_arrays_are_those_that_came_in_pieces(
    given_arrays: list[tuple[str, tuple[int, ...]]], rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [(rng.random(shape) * 9).astype(kind) for kind, shape in given_arrays]

    def pieces(array: NDArray[Any]) -> Pieces:
        cut = [array[start : start + rows] for start in range(0, len(array), rows)]
        return Pieces(array.shape, array.dtype.str, cut)

    found = mapped((str(n), pieces(array)) for n, array in enumerate(arrays))
    assert list(found) == [str(n) for n in range(len(arrays))]
    for array, one in zip(arrays, found.values(), strict=True):
        assert (one.dtype, one.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(one, array)
        if array.size:
            np.testing.assert_array_equal(whole(pieces(array)), array)
            one[...] = 1  # in memory alone, so the others stay
            assert (one == 1).all()
    again = mapped([("a", pieces(arrays[0]))] if arrays else [])
    for one in again.values():
        np.testing.assert_array_equal(one, arrays[0])
        assert pickle.loads(pickle.dumps(one)).tolist() == arrays[0].tolist()


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner)),
    max_leaves=6,
)


@given(
    st.lists(VALUES, max_size=6),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.sampled_from(["", " \n"]),
    st.integers(1, 40),
)
def test_items_of_json_in_chunks_are_those_of_the_whole(
    values: list[Any], plain: bool, indent: int | None, white: str, size: int
) -> None:
    text = white + json.dumps(values, indent=indent, ensure_ascii=plain) + white
    content = text.encode("utf-8", "surrogatepass")
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    assert list(jsonpieces.each_item(chunks)) == values == json.loads(content)


@pytest.mark.parametrize(
    "content",
    ["", " ", "{}", '"a"', "[", "[1", "[1,", "[1,]", "[1 2]", '["a]', "[1]]", "[1] 2", "[x]", "]"],
)
@pytest.mark.parametrize("size", [1, 99])
def test_json_that_is_no_list_is_refused_wherever_it_is_cut(content: str, size: int) -> None:
    chunks = [content[start : start + size].encode() for start in range(0, len(content), size)]
    with pytest.raises(ValueError, match=r"list|JSON|Expecting"):
        list(jsonpieces.each_item(chunks))


def test_a_long_item_is_not_tried_with_every_chunk() -> None:
    text, size, tried = json.dumps(["a" * 10**6]), 100, []
    decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, s: str, idx: int = 0) -> Any:
        tried.append(len(s))
        return decode(self, s, idx)

    chunks = (text[start : start + size].encode() for start in range(0, len(text), size))
    with patch.object(json.JSONDecoder, "raw_decode", counted):
        assert list(jsonpieces.each_item(chunks)) == ["a" * 10**6]
    assert sum(tried) < 6 * len(text)
