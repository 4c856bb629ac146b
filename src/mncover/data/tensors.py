"""Safetensors files, read so that whatever is wrong with one is a single error with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import safe_open

from mncover.errors import DataFileError


def read_tensors(path: Path, key: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return the JSON that the metadata of a file has under a key, or None, and all its arrays.

    A missing file is a FileNotFoundError, anything else that is wrong a `DataFileError`.
    """
    try:
        with safe_open(path, framework="np") as file:
            about = (file.metadata() or {}).get(key)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return None if about is None else json.loads(about), arrays
    except FileNotFoundError:
        raise
    except Exception as error:  # such as types that NumPy lacks; it is a library in Rust
        raise DataFileError(f"no usable safetensors: {str(error)[:200]}") from error
