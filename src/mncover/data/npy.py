"""Arrays as `.npy` members of a file, read so that a stranger's cannot ask for memory it lacks."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mncover.errors import DataFileError


def to_npy(array: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a `.npy` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npy_header(shape: tuple[int, ...], kind: str) -> bytes:
    """Return what stands before the numbers of an array in a `.npy` file."""
    buffer = io.BytesIO()
    about = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


def from_npy(content: bytes) -> NDArray[Any]:
    """Return the array of a `.npy` file; refuse one that is not as large as it says."""
    file = io.BytesIO(content)
    try:
        read = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}
        shape, columns_first, kind = read[npy.read_magic(file)[0]](file)
        if kind.kind not in "biuf":  # not a record of several, nor text, nor objects
            raise ValueError(f"something but numbers: {str(kind)[:20]}")
        if math.prod(shape) * kind.itemsize != len(content) - file.tell():
            raise ValueError("its size is not the one it gives")
    except Exception as error:  # the header is a Python literal, which may be anything
        raise DataFileError(f"an array in it cannot be read ({str(error)[:80]})") from error
    flat = np.frombuffer(content, kind, offset=file.tell())
    whole: NDArray[Any] = flat.reshape(shape, order="F" if columns_first else "C").copy()
    return whole
