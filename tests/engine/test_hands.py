"""Whatever workers do or suffer, a crew yields every outcome once, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.engine import crew as crews
from mncover.engine.crew import TRIES, _Call, _Hand
from mncover.engine.jobs import Job
from mncover.engine.worker import Note
from mncover.errors import TextError, WorkerError


class RayError(Exception):
    """Stands for a dead worker, or an outcome that is gone."""


class RayTaskError(RayError):
    """Stands for an error of the job itself."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(eq=False)
class Ref:
    """A promise: a value, or an error; `lost` once it was asked for."""

    value: Any = None
    error: Exception | None = None


@dataclass
class FakeRay:
    """Keeps promises at once, in the order that a test draws."""

    draw: Callable[[int], int]
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    )

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], None]:
        """Return one of the promises."""
        return [refs[self.draw(len(refs))]], None

    def get(self, ref: Ref) -> Any:
        """Return what was promised, or raise."""
        if ref.error is not None:
            raise ref.error
        return ref.value


class Process:
    """A worker that squares numbers, joins lists, and dies when the test says so."""

    def __init__(self, dies: Callable[[Any], bool], loses: Callable[[], bool]) -> None:
        self.dies, self.loses, self.dead = dies, loses, False
        self.do = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._do))
        self.join = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._join))

    def _do(self, job: str, state: Any, item: Any, key: int) -> list[Ref]:
        if isinstance(item, Exception):
            return [Ref(error=RayTaskError(item)), Ref()]
        return self._answer(item, [item[1] ** 2])

    def _join(self, job: str, state: Any, *parts: Ref) -> list[Ref]:
        lost = [part for part in parts if part.error is not None]
        if lost:
            return [Ref(error=RayTaskError(RayError("an argument is lost"))), Ref()]
        return self._answer(None, [one for part in parts for one in part.value])

    def _answer(self, item: Any, value: Any) -> list[Ref]:
        self.dead = self.dead or self.dies(item)
        if self.dead:  # and all that it is given later
            return [Ref(error=RayError("the worker died")), Ref(error=RayError("gone"))]
        payload = Ref(error=RayError("gone")) if self.loses() else Ref(value)
        return [Ref(Note(1, ["careful"])), payload]


class Crew:
    """As many workers as wanted; dead ones are replaced."""

    def __init__(self, n: int, born: Callable[[], Process]) -> None:
        self.born, self.keys, self.tally = born, count(), None
        self.hands = [self._hand() for _ in range(n)]

    def _hand(self) -> _Hand:
        return _Hand(self.born(), Ref(1))

    def replace(self, hand: _Hand) -> None:
        """Put a new worker in the place of one that died."""
        self.hands[self.hands.index(hand)] = self._hand()


@pytest.fixture(autouse=True)
def _job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(lambda *what: None, lambda *what: None)
    monkeypatch.setattr(crews, "JOBS", {"square": job})


def called(
    items: list[Any],
    n: int,
    fan: int,
    draw: Callable[[int], int],
    dies: Callable[[Any], bool] = lambda item: False,
    loses: Callable[[], bool] = lambda: False,
) -> tuple[list[int], int]:
    """Return the outcomes of a call, and how many texts were told."""
    told: list[int] = []
    crew: Any = Crew(n, lambda: Process(dies, loses))
    call = _Call(crew, FakeRay(draw), "square", items, None, told.append, fan)
    found = [one for part in call.results() for one in part]
    assert not call.left
    assert not call.to_join
    return found, sum(told)


@given(st.data(), st.integers(0, 30), st.integers(1, 5), st.integers(1, 4))
@settings(deadline=None)
def test_everything_comes_once_and_in_order_whoever_is_first(
    data: st.DataObject, items: int, n: int, fan: int
) -> None:
    def draw(size: int) -> int:
        return data.draw(st.integers(0, size - 1))

    with pytest.warns(UserWarning, match="careful") if items else _nothing():
        found, told = called([(["text"], i) for i in range(items)], n, fan, draw)
    assert found == [i**2 for i in range(items)]
    joins = 0 if fan == 1 else sum(1 for s in range(0, items, fan) if min(fan, items - s) > 1)
    assert told == items + joins


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@given(st.data(), st.integers(1, 20), st.integers(1, 4), st.integers(1, 3))
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore:careful")
def test_deaths_and_losses_change_nothing(
    data: st.DataObject, items: int, n: int, fan: int
) -> None:
    deaths = {i: data.draw(st.integers(0, TRIES - 1)) for i in range(items)}
    losses = [data.draw(st.integers(0, 2 * TRIES - 1))]

    def dies(item: Any) -> bool:
        if item is None or not deaths[item[1]]:
            return False
        deaths[item[1]] -= 1
        return True

    def loses() -> bool:
        losses[0] -= 1
        return losses[0] >= 0 and data.draw(st.booleans())

    def draw(size: int) -> int:
        return data.draw(st.integers(0, size - 1))

    found, _ = called([(["text"], i) for i in range(items)], n, fan, draw, dies, loses)
    assert found == [i**2 for i in range(items)]


@pytest.mark.filterwarnings("ignore:careful")
def test_work_that_kills_every_worker_is_named_with_its_texts() -> None:
    items: list[Any] = [[f"good {i}", f"bad {i}"] for i in range(4)]
    with pytest.raises(WorkerError) as caught:
        called(
            [(texts, i) for i, texts in enumerate(items)],
            2,
            1,
            lambda size: 0,
            dies=lambda item: item[1] == 2,
        )
    blamed = f'{TRIES} workers died of texts 5 to 6, from "good 2" to "bad 2" (the worker died)'
    assert str(caught.value).startswith(blamed)


@pytest.mark.filterwarnings("ignore:careful")
def test_what_can_never_be_fetched_ends_the_call() -> None:
    with pytest.raises(WorkerError, match=r"cannot be fetched \(gone\): do all machines"):
        called([(["text"], 1)], 2, 1, lambda size: 0, loses=lambda: True)


def test_an_error_of_the_job_is_raised_as_it_was() -> None:
    with pytest.raises(TextError, match="line 3"):
        called([TextError("line 3 is bad")], 1, 1, lambda size: 0)
