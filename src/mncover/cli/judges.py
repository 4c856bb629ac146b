"""Finds the function by which the user judges answers: `mncover run --judge MODULE:NAME`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from mncover.data.prompting import Judge
from mncover.errors import SettingsError


def judge_named(name: str) -> Judge:
    """Import a function by the name that was typed; modules of the working folder come first."""
    module, _, attribute = name.partition(":")
    module = module.removesuffix(".py")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise SettingsError(f"--judge is MODULE:NAME, such as checks:is_right, got {name!r}.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:  # it is the user's own file, and may do anything
        why = f"{type(error).__name__}: {error}"
        raise SettingsError(f"--judge {name}: cannot be imported ({why}).") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise SettingsError(f"--judge {name}: {module!r} has no function {attribute!r}.")
    return found  # type: ignore[no-any-return]
