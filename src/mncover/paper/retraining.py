"""The numbers and the report of Table 4: what does training on an augmented set gain?

Each way to augment is an arm. All arms are trained with the same seeds and judged on the same
texts, so they are compared pair by pair. No torch here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.report.screen import Screen
from mncover.report.tables import plain_table, write_csv, write_json, write_text
from mncover.types import display_percent

NONE, RANDOM = "none", "random"
DRAWS, CHUNK = 5000, 500  # of the bootstrap: in total, and at a time
WIDTH = 110

# The paper's test accuracies in percent, the first without augmentation, and the number of texts
# it added.
PAPER = {"sst2": (90.22, 90.45, 90.41), "qqp": (90.91, 90.96, 91.03)}
PAPER_TEXTS = {"sst2": 6541, "qqp": 14005}
# What a record's fields mean; accuracies and their differences are from 0 to 1.
_FILE = Path(__file__).with_name("retraining_fields.json")
FIELDS: dict[str, str] = json.loads(_FILE.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to augment: the number of texts added, and what the models trained on it got right.

    `correct` is [seeds, test texts], `perturbed` is [seeds, perturbed texts], perhaps without any
    texts.
    """

    name: str
    texts: int
    correct: NDArray[np.bool_]
    perturbed: NDArray[np.bool_]


class Estimate(NamedTuple):
    """Mean accuracy over seeds, and half of its 95 % interval; None with a single seed."""

    mean: float
    half: float | None


class Difference(NamedTuple):
    """Accuracy of an arm minus that of another, with a 95 % interval by bootstrap.

    `not_above` is the share of bootstrap draws in which the arm is not better.
    """

    mean: float
    low: float
    high: float
    not_above: float


class Row(NamedTuple):
    """An arm's row of the table; accuracies are from 0 to 1."""

    task: str
    arm: Arm
    accuracy: Estimate
    to_none: Difference | None
    to_random: Difference | None
    perturbed: Estimate | None
    perturbed_to_none: Difference | None


def rows_of(task: str, arms: Sequence[Arm], seed: int = 0) -> list[Row]:
    """Return the table's rows; `seed` is that of the bootstrap."""
    by_name = {arm.name: arm for arm in arms}

    def less(arm: Arm, name: str, texts: str = "correct") -> Difference | None:
        mine, other = getattr(arm, texts), by_name.get(name)
        if other is None or arm.name in (NONE, name) or not mine.size:
            return None
        return difference(mine, getattr(other, texts), seed=seed)

    rows = []
    for arm in arms:
        plain = (estimate(arm.correct), less(arm, NONE), less(arm, RANDOM))
        perturbed = estimate(arm.perturbed) if arm.perturbed.size else None
        rows.append(Row(task, arm, *plain, perturbed, less(arm, NONE, "perturbed")))
    return rows


def estimate(correct: NDArray[np.bool_]) -> Estimate:
    """Return the mean accuracy of [seeds, texts], with a t-interval over seeds.

    The interval says how much training again would change the accuracy on the same texts.
    """
    from scipy.stats import t  # late: it is slow to import

    accuracies, n, half = correct.mean(axis=1), len(correct), None
    if n > 1:
        half = float(t.ppf(0.975, n - 1)) * float(accuracies.std(ddof=1)) / math.sqrt(n)
    return Estimate(float(accuracies.mean()), half)


def difference(
    a: NDArray[np.bool_], b: NDArray[np.bool_], draws: int = DRAWS, seed: int = 0
) -> Difference:
    """Return by how much `a` beats `b`, both [seeds, texts] of the same seeds and texts.

    A bootstrap draw takes as many seeds, and as many texts, as there are, with replacement; the
    drawn texts are the same for all its seeds. With a single seed only the texts vary.
    """
    values = a.astype(np.int64) - b
    seeds, texts = values.shape
    # Texts on which the arms differ in the same way are interchangeable: drawing the number of
    # each kind is enough, and there are few kinds.
    kinds, counts = np.unique(values, axis=1, return_counts=True)
    random = np.random.default_rng(seed)
    sums = np.empty(draws)
    for start in range(0, draws, CHUNK):  # in chunks, to save memory
        some = slice(start, min(start + CHUNK, draws))
        size = some.stop - some.start
        drawn_seeds = random.multinomial(seeds, np.full(seeds, 1 / seeds), size)
        drawn_texts = random.multinomial(texts, counts / texts, size)
        # Integers, so that a draw without a difference is exactly 0; as floats, for speed.
        sums[some] = ((drawn_seeds @ kinds.astype(np.float64)) * drawn_texts).sum(axis=1)
    found = sums / (seeds * texts)
    low, high = np.quantile(found, [0.025, 0.975]).tolist()
    return Difference(float(values.sum() / values.size), low, high, float((found <= 0).mean()))


