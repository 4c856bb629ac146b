"""Which scores find wrong answers? AUROC and lift of outputs, inside, a second model and both.

    python -m benchmarks.inside [TASK ...] [-o FILE]

The models and data beside the project are used; models are put together in the cache folder. At
most 10,000 training texts are the references. A combination is fitted to SST-2's dev set, for
MRPC and SNLI to training texts that are no references: the models were trained on them too, so
that they answer fewer of them wrongly. No test text takes part in these fits. The last line of a
test is what a development set of its own kind would give: fitted to the test in five folds, each
scored by the fit to the others. Airline tweets are answered by the SST-2 model; neutral ones are
left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tests.folders import assemble

from mncover.coverage import Coverage
from mncover.data.files import cache_folder
from mncover.engine.recorder import answered
from mncover.selection.auroc import auroc, auroc_difference
from mncover.selection.cases import Cases, cases_of
from mncover.selection.chance import at_budget
from mncover.selection.fit import Combination, combined_scores, fit
from mncover.selection.inside import second_opinion
from mncover.selection.scores import score_cases
from mncover.suites.formats import read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.judging import FAILS
from mncover.suites.rows import Rows

DATA = Path(__file__).resolve().parents[2] / "shared"
REFERENCES, FITTED_TO = 10_000, 4_000
BUDGET = 0.1
SCORES = ("entropy", "margin", "deep_gini", "neighbours", "surprise", "second")


@dataclass(frozen=True)
class Task:
    """A model, its training texts, and tests by name; `dev` None fits to training texts.

    `references` is at most so many, so that a small training set leaves some to fit to.
    """

    model: str
    train: str
    tests: dict[str, str]
    fields: Fields
    dev: str | None = None
    second: str | None = None
    references: int = REFERENCES


PAIR = Fields("s1", "s2", "label")
NLI = Fields("premise", "hypothesis", "label")
TASKS = {
    "sst2": Task(
        "minilm-sst2",
        "sst2/train",
        {"airline tweets": "airline/tweets", "SST-2 test": "sst2/test"},
        Fields("text", None, "label"),
        "sst2/dev",
        "granite-sst2",
    ),
    "mrpc": Task("minilm-mrpc", "mrpc/train", {"MRPC test": "mrpc/test"}, PAIR, references=2500),
    "snli": Task("minilm-nli", "nli/snli_train", {"SNLI test": "nli/snli_test"}, NLI),
}


def read(name: str, fields: Fields, shared: Path) -> Rows:
    """Read a file of the data; tweets get the classes of a model that knows no neutral."""
    rows = read_texts(shared / "data" / f"{name}.jsonl.gz", fields)
    if name != "airline/tweets":
        return rows
    kept = [i for i, label in enumerate(rows.labels) if label != 1]
    texts, labels = [rows.texts[i] for i in kept], [rows.labels[i] // 2 for i in kept]
    return Rows.make(texts, labels=labels)


def some(rows: Rows, places: NDArray[np.int64]) -> Rows:
    """Return rows by their places."""
    return Rows.make([rows.texts[i] for i in places], labels=[rows.labels[i] for i in places])


def coverage_of(name: str, shared: Path) -> Coverage:
    """Load a model, which is put together on first use."""
    folder = cache_folder() / "models" / name
    if not folder.is_dir():
        assemble(shared, name, folder)
    return Coverage(str(folder), progress=False)


class Subject:
    """A task's model, calibrated, and the second model if there is one."""

    def __init__(self, task: Task, references: Rows, shared: Path) -> None:
        self.mine = coverage_of(task.model, shared)
        self.mine.calibrate(references.texts, labels=references.labels)
        self.second = None if task.second is None else coverage_of(task.second, shared)
        if self.second is not None:  # its ranges are not used, but an identity has some
            self.second.calibrate(references.texts[:100])

    def cases(self, rows: Rows) -> Cases:
        """Run texts and return them as cases, with the second model's doubt."""
        cases = cases_of(answered(self.mine.engine, rows, self.mine.engine.identity()))
        if self.second is None:
            return cases
        other = answered(self.second.engine, rows, self.second.engine.identity())
        return replace(cases, given={"second": second_opinion(cases, other)})


