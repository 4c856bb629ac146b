"""One process of a crew: an engine like that of whoever asks, and the jobs it does."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from mncover.data.signatures import SignatureSpace
from mncover.engine.engine import Engine
from mncover.engine.jobs import JOBS
from mncover.engine.ranges import Ranges

PAUSE = 0.3  # seconds from one telling to the next

Make = Callable[[], Engine]


class State(NamedTuple):
    """What an engine has learnt; `version` tells it from others."""

    version: int
    ranges: Ranges | None
    space: SignatureSpace | None


class Note(NamedTuple):
    """What is said of a job that is done: how many texts it had, and warnings."""

    texts: int
    warnings: Sequence[str]


class Worker:
    """Makes an engine when it is told to get ready, and does one job after the other.

    `threads` are those that it may use, and a batch has at most `tokens`. If somebody is watching,
    there is a `tally`, a process of Ray's.
    """

    def __init__(self, make: Make, threads: int, tokens: int, tally: Any = None) -> None:
        self._make, self._threads, self._tokens, self._tally = make, threads, tokens, tally
        self._engine: Engine | None = None
        self._version = -1

    def ready(self) -> int:
        """Make the engine; return the number of the process."""
        import torch

        torch.set_num_threads(self._threads)
        self._engine = self._make()
        # Batches are cut as the others cut them: other batches may round otherwise.
        self._engine.subject.most_tokens = self._tokens
        return os.getpid()

    def do(self, job: str, state: State, asked: Any, task: int = 0) -> tuple[Note, Any]:
        """Do a job; return what is said of it, and what came of it."""
        texts, told = 0, time.monotonic()

        def advance(n: int) -> None:
            nonlocal texts, told
            texts += n
            if self._tally is not None and time.monotonic() - told > PAUSE:
                told = time.monotonic()
                self._tally.tell.remote(task, texts)

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            found = JOBS[job].run(self._with(state), asked, advance)
        words = [str(one.message) for one in said if issubclass(one.category, UserWarning)]
        return Note(texts, list(dict.fromkeys(words))), found

    def join(self, job: str, state: State, *payloads: Any) -> tuple[Note, Any]:
        """Put what came of neighbours together."""
        join = JOBS[job].join
        assert join is not None
        return Note(0, ()), join(self._with(state), payloads)

    def _with(self, state: State) -> Engine:
        """Return the engine with what others have learnt."""
        assert self._engine is not None
        if self._version != state.version:
            known = deepcopy(state)  # Ray's own arrays cannot be written, which torch dislikes
            if known.space is not None:
                self._engine.use_space(known.space)
            if known.ranges is not None:
                self._engine.use_ranges(known.ranges)
            self._version = state.version
        return self._engine
