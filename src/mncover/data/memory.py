"""Memory that was freed goes back to the system, where the C library can do so."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _trim() -> Callable[[int], Any] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


def give_back() -> None:
    """Give the system what is free.

    glibc keeps what many threads have freed, in pieces between what is in use. Over a long run
    that is more than what is needed. It takes some milliseconds: do it seldom.
    """
    if (trim := _trim()) is not None:
        trim(0)
