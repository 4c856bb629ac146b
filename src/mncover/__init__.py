"""mncover: coverage.py for transformers.

The names below are the supported interface. `Coverage` is imported on first use, because it
brings torch along and the commands that only read data files must start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mncover.errors import MnCoverError as MnCoverError
from mncover.results import Result as Result
from mncover.settings import Settings as Settings
from mncover.version import __version__ as __version__

if TYPE_CHECKING:
    from mncover.coverage import Coverage as Coverage

__all__ = ["Coverage", "MnCoverError", "Result", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Coverage":
        from mncover.coverage import Coverage

        return Coverage
    raise AttributeError(f"module 'mncover' has no attribute {name!r}")
