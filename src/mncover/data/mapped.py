"""Arrays in a temporary file that is mapped into memory: the system keeps what is in use."""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.writing import naming_temporary

ALIGNED = 64  # bytes: where an array may begin


class Pieces(NamedTuple):
    """An array that comes piece by piece, in the order of its memory."""

    shape: tuple[int, ...]
    kind: str
    pieces: Iterable[NDArray[Any]]


def mapped(arrays: Iterable[tuple[str, Pieces]]) -> dict[str, NDArray[Any]]:
    """Return arrays by name; they are written to an unnamed file, which goes when they do.

    They are taken one after the other. Whoever changes one changes it in memory alone.
    """
    places: dict[str, tuple[int, tuple[int, ...], str]] = {}
    # The file is closed below, but stays as long as it is mapped.
    with naming_temporary(), tempfile.TemporaryFile(prefix="mncover-") as file:
        for name, (shape, kind, pieces) in arrays:
            file.write(bytes(-file.tell() % ALIGNED))
            places[name] = file.tell(), shape, kind
            for piece in pieces:
                file.write(piece.astype(kind, copy=False).tobytes())
        file.write(b"\0")  # an empty file cannot be mapped
        file.flush()
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return {
        name: np.frombuffer(content, kind, math.prod(shape), start).reshape(shape)
        for name, (start, shape, kind) in places.items()
    }


def whole(one: Pieces) -> NDArray[Any]:
    """Return an array in memory."""
    pieces = [piece.reshape(-1) for piece in one.pieces]
    return np.concatenate(pieces).astype(one.kind, copy=False).reshape(one.shape)
