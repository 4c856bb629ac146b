"""Workers that share the texts of a job: handed out as they become free, taken back in order.

Outcomes wait in Ray's own memory until it is their turn, so whoever asks holds one at a time. With
many workers neighbours are joined by a worker first. A worker that dies costs what it had not
finished, which others do again; nothing is counted before it is taken.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from mncover.data.memory import give_back
from mncover.engine.asked import texts_of
from mncover.engine.cluster import Cluster, Spread
from mncover.engine.jobs import JOBS
from mncover.engine.worker import Make, State, Worker
from mncover.errors import MnCoverError, WorkerError
from mncover.report.progress import is_shown
from mncover.types import shorten

AT_ONCE = 2  # jobs that a worker has: one that it does, and one that waits
TRIES = 3  # workers that may die of a job
FAN = 4  # one outcome is taken for every so many workers
MOST_JOINED = 16
PATIENCE = 60  # seconds without any worker

Advance = Callable[[int], None]


class _Task(NamedTuple):
    """A job, or the joining of several: the numbers of its items, and where Ray puts the rest."""

    key: int
    numbers: range
    joins: bool
    note: Any
    payload: Any


@dataclass(eq=False)
class _Hand:
    """A worker: the process, when it is ready, and what it was given, the oldest first."""

    process: Any
    birth: Any
    tasks: deque[_Task] = field(default_factory=deque)


class Crew:
    """Workers with engines like the one that is given; started when they are first needed.

    `make` makes such an engine in another process.
    """

    def __init__(self, make: Make, spread: Spread) -> None:
        self.make, self.spread = make, spread
        self.hands: list[_Hand] = []
        self.cluster: Cluster | None = None
        self.tally: Any = None  # if somebody is watching
        self.keys = count()
        self._made: Any = None
        self._tokens = 0
        self._state: tuple[State, Any] | None = None
        self._finalizer: Any = None
        self._call: _Call | None = None

    def __call__(
        self,
        engine: Any,
        job: str,
        items: Sequence[Any],
        advance: Advance,
        known: Mapping[int, Any] | None = None,
    ) -> Iterator[Any]:
        """Do a job on every item; yield what comes of them, or of neighbours together, in order.

        `known` has what came of some items before, by their number.
        """
        if not items:
            return iter(())
        cluster = self._started(engine)
        state = self._known(engine, cluster.ray)
        fan = 1 if JOBS[job].join is None else min(MOST_JOINED, cluster.workers // FAN)
        call = _Call(self, cluster.ray, job, items, state, advance, max(1, fan))
        for number, payload in (known or {}).items():
            call.know(number, cluster.ray.put(payload))
        self._call = call
        return call.results()

    def waiting(self) -> Iterator[tuple[int, Any]]:
        """Yield what the last call has done and not taken, with the number of its item."""
        return iter(()) if self._call is None else self._call.waiting()

    def close(self) -> None:
        """End the workers; they start again if they are needed."""
        if self._finalizer is not None:
            self._finalizer()
            self.cluster = self._state = self._finalizer = self._call = None

    def _started(self, engine: Any) -> Cluster:
        if self.cluster is None:
            import torch

            device = engine.subject.device.type
            self.cluster = Cluster(self.spread, torch.get_num_threads(), device == "cuda")
            self._tokens = engine.subject.limits(engine.batch_size)[1]
            self._made = self.cluster.ray.put(self.make)
            self.tally = self.cluster.tally() if is_shown(engine.progress) else None
            self.hands = [self._born() for _ in range(self.cluster.workers)]
            self._finalizer = weakref.finalize(self, _end, self.cluster, self.hands)
        return self.cluster

    def _born(self) -> _Hand:
        assert self.cluster is not None
        what = self._made, self.cluster.threads, self._tokens, self.tally
        process = self.cluster.actor(Worker, *what)
        return _Hand(process, process.ready.remote())

    def replace(self, hand: _Hand) -> None:
        """Put a new worker in the place of one that died."""
        self.hands[self.hands.index(hand)] = self._born()

    def _known(self, engine: Any, ray: Any) -> Any:
        """Return where the workers find what the engine has learnt."""
        ranges, space = engine.ranges, engine.space
        before = None if self._state is None else self._state[0]
        if before is None or before.ranges is not ranges or before.space is not space:
            state = State(0 if before is None else before.version + 1, ranges, space)
            self._state = state, ray.put(state)
        assert self._state is not None
        return self._state[1]


def _end(cluster: Cluster, hands: list[_Hand]) -> None:
    """End workers; they may be gone already."""
    if cluster.ray.is_initialized():
        for hand in hands:
            cluster.ray.kill(hand.process)
    hands.clear()
    cluster.leave()


class _Call:
    """One job over many items: what is left, what is under way, and what waits for its turn."""

    def __init__(
        self,
        crew: Crew,
        ray: Any,
        job: str,
        items: Sequence[Any],
        state: Any,
        advance: Advance,
        fan: int,
    ) -> None:
        self.crew, self.ray, self.job, self.items = crew, ray, job, items
        self.state, self.advance, self.fan = state, advance, fan
        self.left = deque(range(len(items)))
        self.to_join: deque[range] = deque()
        self.done: dict[int, Any] = {}  # where what came of an item is
        self.joined: dict[int, Any] = {}  # the same of several, by the first
        self.next = 0
        self.alone: set[int] = set()  # items whose neighbours could not be joined with them
        self.deaths: Counter[range] = Counter()
        self.losses: Counter[range] = Counter()
        self.births = 0  # that failed, one after the other
        self.said: set[str] = set()
        self.texts = self.shown = 0  # that are done, and that were told
        self.alone_since = time.monotonic()  # since when no worker is there
        for hand in crew.hands:
            hand.tasks.clear()  # of a call that was broken off

    def results(self) -> Iterator[Any]:
        """Yield everything in order."""
        while self.next < len(self.items):
            self._hand_out()
            self._wait()
            self._show()
            yield from self._taken()

    def know(self, number: int, payload: Any) -> None:
        """Take what came of an item before; it is not done again."""
        self.left.remove(number)
        self.texts += len(texts_of(self.items[number]))
        self._put_aside(number, payload)

    def waiting(self) -> Iterator[tuple[int, Any]]:
        """Yield what is done and was not taken yet; what a lost machine had is passed over."""
        for number, payload in sorted(self.done.items()):
            with suppress(self.ray.exceptions.RayError):
                yield number, self._get(payload)

    # Out.

    def _hand_out(self) -> None:
        """Give every worker that is ready something to do, the one that has least first."""
        ready = [hand for hand in self.crew.hands if hand.birth is None]
        for _ in range(AT_ONCE):
            for hand in sorted(ready, key=lambda one: len(one.tasks)):
                if len(hand.tasks) < AT_ONCE and not self._give(hand):
                    return

    def _give(self, hand: _Hand) -> bool:
        """Give a worker the next task; return whether there was one."""
        key = next(self.crew.keys)
        if self.to_join:
            numbers, joins = self.to_join.popleft(), True
            task = hand.process.join.options(num_returns=2)
            refs = task.remote(self.job, self.state, *(self.done[n] for n in numbers))
        elif self.left and self.left[0] < self.next + self._ahead:
            number, joins = self.left.popleft(), False
            numbers = range(number, number + 1)
            task = hand.process.do.options(num_returns=2)
            refs = task.remote(self.job, self.state, self.items[number], key)
        else:
            return False
        hand.tasks.append(_Task(key, numbers, joins, *refs))
        return True

    @property
    def _ahead(self) -> int:
        """How far work may be ahead of what was taken: the slowest must not let memory fill."""
        return 2 * AT_ONCE * len(self.crew.hands) + self.fan

    # Back.

    def _wait(self) -> None:
        """Wait until a worker is born, done, or dead."""
        births = {hand.birth: hand for hand in self.crew.hands if hand.birth is not None}
        notes = {hand.tasks[0].note: hand for hand in self.crew.hands if hand.tasks}
        ready, _ = self.ray.wait([*births, *notes], num_returns=1, timeout=1.0)
        for ref in ready:
            if ref in births:
                self._take_birth(births[ref])
            else:
                self._take_note(notes[ref])
        if any(hand.birth is None for hand in self.crew.hands):
            self.alone_since = time.monotonic()
        elif time.monotonic() - self.alone_since > PATIENCE:
            self._say("No worker is ready yet: is there a free place for one in the cluster?")

    def _show(self) -> None:
        """Tell how many texts are done, those of tasks that are under way included."""
        under_way = 0
        if self.crew.tally is not None:
            told = self.ray.get(self.crew.tally.so_far.remote())
            under_way = sum(
                told.get(hand.tasks[0].key, 0) for hand in self.crew.hands if hand.tasks
            )
        if self.texts + under_way > self.shown:
            self.advance(self.texts + under_way - self.shown)
            self.shown = self.texts + under_way

    def _say(self, words: str) -> None:
        """Warn once."""
        if words not in self.said:
            self.said.add(words)
            warnings.warn(words, stacklevel=2)

    def _take_birth(self, hand: _Hand) -> None:
        try:
            self._get(hand.birth)
            hand.birth, self.births = None, 0
        except self.ray.exceptions.RayError as error:
            self.births += 1
            if self.births >= TRIES * len(self.crew.hands):
                raise WorkerError(f"no worker can be started ({_first_line(error)}).") from error
            self.crew.replace(hand)

    def _take_note(self, hand: _Hand) -> None:
        task = hand.tasks[0]
        try:
            note = self._get(task.note)
        except self.ray.exceptions.RayError as error:
            self._lost(hand, error)
            return
        hand.tasks.popleft()
        self.texts += note.texts
        for words in note.warnings:
            self._say(words)
        if task.joins:
            self.joined[task.numbers.start] = task.payload
        else:
            self._put_aside(task.numbers.start, task.payload)

    def _put_aside(self, number: int, payload: Any) -> None:
        """Keep where an outcome is; if it is the last of its neighbours, let them be joined."""
        self.done[number] = payload
        group = self._group(number)
        if len(group) == 1:
            self.joined[number] = payload
        elif all(n in self.done for n in group):
            self.to_join.append(group)

    def _group(self, number: int) -> range:
        """Return the neighbours that are taken together."""
        if number in self.alone:
            return range(number, number + 1)
        start = number - number % self.fan
        return range(start, min(start + self.fan, len(self.items)))

    def _get(self, ref: Any) -> Any:
        """Fetch something; an error of the job itself is raised as it was."""
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, self.ray.exceptions.RayError):  # such as a lost argument
                raise error.cause from None
            if isinstance(error.cause, MnCoverError):
                raise error.cause from None
            raise

    def _lost(self, hand: _Hand, error: Exception) -> None:
        """Take the work of a dead worker back; refuse work that kills every worker."""
        oldest = hand.tasks[0]
        self.deaths[oldest.numbers] += 1
        if self.deaths[oldest.numbers] >= TRIES and not oldest.joins:
            raise WorkerError(self._blame(oldest.numbers, error)) from error
        for task in hand.tasks:
            if task.joins:  # what it was to join may be gone, or too large: take it as it comes
                self.alone.update(task.numbers)
            self._again(task.numbers)
        hand.tasks.clear()
        self.crew.replace(hand)

    def _blame(self, numbers: range, error: Exception) -> str:
        texts = [text for number in numbers for text in texts_of(self.items[number])]
        before = sum(len(texts_of(self.items[number])) for number in range(numbers.start))
        which = f'texts {before + 1:,} to {before + len(texts):,}, from "{shorten(texts[0])}"'
        return (
            f'{TRIES} workers died of {which} to "{shorten(texts[-1])}" ({_first_line(error)}): '
            "leave them out, or give a worker more memory with fewer `workers`."
        )

    def _again(self, numbers: range) -> None:
        """Let items be done again, before all others."""
        for number in reversed(numbers):
            self.done.pop(number, None)
            self.left.appendleft(number)
        self.left = deque(sorted(self.left))

    def _taken(self) -> Iterator[Any]:
        """Yield what is there and next."""
        while self.next in self.joined:
            group = self._group(self.next)
            try:
                found = self._get(self.joined.pop(self.next))
            except self.ray.exceptions.RayError as error:  # its machine is gone, and it with it
                self.losses[group] += 1
                if self.losses[group] >= 2 * TRIES:  # or it cannot be read, and never can
                    why = f"what workers send cannot be fetched ({_first_line(error)}): "
                    where = "do all machines have the same mncover?"
                    raise WorkerError(why + where) from error
                self._again(group)
                return
            for number in group:
                self.done.pop(number, None)
            self.next = group.stop
            yield found
            del found
            give_back()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".:")
