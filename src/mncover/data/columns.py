"""Columns: sequences whose items are made when they are asked for, from numbers, or few values.

A slice of a column is a list; what `taken` returns is again a column. Suites and training sets are
read into columns, with their texts on disk (`texts.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Item = TypeVar("Item")
Other = TypeVar("Other")
Places = NDArray[np.integer[Any]]

AT_ONCE = 512  # items that are made together when somebody goes through a column


class Column(Sequence[Item]):
    """A read-only sequence; it equals any sequence of the same items."""

    @abstractmethod
    def at(self, places: Places) -> list[Item]:
        """Return the items at some places, none of which is negative."""

    def taken(self, places: ArrayLike) -> Column[Item]:
        """Return the items at some places, in their order, as a column."""
        return Taken(self, small(places))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return self.at(np.arange(*index.indices(len(self))))
        return self.at(np.array([range(len(self))[index]]))[0]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), AT_ONCE):
            yield from self.at(np.arange(start, min(start + AT_ONCE, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = ", …" if len(self) > 3 else ""
        return f"<{len(self):,}: {', '.join(map(repr, self[:3]))}{more}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # a file that is open cannot be sent


def _equal(one: object, other: object) -> bool:
    return bool(one == other)


class Taken(Column[Item]):
    """Some items of another column, in some order."""

    def __init__(self, column: Column[Item], places: Places) -> None:
        self.column, self.places = column, places

    def __len__(self) -> int:
        return len(self.places)

    def at(self, places: Places) -> list[Item]:
        """Return the items at some places."""
        return self.column.at(self.places[places])

    def taken(self, places: ArrayLike) -> Column[Item]:
        """Return the items at some places, as a column."""
        return Taken(self.column, self.places[np.asarray(places)])


class Numbers(Column[int]):
    """Whole numbers in an array."""

    def __init__(self, values: ArrayLike) -> None:
        self.values: Places = np.asarray(values)

    @classmethod
    def same(cls, value: int, n: int) -> Numbers:
        """Return one number n times, which takes no room."""
        return cls(np.broadcast_to(np.int64(value), (n,)))

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def at(self, places: Places) -> list[int]:
        """Return the numbers at some places."""
        return cast("list[int]", self.values[places].tolist())

    def taken(self, places: ArrayLike) -> Numbers:
        """Return the numbers at some places, as a column."""
        return Numbers(self.values[np.asarray(places)])


class Coded(Column[Item]):
    """Items of which many are equal: each different one once, and a number for each item."""

    def __init__(self, values: Sequence[Item], codes: ArrayLike) -> None:
        self.values = tuple(values)
        self.codes: Places = np.asarray(codes)

    @classmethod
    def same(cls, value: Item, n: int) -> Coded[Item]:
        """Return one item n times, which takes no room."""
        return cls((value,), np.broadcast_to(np.uint8(0), (n,)))

    @classmethod
    def of(cls, items: Iterable[Item]) -> Coded[Item]:
        """Return items as a column."""
        if isinstance(items, Coded):
            return items
        coder = Coder[Item]()
        for item in items:
            coder.add(item)
        return coder.column()

    def __len__(self) -> int:
        return len(self.codes)

    def at(self, places: Places) -> list[Item]:
        """Return the items at some places."""
        return [self.values[code] for code in self.codes[places].tolist()]

    def taken(self, places: ArrayLike) -> Coded[Item]:
        """Return the items at some places, as a column."""
        return Coded(self.values, self.codes[np.asarray(places)])

    def mapped(self, make: Callable[[int, Item], int]) -> Numbers:
        """Return a number for each item, made of its first place and itself."""
        found = np.zeros(len(self.values), np.int32)
        for code, place in self._firsts():
            found[code] = make(place, self.values[code])
        few = found.min(initial=0) >= -128 and found.max(initial=0) < 128
        return Numbers((found.astype(np.int8) if few else found)[self.codes])

    def ranks(self) -> Places:
        """Return for each item how many different ones occur before it first does."""
        found = np.zeros(len(self.values), self.codes.dtype)
        found[[code for code, _ in self._firsts()]] = np.arange(len(np.unique(self.codes)))
        return found[self.codes]

    def _firsts(self) -> list[tuple[int, int]]:
        """Return every code that occurs with its first place, in the order of these."""
        codes, places = np.unique(self.codes, return_index=True)
        order = np.argsort(places)
        return list(zip(codes[order].tolist(), places[order].tolist(), strict=True))


class Coder(Generic[Item]):
    """Makes a `Coded` column, item by item."""

    def __init__(self) -> None:
        self._values: list[Item] = []
        self._known: dict[Any, int] = {}
        self._codes = array("i")

    def add(self, item: Item) -> None:
        """Add an item to the end."""
        # 1, 1.0 and True are equal, but not the same; lists have no hash.
        key = type(item), item if type(item) is str else repr(item), getattr(item, "names", None)
        code = self._known.setdefault(key, len(self._values))
        if code == len(self._values):
            self._values.append(item)
        self._codes.append(code)

    def column(self) -> Coded[Item]:
        """Return what was added so far."""
        codes = np.array(self._codes, np.min_scalar_type(len(self._values)))
        return Coded(self._values, codes)


class Pairs(Column[tuple[Item, Other]]):
    """The items of two sequences that are equally long, two by two."""

    def __init__(self, first: Sequence[Item], second: Sequence[Other]) -> None:
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first)

    def at(self, places: Places) -> list[tuple[Item, Other]]:
        """Return the pairs at some places."""
        each = at_places(self.first, places), at_places(self.second, places)
        return list(zip(*each, strict=True))


def at_places(items: Sequence[Item], places: Places) -> list[Item]:
    """Return the items at some places as a list."""
    return items.at(places) if isinstance(items, Column) else [items[i] for i in places.tolist()]


class Parted(Column[NDArray[np.int64]]):
    """Arrays that follow each other in one; `ends` says where each begins and ends."""

    def __init__(self, values: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.values, self.ends = values, ends

    @classmethod
    def of(cls, values: NDArray[np.int64], sizes: ArrayLike) -> Parted:
        """Return arrays of the given sizes."""
        return cls(values, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How long each is."""
        return np.diff(self.ends)

    def at(self, places: Places) -> list[NDArray[np.int64]]:
        """Return the arrays at some places."""
        each = zip(self.ends[places].tolist(), self.ends[places + 1].tolist(), strict=True)
        return [self.values[start:end] for start, end in each]

    def taken(self, places: ArrayLike) -> Parted:
        """Return the arrays at some places, as a column."""
        chosen = np.asarray(places, np.int64)
        sizes = self.sizes[chosen]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Parted.of(self.values[np.repeat(self.ends[chosen], sizes) + within], sizes)


class Made(Column[Item]):
    """Items that a function makes of their places."""

    def __init__(self, n: int, make: Callable[[int], Item]) -> None:
        self.n, self.make = n, make

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        return map(self.make, range(self.n))  # one at a time: they may be large

    def at(self, places: Places) -> list[Item]:
        """Return the items at some places."""
        return [self.make(place) for place in places.tolist()]


def taken(items: Sequence[Item], places: Places) -> Sequence[Item]:
    """Return the items at some places: of a column a column, of a list a list."""
    if isinstance(items, Column):
        return items.taken(places)
    if isinstance(items, range):
        return cast("Sequence[Item]", Numbers(np.asarray(items)[places]))
    return [items[place] for place in places.tolist()]


def small(numbers: ArrayLike) -> Places:
    """Return whole numbers from 0 on in as few bytes as they need."""
    values: Places = np.asarray(numbers, None if np.size(numbers) else np.int64)
    return values.astype(np.int32, copy=False) if values.max(initial=0) < 2**31 else values