def record(row: Row) -> dict[str, Any]:
    """Return a row as plain values with the names in `FIELDS`; None where there is no value."""
    arm, unknown = row.arm, (None,) * 4
    plain = (row.task, arm.name, arm.texts, *arm.correct.shape, *row.accuracy)
    differences = (*(row.to_none or unknown), *(row.to_random or unknown))
    perturbed = (arm.perturbed.shape[1], *(row.perturbed or unknown[:2]))
    values = (*plain, *differences, *perturbed, *(row.perturbed_to_none or unknown))
    return dict(zip(FIELDS, values, strict=True))


def write_retraining(
    task: str, arms: Sequence[Arm], settings: Mapping[str, Any], folder: Path, quiet: bool = False
) -> list[Row]:
    """Write the table as text, CSV and JSON to a folder, print it, and return its rows.

    `settings` are those of the training, as plain values.
    """
    rows = rows_of(task, arms)
    write_json(folder / "retraining.json", to_json(rows, settings))
    write_csv(folder / "retraining.csv", [record(row) for row in rows])
    write_text(folder / "retraining.txt", partial(print_retraining, rows, settings), WIDTH)
    console = Screen(quiet=quiet)
    console.width = max(console.width, WIDTH)  # on a narrow terminal, wrapping beats cropping
    print_retraining(rows, settings, console)
    return rows


def print_retraining(rows: Sequence[Row], settings: Mapping[str, Any], console: Console) -> None:
    """Print the table, and below it how to read it."""
    console.print(retraining_table(rows))
    console.print()
    for line in notes(rows, settings):
        console.print(line, markup=False, highlight=False)


def retraining_table(rows: Sequence[Row]) -> Table:
    """Return the arms side by side, in percent; intervals are below their differences."""
    differences = ("difference\nto none", "difference\nto random")
    perturbed = ("perturbed\naccuracy", "difference\nto none")
    columns = ("texts\nadded", "test\naccuracy", *differences, *perturbed)
    table = plain_table("trained\nwith", *columns, narrow=True)
    for _, arm, *found in rows:
        table.add_row(Text(arm.name), f"{arm.texts:,}", *(_cell(one) for one in found))
    return table


def _cell(found: Estimate | Difference | None) -> Text:
    if found is None:
        return Text("-")
    if isinstance(found, Difference):
        return Text(f"{_points(found.mean)}\n[{_points(found.low)}, {_points(found.high)}]")
    half = "" if found.half is None else f" ± {100 * found.half:.2f}"
    return Text(display_percent(found.mean) + half)


def _points(value: float) -> str:
    """Return a difference in percentage points, with a sign unless it is 0."""
    shown = f"{100 * value:+.2f}"
    return "0.00" if shown in ("+0.00", "-0.00") else shown


def notes(rows: Sequence[Row], settings: Mapping[str, Any]) -> list[str]:
    """Return what readers of the table need to know."""
    arm, task = rows[0].arm, rows[0].task
    seeds, texts = arm.correct.shape
    lines = [
        f"{task}: {seeds} seeds, {texts:,} test texts, {arm.perturbed.shape[1]:,} perturbed texts. "
        "± is the 95 % interval over seeds; in brackets are 95 % intervals of the paired "
        "difference, by bootstrap over seeds and texts.",
        "All were trained for equally many epochs, so those with more texts for more steps.",
    ]
    if settings.get("steps") is not None or settings.get("equal_steps"):
        lines[1] = "All were trained for equally many steps."
    if task in PAPER:
        without, *others = (f"{value:.2f} %" for value in PAPER[task])
        reached = f"{without} without and {' and '.join(others)}"
        more = f"{PAPER_TEXTS[task]:,} texts more"
        lines.append(f"The paper, with another model: {reached} with {more}.")
    return lines


def to_json(rows: Sequence[Row], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table as plain values, what its fields mean, and the accuracies seed by seed."""

    def by_seed(arm: Arm) -> dict[str, list[float] | None]:
        found = {"accuracy": arm.correct, "perturbed_accuracy": arm.perturbed}
        return {name: x.mean(axis=1).tolist() if x.size else None for name, x in found.items()}

    return {
        "settings": dict(settings),
        "fields": {name: meaning for name, meaning in FIELDS.items() if meaning},
        "rows": [record(row) for row in rows],
        "by_seed": {row.arm.name: by_seed(row.arm) for row in rows},
    }
