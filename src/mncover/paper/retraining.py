"""The numbers and the report of Table 4: what does training on an augmented set gain?

Each way to augment is an arm. All arms are trained with the same seeds and judged on the same
texts, so they are compared pair by pair. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.data.display import display_percent
from mncover.report.tables import plain_table, write_csv, write_json, write_text

NONE, RANDOM = "none", "random"
DRAWS, CHUNK = 5000, 500  # of the bootstrap: in total, and at a time
WIDTH = 110

# The paper's test accuracies in percent, the first without augmentation, and the number of texts
# it added.
PAPER = {"sst2": (90.22, 90.45, 90.41), "qqp": (90.91, 90.96, 91.03)}
PAPER_TEXTS = {"sst2": 6541, "qqp": 14005}


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean accuracy over seeds, and half of its 95 % interval; None with a single seed."""

    mean: float
    half: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy of an arm minus that of another, with a 95 % interval by bootstrap.

    `not_above` is the share of bootstrap draws in which the arm is not better.
    """

    mean: float
    low: float
    high: float
    not_above: float


@dataclass(frozen=True, slots=True)
class Row:
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

    def less(arm: Arm, name: str, perturbed: bool = False) -> Difference | None:
        other = by_name.get(name)
        if other is None or arm.name in (NONE, name):
            return None
        pair = (arm.perturbed, other.perturbed) if perturbed else (arm.correct, other.correct)
        return difference(*pair, seed=seed) if pair[0].size else None

    return [
        Row(
            task,
            arm,
            estimate(arm.correct),
            less(arm, NONE),
            less(arm, RANDOM),
            estimate(arm.perturbed) if arm.perturbed.size else None,
            less(arm, NONE, perturbed=True),
        )
        for arm in arms
    ]


def estimate(correct: NDArray[np.bool_]) -> Estimate:
    """Return the mean accuracy of [seeds, texts], with a t-interval over seeds.

    The interval says how much training again would change the accuracy on the same texts.
    """
    from scipy.stats import t  # late: it is slow to import

    accuracies = correct.mean(axis=1)
    n = len(accuracies)
    if n < 2:
        return Estimate(float(accuracies.mean()), None)
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
    low, high = np.quantile(found, [0.025, 0.975])
    return Difference(
        float(values.sum() / values.size), float(low), float(high), float((found <= 0).mean())
    )


# What a record's fields mean; accuracies and their differences are from 0 to 1.
FIELDS = {
    "task": "name of the task",
    "arm": "how the training texts were augmented: none, random, cover or mncover",
    "texts_added": "number of texts added to the training texts",
    "seeds": "number of models trained, each with its own seed",
    "test_texts": "number of test texts",
    "accuracy": "share of test texts classified rightly, mean over seeds",
    "accuracy_half_width": "half of its 95 % t-interval over seeds; empty with one seed",
    "minus_none": "accuracy less that of the arm none, paired by seed and text",
    "minus_none_low": "lower end of its 95 % interval: bootstrap over seeds and texts",
    "minus_none_high": "upper end of that interval",
    "minus_none_not_above": "share of bootstrap draws in which the difference is not above 0",
    "minus_random": "accuracy less that of the arm random, and so on as above",
    "minus_random_low": "",
    "minus_random_high": "",
    "minus_random_not_above": "",
    "perturbed_texts": "number of perturbed test texts",
    "perturbed_accuracy": "share of perturbed test texts classified rightly, mean over seeds",
    "perturbed_half_width": "half of its 95 % t-interval over seeds; empty with one seed",
    "perturbed_minus_none": "accuracy on perturbed texts less that of none, and so on as above",
    "perturbed_minus_none_low": "",
    "perturbed_minus_none_high": "",
    "perturbed_minus_none_not_above": "",
}


def record(row: Row) -> dict[str, Any]:
    """Return a row as plain values with the names in `FIELDS`; None where there is no value."""
    arm, perturbed = row.arm, row.perturbed
    return {
        "task": row.task,
        "arm": arm.name,
        "texts_added": arm.texts,
        "seeds": arm.correct.shape[0],
        "test_texts": arm.correct.shape[1],
        "accuracy": row.accuracy.mean,
        "accuracy_half_width": row.accuracy.half,
        **_flat("minus_none", row.to_none),
        **_flat("minus_random", row.to_random),
        "perturbed_texts": arm.perturbed.shape[1],
        "perturbed_accuracy": perturbed and perturbed.mean,
        "perturbed_half_width": perturbed and perturbed.half,
        **_flat("perturbed_minus_none", row.perturbed_to_none),
    }


def _flat(name: str, found: Difference | None) -> dict[str, float | None]:
    ends = (None,) * 4 if found is None else (found.mean, found.low, found.high, found.not_above)
    names = (name, f"{name}_low", f"{name}_high", f"{name}_not_above")
    return dict(zip(names, ends, strict=True))


def write_retraining(
    task: str, arms: Sequence[Arm], settings: Mapping[str, Any], folder: Path, quiet: bool = False
) -> list[Row]:
    """Write the table as text, CSV and JSON to a folder, print it, and return its rows.

    `settings` are those of the training, as plain values.
    """
    rows = rows_of(task, arms)
    write_json(folder / "retraining.json", to_json(rows, settings))
    write_csv(folder / "retraining.csv", [record(row) for row in rows])
    write_text(
        folder / "retraining.txt", lambda file: print_retraining(rows, settings, file), WIDTH
    )
    console = Console(quiet=quiet)
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
    for row in rows:
        table.add_row(
            Text(row.arm.name),
            f"{row.arm.texts:,}",
            _mean(row.accuracy),
            _difference(row.to_none),
            _difference(row.to_random),
            _mean(row.perturbed),
            _difference(row.perturbed_to_none),
        )
    return table


def _mean(found: Estimate | None) -> Text:
    if found is None:
        return Text("-")
    half = "" if found.half is None else f" ± {100 * found.half:.2f}"
    return Text(display_percent(found.mean) + half)


def _difference(found: Difference | None) -> Text:
    if found is None:
        return Text("-")
    return Text(f"{_points(found.mean)}\n[{_points(found.low)}, {_points(found.high)}]")


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
        _length(settings),
    ]
    if task in PAPER_TEXTS:
        without, *with_them = PAPER[task]
        lines.append(
            f"The paper, with another model: {without:.2f} % without and "
            f"{' and '.join(f'{value:.2f} %' for value in with_them)} with "
            f"{PAPER_TEXTS[task]:,} texts more."
        )
    return lines


def _length(settings: Mapping[str, Any]) -> str:
    """Return whether arms with more texts were also trained longer."""
    if settings.get("steps") is not None or settings.get("equal_steps"):
        return "All were trained for equally many steps."
    return "All were trained for equally many epochs, so those with more texts for more steps."


def to_json(rows: Sequence[Row], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table as plain values, what its fields mean, and the accuracies seed by seed."""
    return {
        "settings": dict(settings),
        "fields": {name: meaning for name, meaning in FIELDS.items() if meaning},
        "rows": [record(row) for row in rows],
        "by_seed": {
            row.arm.name: {
                "accuracy": row.arm.correct.mean(axis=1).tolist(),
                "perturbed_accuracy": row.arm.perturbed.mean(axis=1).tolist()
                if row.arm.perturbed.size
                else None,
            }
            for row in rows
        },
    }
