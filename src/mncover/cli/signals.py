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
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from mncover.report.screen import tell

WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}


@dataclass(slots=True)
class Watch:
    """The signals that came, and whether the command is over, so that they change nothing."""

    came: list[int] = field(default_factory=list)
    over: bool = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self.came.append(number)
        if not self.over:
            raise KeyboardInterrupt


@contextmanager
def watching() -> Iterator[Watch]:
    """Yield what is known of signals; until the end each raises KeyboardInterrupt, as Ctrl-C does.

    So what leaves a checkpoint on Ctrl-C leaves one, too, when a machine is shut down.
    """
    watch = Watch()

    def ignored(about: Any) -> None:
        if not watch.came:
            hook(about)

    hook, before = sys.unraisablehook, {}
    if threading.current_thread() is threading.main_thread():
        for number in WORDS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, watch.take)
    sys.unraisablehook = ignored
    try:
        yield watch
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupted(watch: Watch) -> int:
    """Say which signal came first, and return the exit code for it."""
    watch.over = True
    number = watch.came[0] if watch.came else signal.SIGINT
    tell(WORDS[signal.Signals(number)])
    return 128 + number
