"""A plan: the cases drawn from a suite, and what earlier runs said of all of its cases.

It travels in the first line of the small suite, as text: arrays are packed with zlib and base64.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.limits import ROWS, check_bytes
from mncover.errors import TextError
from mncover.selection.allocation import Earlier
from mncover.selection.forecast import NOISES
from mncover.selection.strata import Drawn
from mncover.suites.model import PLAN_ARRAYS, PLAN_VERSION, Outline, Suite, known_plan


@dataclass(frozen=True)
class Plan:
    """What is needed to estimate the rates of whole tests from the cases drawn.

    `models` are the names of the models of the earlier runs, `classes` their classes, and
    `suite` the fingerprint of the whole suite.
    """

    suite: str
    models: tuple[str, ...]
    classes: tuple[str, ...]
    seed: int
    earlier: Earlier
    drawn: Drawn

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        earlier, drawn = self.earlier, self.drawn
        named = zip(earlier.tests, earlier.sizes.tolist(), strict=True)
        return {
            "version": PLAN_VERSION,
            "suite": self.suite,
            "models": list(self.models),
            "classes": list(self.classes),
            "seed": self.seed,
            "tests": [[name, size] for name, size in named],
            "drawn": _packed(drawn.cases, "<i4"),
            "weights": _packed(drawn.weight, "<i4"),
            "strata": _packed(drawn.stratum, "<i4"),
            "verdicts": _packed(earlier.verdicts, "<i1"),
            "fails": _packed(earlier.fails, "<u1"),
            "judged": _packed(earlier.judged, "<u1"),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        """Make a plan from what `to_json` returned; the value is not trusted."""
        try:
            known_plan(value)
            return cls._read(value)
        except (ValueError, OverflowError, zlib.error) as error:
            raise TextError(
                "the plan of the suite cannot be read; make it again with `mncover plan`."
            ) from error

    @classmethod
    def _read(cls, value: dict[str, Any]) -> Plan:
        names = tuple(name for name, _ in value["tests"])
        sizes = [size for _, size in value["tests"]]
        n, runs = sum(sizes), len(value["models"])
        if not sizes or n > ROWS.value or not runs:
            raise ValueError("sizes")
        # A few kilobytes can stand for as many cases as they like.
        packed = sum(len(value[name]) for name in PLAN_ARRAYS)
        check_bytes(n * runs * (1 + 2 * len(NOISES)), packed, "the plan")
        test = np.repeat(np.arange(len(sizes)), sizes)
        counts = (runs, len(NOISES), n)
        earlier = Earlier(
            names,
            test,
            _unpacked(value["verdicts"], "<i1", (runs, n)).astype(np.int8),
            _unpacked(value["fails"], "<u1", counts).astype(np.uint8),
            _unpacked(value["judged"], "<u1", counts).astype(np.uint8),
        )
        columns = [value[name] for name in ("drawn", "weights", "strata")]
        drawn = Drawn(*(_unpacked(c, "<i4", most=n).astype(np.int64) for c in columns))
        _check(drawn, n)
        models, classes = tuple(value["models"]), tuple(value["classes"])
        return cls(value["suite"], models, classes, value["seed"], earlier, drawn)


def _check(drawn: Drawn, n: int) -> None:
    """Refuse what no draw can give; a checksum says nothing of who made the file."""
    if not len(drawn.cases) == len(drawn.weight) == len(drawn.stratum) > 0:
        raise ValueError("lengths")
    if (np.diff(drawn.cases) <= 0).any() or drawn.cases[0] < 0 or drawn.cases[-1] >= n:
        raise ValueError("cases")
    if drawn.weight.min() < 1 or drawn.weight.sum() != n:
        raise ValueError("weights")
    if drawn.stratum.min() < 0 or drawn.stratum.max() >= n:
        raise ValueError("strata")


def plan_of(found: Suite | Outline) -> Plan | None:
    """Return the plan of a suite, or of the outline of one that was run; None if it has none."""
    if found.plan is None:
        return None
    plan = Plan.from_json(found.plan)
    names = [plan.earlier.tests[number] for number in np.unique(_drawn_tests(plan))]
    cases = sum(map(len, found.cases)) if isinstance(found, Outline) else found.cases
    if names != [test.name for test in found.tests] or cases != len(plan.drawn.cases):
        raise TextError("the plan is one of another suite; make it again with `mncover plan`.")
    return plan


def _drawn_tests(plan: Plan) -> NDArray[np.int64]:
    return plan.earlier.test[plan.drawn.cases]


def _packed(values: NDArray[Any], kind: str) -> str:
    raw = np.ascontiguousarray(values).astype(kind).tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def _unpacked(
    text: str, kind: str, shape: Sequence[int] | None = None, most: int = 0
) -> NDArray[Any]:
    """Return an array of a shape, or one of at most so many numbers."""
    bound = np.dtype(kind).itemsize * (most if shape is None else int(np.prod(shape)))
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(base64.b64decode(text, validate=True), bound + 1)
    if not unpacker.eof or len(raw) > bound:
        raise ValueError("size")
    found = np.frombuffer(raw, dtype=kind)
    return found if shape is None else found.reshape(shape)
