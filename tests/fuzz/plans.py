"""Plans, in small suites and in the data files of their runs: how they are damaged and read."""

from __future__ import annotations

import base64
import json
import random
import shutil
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mncover.cli import main
from mncover.selection.estimates import estimates_from
from mncover.selection.planfile import plan_of
from mncover.suites.expectations import Answers
from mncover.suites.formats import load_suite
from mncover.suites.judging import judge_suite
from mncover.suites.model import PLAN_ARRAYS, Suite
from mncover.suites.seal import check_classes, sealed
from tests.fuzz import samples
from tests.fuzz.mutations import damaged_bytes, damaged_value, with_members

LABELS = ("LABEL_0", "LABEL_1", "LABEL_2")


@cache
def planned() -> Path:
    """Return a plan, made by the command; the data file of its run lies beside it."""
    made = samples.material()
    path = made.folder / "plan.jsonl"
    old = str(made.folder / "run.mncover")
    assert main(["plan", old, "--budget", "50%", "-o", str(path), "-q"]) == 0
    run = replace(made, suite=path).run("-o", str(path.with_suffix(".mncover")), "-q")
    assert main(run) == 0
    return path


@cache
def _suite() -> Suite:
    return load_suite(planned())


def write_plan(path: Path) -> None:
    shutil.copy(planned(), path)


def write_run(path: Path) -> None:
    shutil.copy(planned().with_suffix(".mncover"), path)


def damaged_plan(content: bytes, rng: random.Random) -> bytes:
    """Damage the plan of a suite, and seal it again so that it is looked at."""
    first, _, rest = content.partition(b"\n")
    header = json.loads(first)
    plan = _damaged(header["plan"], rng)
    again = replace(_suite(), plan=plan) if isinstance(plan, dict) else None
    header["plan"] = plan if again is None else sealed(again)
    return json.dumps(header).encode("ascii") + b"\n" + rest


def damaged_plan_of_run(content: bytes, rng: random.Random) -> bytes:
    """Damage the plan in a data file, and correct the checksum."""

    def damage(members: dict[str, bytes]) -> str:
        suites = json.loads(members["suites.json"])
        one = rng.choice(list(suites))
        suites[one]["plan"] = _damaged(suites[one]["plan"], rng)
        members["suites.json"] = json.dumps(suites).encode("ascii")
        return "suites.json"

    return with_members(content, damage, rng)


def _damaged(plan: dict[str, Any], rng: random.Random) -> Any:
    if rng.random() < 0.5:
        return damaged_value(plan, rng)
    name = rng.choice(PLAN_ARRAYS)
    raw = zlib.decompress(base64.b64decode(plan[name]))
    if rng.random() < 0.5:  # other numbers, but as many
        changed = bytearray(raw)
        changed[rng.randrange(len(raw))] = rng.choice((0, 1, 2, 127, 128, 255))
        raw = bytes(changed)
    else:
        raw = damaged_bytes(raw, rng)
    return plan | {name: base64.b64encode(zlib.compress(raw)).decode("ascii")}


def read_plan(path: Path) -> None:
    """Read a plan as `suite judge` and `run` do."""
    found = load_suite(path)
    check_classes(found, LABELS)
    known = plan_of(found)
    if known is not None:
        shares = np.random.default_rng(0).dirichlet(np.ones(3), found.texts)
        answers = Answers(shares.argmax(axis=1), shares)
        estimates_from(known, judge_suite(found, answers))
