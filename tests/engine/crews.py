"""A crew in this process: the jobs, the joining and the order of Ray's, without Ray."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mncover import Coverage
from mncover.data.identity import Run
from mncover.engine import windows
from mncover.engine.engine import Engine
from mncover.engine.jobs import JOBS
from mncover.masks.masks import Masks
from tests import tiny
from tests.masks.test_mncover import random_masks

TRAIN = tiny.texts(40, seed=3)


class InProcess:
    """Does every job with another engine; everything is pickled on its way, as between processes.

    `fan` neighbours are joined where a job allows it.
    """

    def __init__(self, engine: Engine, fan: int = 1) -> None:
        self.engine, self.fan = engine, fan
        self.asked: list[str] = []

    def __call__(
        self,
        engine: Engine,
        job: str,
        items: Sequence[Any],
        advance: Any,
        known: Mapping[int, Any] | None = None,
    ) -> Iterator[Any]:
        """Do a job on every item; none is ever known."""
        assert not known
        self.asked += [job] * len(items)
        self._learn(engine)
        what, fan = JOBS[job], self.fan if JOBS[job].join is not None else 1
        for start in range(0, len(items), fan):
            each = [_sent(item) for item in items[start : start + fan]]
            found = [_sent(what.run(self.engine, item, advance)) for item in each]
            yield found[0] if what.join is None or fan == 1 else what.join(self.engine, found)

    def _learn(self, engine: Engine) -> None:
        if engine.ranges is not None:
            self.engine.use_ranges(_sent(engine.ranges))

    def waiting(self) -> Iterator[tuple[int, Any]]:
        """Nothing waits."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


class Hasty(InProcess):
    """Does every second item first, and is interrupted after some."""

    def __init__(self, engine: Engine, stop: int | None = None) -> None:
        super().__init__(engine)
        self.stop = stop
        self._found: dict[int, Any] = {}

    def __call__(
        self,
        engine: Engine,
        job: str,
        items: Sequence[Any],
        advance: Any,
        known: Mapping[int, Any] | None = None,
    ) -> Iterator[Any]:
        """Do a job on every item that is not known."""
        if job != "record":
            yield from super().__call__(engine, job, items, advance)
            return
        self._learn(engine)
        self._found, taken = dict(known or {}), 0
        left = [n for n in range(len(items)) if n not in self._found]
        for done, number in enumerate(sorted(left, key=lambda n: (n % 2 == 0, n))):
            if done == self.stop:
                raise KeyboardInterrupt
            self.asked.append(job)
            self._found[number] = _sent(JOBS[job].run(self.engine, items[number], advance))
            while taken in self._found:
                yield self._found.pop(taken)
                taken += 1
        while taken in self._found:
            yield self._found.pop(taken)
            taken += 1

    def waiting(self) -> Iterator[tuple[int, Any]]:
        """Yield what is done and was not taken."""
        yield from list(self._found.items())


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut few texts into many shards, and let a run be the same run every time."""
    monkeypatch.setattr(windows, "WINDOW_TEXTS", 16)
    monkeypatch.setattr("mncover.engine.ranges.CHUNK", 8)
    monkeypatch.setattr("mncover.engine.measure.PIECE", 16)
    monkeypatch.setattr(
        Run, "start", lambda *what: Run("run", "2026-01-01", *(what or ("", "", 0)))
    )


def pair_of_coverages(
    name: str, fan: int = 1, masked: bool = False, **options: Any
) -> tuple[Coverage, Coverage, InProcess]:
    """Return a coverage that measures here, one that lets others do it, and these others."""
    model, tokenizer = tiny.make(name)
    masks: Masks | None = random_masks(tokenizer, 1) if masked else None
    options = {"max_length": 12, "masks": masks, **options}
    here, there, other = (Coverage(model, tokenizer, **options) for _ in range(3))
    crew = InProcess(other.engine, fan)
    there.engine.crew = crew
    return here, there, crew


def contents(path: Path) -> bytes:
    return path.read_bytes()
