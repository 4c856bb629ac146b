"""A crew in this process: the jobs, the joining and the order of Ray's, without Ray."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from mncover.engine.engine import Engine
from mncover.engine.jobs import JOBS


class InProcess:
    """Does every job with another engine; everything is pickled on its way, as between processes.

    `fan` neighbours are joined where a job allows it.
    """

    def __init__(self, engine: Engine, fan: int = 1) -> None:
        self.engine, self.fan = engine, fan
        self.asked: list[str] = []

    def __call__(
        self, engine: Engine, job: str, items: Sequence[Any], advance: Any
    ) -> Iterator[Any]:
        """Do a job on every item."""
        self.asked += [job] * len(items)
        if engine.ranges is not None:
            self.engine.use_ranges(pickle.loads(pickle.dumps(engine.ranges)))
        what, fan = JOBS[job], self.fan if JOBS[job].join is not None else 1
        for start in range(0, len(items), fan):
            each = [_sent(item) for item in items[start : start + fan]]
            found = [_sent(what.run(self.engine, item, advance)) for item in each]
            yield found[0] if what.join is None or fan == 1 else what.join(self.engine, found)

    def close(self) -> None:
        """Nothing is open."""


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
