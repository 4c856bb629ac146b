"""Byte strings in a temporary file, so that they do not stay in memory."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from mncover.data.threads import WORKERS
from mncover.data.writing import naming_temporary

Place = tuple[int, int]  # where a byte string is: offset and size
Blob = Place | Future[Place]


class BlobStore:
    """Keeps byte strings in an unnamed temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mncover-")  # noqa: SIM115 (lives as long as the store)
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[Future[Place]] = deque()

    def put(self, data: bytes) -> Place:
        """Keep a byte string."""
        with self._lock, naming_temporary():
            offset = self._file.seek(0, 2)
            return offset, self._file.write(data)

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
        with self._lock:
            self._file.seek(offset)
            return self._file.read(size)
