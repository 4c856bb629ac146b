"""Byte strings in a temporary file, so that they do not stay in memory.

A few of them do stay: where there is little to keep, no file is made.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from mncover.data.threads import WORKERS
from mncover.data.writing import naming_temporary

IN_MEMORY = 2**16  # bytes of a store that has no file yet

Place = tuple[int, int]  # where a byte string is: offset and size
Blob = Place | Future[Place]


class BlobStore:
    """Keeps byte strings in an unnamed temporary file."""

    def __init__(self) -> None:
        # It lives as long as the store, so there is no `with`.
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="mncover-")  # noqa: SIM115
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[Future[Place]] = deque()

    def put(self, data: bytes) -> Place:
        """Keep a byte string."""
        with self._lock, naming_temporary():
            self._file.seek(0, 2)
            return self._file.tell(), self._file.write(data)

    def put_made(self, make: Callable[[], bytes]) -> Future[Place]:
        """Keep a byte string that is made in the background.

        It waits if many are on their way, since each holds what it is made from.
        """
        self._pool = self._pool or ThreadPoolExecutor(WORKERS, "mncover-pack")
        while len(self._coming) >= WORKERS:
            self._coming.popleft().result()
        self._coming.append(self._pool.submit(lambda: self.put(make())))
        return self._coming[-1]

    def get(self, blob: Blob) -> bytes:
        """Give a byte string back, once it is there."""
        offset, size = blob.result() if isinstance(blob, Future) else blob
        with self._lock, naming_temporary():  # what was written before may only now reach the disk
            self._file.seek(offset)
            return self._file.read(size)
