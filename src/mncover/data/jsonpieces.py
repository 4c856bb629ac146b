"""JSON in pieces: what `json.dumps` makes of plain values, without all of it in memory at once."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

AT_ONCE = 4096  # items of a list that are made JSON
_WHITE = re.compile(r"[ \t\n\r]*")


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


def each_item(chunks: Iterable[bytes]) -> Iterator[Any]:
    """Yield the items of a list in JSON that comes in chunks; few are in memory at a time.

    >>> list(each_item([b'["one", ["t', b'wo", 3]]']))
    ['one', ['two', 3]]
    """
    coming = _Coming(chunks)
    if coming.next() != "[":
        raise ValueError("not a list")
    coming.skip()
    mark = "," if coming.text[coming.at] != "]" else coming.next()
    while mark == ",":
        yield coming.item()
        mark = coming.next()
    if mark != "]" or not coming.is_over():
        raise ValueError("not a list")


class _Coming:
    """JSON that comes in chunks; what was taken of it is forgotten."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        # surrogatepass: what json.loads does with bytes.
        decoder = getincrementaldecoder("utf-8")("surrogatepass")
        self._chunks = map(decoder.decode, chunks)
        self._decode = json.JSONDecoder().raw_decode
        self.text, self.at = "", 0

    def next(self) -> str:
        """Take the next character that is not white."""
        self.skip()
        self.at += 1
        return self.text[self.at - 1]

    def skip(self) -> None:
        """Go to the next character that is not white."""
        while not self._is_at_one():
            self._more()

    def item(self) -> Any:
        """Take the next value; something must come after it, if only the end of its list."""
        self.skip()
        while True:
            try:
                value, end = self._decode(self.text, self.at)
            except json.JSONDecodeError:
                end = len(self.text)
            if end < len(self.text):
                self.at = end
                return value
            self._more()

    def is_over(self) -> bool:
        """Return whether nothing follows."""
        return not self._is_at_one() and not any(part.strip(" \t\n\r") for part in self._chunks)

    def _is_at_one(self) -> bool:
        found = _WHITE.match(self.text, self.at)
        assert found is not None  # it may be empty
        self.at = found.end()
        return self.at < len(self.text)

    def _more(self) -> None:
        """Get more than is left: so a long value is not tried too often."""
        left = self.text[self.at :]
        pieces = [left]
        for chunk in self._chunks:
            pieces.append(chunk)
            if sum(map(len, pieces)) > 2 * len(left):
                break
        self.text, self.at = "".join(pieces), 0
        if len(self.text) == len(left):
            raise ValueError("a list without an end")
