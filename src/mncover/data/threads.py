"""Work on several maps or members at once; zlib, hashlib and NumPy let other threads run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

# Each holds a map or two, so there are not as many as a large machine has cores.
WORKERS = min(8, os.cpu_count() or 1)

Item = TypeVar("Item")
Made = TypeVar("Made")


def in_threads(function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """Yield what a function makes of each item, in order; a few are made ahead."""
    coming: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(WORKERS, "mncover-data") as pool:
        for item in items:
            coming.append(pool.submit(function, item))
            if len(coming) >= WORKERS:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
