"""What the parts of a file must look like, said as data, and a check that is made at the door.

A shape is a type (`str`, `int`, `float`, `bool`, `list`), a `Whole`, `Number` or `OneOf`, a list of
one shape for lists of any length, a tuple of shapes for lists of that length, a dictionary for
objects with these names (others are left alone), `Each` for objects with any names, or `Maybe` of
any of these, for what may be null or missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mncover.errors import SchemaError
from mncover.types import brief

BIG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = BIG


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number from `low` to `high`."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these strings."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """A shape, or null, or nothing at all."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Each:
    """An object with any names, whose values all have one shape."""

    shape: Any


_TYPES = {str: "text", bool: "true or false", list: "a list"}


def check_shape(value: Any, shape: Any, where: str) -> None:
    """Refuse a value that does not have the shape; `where` says where it stands.

    >>> check_shape({"a": [1, 2]}, {"a": [Whole(0, 1)]}, "header")
    Traceback (most recent call last):
    ...
    mncover.errors.SchemaError: header.a[1] must be a whole number from 0 to 1, got 2
    """
    if isinstance(shape, Maybe):
        if value is not None:
            check_shape(value, shape.shape, where)
    elif isinstance(shape, list | tuple):
        _check_list(value, shape, where)
    elif isinstance(shape, dict | Each):
        _check_object(value, shape, where)
    else:
        _check_plain(value, shape, where)


def _check_object(value: Any, shape: dict[str, Any] | Each, where: str) -> None:
    _require(type(value) is dict, value, where, "an object")
    if isinstance(shape, Each):
        shape = dict.fromkeys(value, shape.shape)
    for name, inner in shape.items():
        if name not in value and not isinstance(inner, Maybe):
            raise SchemaError(f"{where} has no '{name}'")
        check_shape(value.get(name), inner, f"{where}.{name[:40]}")


def _check_list(value: Any, shape: list[Any] | tuple[Any, ...], where: str) -> None:
    _require(type(value) is list, value, where, "a list")
    if isinstance(shape, tuple):
        _require(len(value) == len(shape), value, where, f"a list of {len(shape)}")
    shapes = shape if isinstance(shape, tuple) else shape * len(value)
    for number, (one, inner) in enumerate(zip(value, shapes, strict=True)):
        check_shape(one, inner, f"{where}[{number}]")


def _check_plain(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, OneOf):
        fits = type(value) is str and value in shape.names
        _require(fits, value, where, f"one of {', '.join(shape.names)}")
    elif shape is int or isinstance(shape, Whole):
        limits = shape if isinstance(shape, Whole) else Whole(-BIG, BIG)
        fits = type(value) is int and limits.low <= value <= limits.high
        between = "" if limits.high == BIG else f" to {limits.high}"
        _require(fits, value, where, f"a whole number from {limits.low}{between}")
    elif shape is float or isinstance(shape, Number):
        bounds = shape if isinstance(shape, Number) else Number()
        _require(_is_number(value, bounds), value, where, "a number, and in range")
    else:
        _require(type(value) is shape, value, where, _TYPES[shape])


def _is_number(value: Any, limits: Number) -> bool:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
        return math.isfinite(number) and limits.low <= number <= limits.high
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _require(fits: bool, value: Any, where: str, what: str) -> None:
    if not fits:
        raise SchemaError(f"{where} must be {what}, got {brief(value, 40)}")
