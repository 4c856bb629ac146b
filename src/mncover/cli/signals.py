"""Ctrl-C, and a request to end: one line and an exit code, whenever they come.

Libraries that are interrupted while they are imported or compile raise whatever they like, or print
that they ignored an exception. What counts is that a signal came.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mncover.report.screen import tell

WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}


@contextmanager
def watching() -> Iterator[list[int]]:
    """Yield a list of the signals that came; the first raises KeyboardInterrupt, as Ctrl-C does.

    So what leaves a checkpoint on Ctrl-C leaves one, too, when a machine is shut down.
    """
    came: list[int] = []

    def take(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    def ignored(about: Any) -> None:
        if not came:
            hook(about)

    hook, before = sys.unraisablehook, {}
    if threading.current_thread() is threading.main_thread():
        for number in WORDS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, take)
    sys.unraisablehook = ignored
    try:
        yield came
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupted(came: list[int]) -> int:
    """Say which signal came, and return the exit code for it."""
    number = came[0] if came else signal.SIGINT
    tell(WORDS[signal.Signals(number)])
    return 128 + number
