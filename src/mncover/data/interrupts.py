"""Ctrl-C, and a request to end, at a moment that leaves work whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def held_back() -> Iterator[None]:
    """Let signals wait for the end of this block, which should be short."""
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, Handler] = {}

    def take(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    try:
        if threading.current_thread() is threading.main_thread():  # others get no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    before[number] = handler
                    signal.signal(number, take)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    for one, frame in came[:1]:
        before[one](one, frame)
