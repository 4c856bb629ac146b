"""JSON in pieces: what `json.dumps` makes of plain values, without all of it in memory at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

AT_ONCE = 4096  # items of a list that are made JSON


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    # Escaped to ASCII: JSON then carries even lone surrogates, which UTF-8 cannot.
    return json.dumps(value).encode("ascii")


def json_pieces(value: Any) -> Iterator[bytes]:
    """Yield a value as JSON; long lists, columns too, are made some items at a time."""
    if isinstance(value, Mapping):
        yield from _joined("{}", (_member(name, one) for name, one in value.items()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        nested = len(value) > 0 and isinstance(value[0], Mapping)
        yield from _joined("[]", map(json_pieces, value) if nested else _items(value))
    else:
        yield json_bytes(value)


def _member(name: str, value: Any) -> Iterator[bytes]:
    yield json_bytes(name) + b": "
    yield from json_pieces(value)


def _items(values: Sequence[Any]) -> Iterator[Iterator[bytes]]:
    for start in range(0, len(values), AT_ONCE):
        yield iter([json_bytes(list(values[start : start + AT_ONCE]))[1:-1]])


def _joined(ends: str, parts: Iterator[Iterator[bytes]]) -> Iterator[bytes]:
    """Put parts between brackets, with commas between them."""
    between = ends[0].encode()
    for part in parts:
        yield between
        yield from part
        between = b", "
    yield ends[1].encode() if between == b", " else ends.encode()
