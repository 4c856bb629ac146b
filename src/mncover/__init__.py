"""mncover: coverage.py for transformers.

The names below are the supported interface. `Coverage`, `Finder` and `Masks` are imported on first
use, because they bring much along and the commands that only read data files must start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mncover.data.prompting import Prompting as Prompting
from mncover.data.results import Result as Result
from mncover.errors import MnCoverError as MnCoverError
from mncover.masks.settings import LearningSettings as LearningSettings
from mncover.types import Settings as Settings
from mncover.types import __version__ as __version__

if TYPE_CHECKING:
    from mncover.coverage import Coverage as Coverage
    from mncover.masks.masks import Masks as Masks
    from mncover.plugins.training import SuiteCallback as SuiteCallback
    from mncover.selection.finder import Finder as Finder

__all__ = [
    "Coverage",
    "Finder",
    "LearningSettings",
    "Masks",
    "MnCoverError",
    "Prompting",
    "Result",
    "Settings",
    "SuiteCallback",
    "__version__",
]

_LATE = {
    "Coverage": "mncover.coverage",
    "Finder": "mncover.selection.finder",
    "Masks": "mncover.masks.masks",
    "SuiteCallback": "mncover.plugins.training",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'mncover' has no attribute {name!r}")