def measure(task: Task, shared: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Fit to the development set and score every test."""
    train = read(task.train, task.fields, shared)
    order = np.random.default_rng(0).permutation(len(train))
    references = some(train, np.sort(order[: task.references]))
    subject = Subject(task, references, shared)
    spare = order[task.references :][:FITTED_TO]
    rest = some(train, np.sort(spare)) if task.dev is None else read(task.dev, task.fields, shared)
    dev = subject.cases(rest)
    say(f"{task.model}: {len(references):,} references, {len(dev):,} texts to fit to")
    fits = fitted_to(dev)
    found: dict[str, Any] = {"model": task.model, "references": len(references)}
    found["fitted_to"] = task.dev or f"{task.train}, no references"
    found["fits"] = {name: described(one) for name, one in fits.items()}
    found["tests"] = {}
    for name, path in task.tests.items():
        cases = subject.cases(read(path, task.fields, shared))
        found["tests"][name] = scored(cases, fits)
        say(f"{name}: {len(cases):,} texts")
    return found


def fitted_to(dev: Cases) -> dict[str, Combination]:
    """Return the combination of everything but the second model, and the one with it."""
    names = combined_scores(dev, dev)
    fits = {"fitted": fit(dev, [name for name in names if name != "second"])}
    return fits | ({"fitted, with second": fit(dev, names)} if "second" in names else {})


def described(one: Combination) -> dict[str, Any]:
    weights = dict(zip(one.names, one.weights.tolist(), strict=True))
    estimates = {"cross_validated": one.cross_validated, "entropy": one.entropy}
    estimates["difference"] = one.difference
    return {"cases": one.cases, "failing": one.failing, "weights": weights, **estimates}


def scored(cases: Cases, fits: dict[str, Combination]) -> dict[str, Any]:
    """Return AUROC, its difference to that of entropy, and lift for every score."""
    classes = cases.data.table.probabilities.shape[1]
    scores = {
        name: score_cases(cases, name)
        for name in SCORES
        if (name != "deep_gini" or classes > 2) and (name != "second" or name in cases.given)
    }
    scores |= {name: one.of(cases) for name, one in fits.items()}
    fails = cases.verdicts == FAILS
    found: dict[str, dict[str, Any]] = {
        name: {
            "auroc": auroc(values, fails),
            "difference": auroc_difference(values, scores["entropy"], fails),
            "lift": at_budget(cases.verdicts, values, BUDGET).lift,
        }
        for name, values in scores.items()
    }
    own = fit(cases, combined_scores(cases, cases))
    folds = {"auroc": own.cross_validated, "difference": own.difference, "lift": None}
    found["fitted here, 5-fold"] = folds
    return {"texts": len(cases), "wrong": int(fails.sum()), "scores": found}


def show(found: Sequence[dict[str, Any]]) -> Table:
    """Return everything as a table."""
    table = Table("Test", "Score", "AUROC (95 %)", "less entropy's (95 %)", "lift at 10 %")
    for task in found:
        for test, one in task["tests"].items():
            title = f"{test}, {task['model']}: {one['wrong']:,} of {one['texts']:,} wrong"
            for name, row in one["scores"].items():
                (a, low, high), (d, less, more) = row["auroc"], row["difference"]
                lift = "" if row["lift"] is None else f"{row['lift']:.2f}"
                by = "" if name == "entropy" else f"{d:+.3f} ({less:+.3f} to {more:+.3f})"
                table.add_row(title, name, f"{a:.3f} ({low:.3f} to {high:.3f})", by, lift)
                title = ""
            table.add_section()
    return table


def fit_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Say what every combination was fitted to, its weights, and its AUROC there."""
    lines = []
    for task in found:
        for name, one in task["fits"].items():
            to = f"{task['fitted_to']} ({one['failing']:,} of {one['cases']:,} wrong)"
            weights = ", ".join(f"{score} {w:+.2f}" for score, w in one["weights"].items())
            a, low, high = one["cross_validated"]
            held = f"cross-validated {a:.3f} ({low:.3f} to {high:.3f})"
            lines.append(f"{task['model']}, {name}, on {to}: {weights}; {held}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("task", nargs="*", choices=[*TASKS, []], default=[])
    parser.add_argument("--shared", type=Path, default=DATA, help="the models and data")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/inside.json"))
    asked = parser.parse_args()
    console = Console(width=150)
    chosen = [TASKS[name] for name in asked.task or TASKS]
    found = [measure(task, asked.shared, console.print) for task in chosen]
    console.print(show(found))
    for line in fit_lines(found):
        console.print(line, highlight=False)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
