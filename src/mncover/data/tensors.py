"""Safetensors files with a header and a checksum; whatever is wrong with one is a single error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from mncover.data.writing import replacing
from mncover.errors import DataFileError

CHECKSUM = "sha256"


def write_tensors(
    path: Path, key: str, about: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays with a header under a key, in it a checksum of both; replace the file."""
    whole = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    header = json.dumps({**about, CHECKSUM: _digest(about, whole)})
    # Not with the library's own function, which leaves files of its own behind if it is killed.
    content = save(whole, {key: header})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(
    path: Path, key: str, checksum: bool = False
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return the JSON that the metadata of a file has under a key, or None, and all its arrays.

    A missing file is a FileNotFoundError, anything else that is wrong a `DataFileError`. With
    `checksum` the file must have one.
    """
    try:
        with safe_open(path, framework="np") as file:
            header = (file.metadata() or {}).get(key)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = None if header is None else json.loads(header)
        digest = about.pop(CHECKSUM, None) if isinstance(about, dict) else None
        if (checksum or digest is not None) and digest != _digest(about, arrays):
            raise ValueError("its checksum is not that of its content")
        return about, arrays
    except FileNotFoundError:
        raise
    except Exception as error:  # such as types that NumPy lacks; it is a library in Rust
        raise DataFileError(f"no usable safetensors: {str(error)[:200]}") from error


def _digest(about: Any, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of names, types, shapes and numbers."""
    digest = hashlib.sha256(json.dumps(about).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
