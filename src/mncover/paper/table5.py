"""The paper's Table 5: how faithful are the learnt masks?

Our models are not the paper's: its figures are shown for the same task and the same family of
architecture, BERT or RoBERTa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from mncover.engine.loading import load_subject
from mncover.errors import SettingsError
from mncover.masks.settings import LearningSettings
from mncover.masks.sweep import learn_to_file, measured
from mncover.report.screen import Screen
from mncover.report.tables import plain_table, write_csv, write_json, write_text
from mncover.suites.formats import read_texts
from mncover.types import display_percent

# Fidelity in percent, by family and task.
PAPER = {"bert": {"sst2": 99.31, "qqp": 99.77}, "roberta": {"sst2": 97.36, "qqp": 99.66}}
# The paper tests its QQP suite with models of paraphrase; MRPC is another such task.
TASKS = {"sst2": "sst2", "qqp": "qqp", "mrpc": "qqp"}
WIDTH = 110


class Asked(NamedTuple):
    """A row to fill: task, model folder, training texts, test texts."""

    task: str
    model: str
    train: Path
    test: Path


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table; shares are from 0 to 1, the paper's figure is in percent."""

    task: str
    family: str
    model: str
    test_texts: int
    fidelity: float
    low: float
    high: float
    words_kept: float
    pairs_kept: float
    paper_fidelity: float | None


def parse_row(text: str) -> Asked:
    """Parse a row such as `sst2=MODEL,TRAIN,TEST`."""
    task, _, rest = text.partition("=")
    parts = rest.split(",")
    if task not in TASKS or len(parts) != 3:
        known = ", ".join(TASKS)
        raise SettingsError(f"a row is TASK=MODEL,TRAIN,TEST with a task of {known}, got {text!r}.")
    return Asked(task, parts[0], Path(parts[1]), Path(parts[2]))


def run_table5(
    asked: Sequence[Asked],
    settings: LearningSettings,
    output: Path,
    device: str | None = None,
    quiet: bool = False,
) -> list[Row]:
    """Learn masks for each row, measure their fidelity, write table and masks to a folder."""
    rows = []
    for number, (task, model, train, test) in enumerate(asked, 1):
        known, tests, name = read_texts(train).texts, read_texts(test).texts, Path(model).name
        subject = load_subject(model, device=device)
        path, title = output / f"masks-{number}-{task}-{name}.safetensors", f"{task}, {name}"
        masks = learn_to_file(subject, known, settings, path, title, quiet)
        found = measured(subject, masks, tests, settings.max_length)
        shares = (found.fidelity, found.low, found.high, found.kept_words, found.kept_pairs)
        family = str(subject.model.config.model_type)
        paper = PAPER.get(family, {}).get(TASKS[task])
        rows.append(Row(task, family, name, len(tests), *shares, paper))
    records, table, console = [asdict(row) for row in rows], _table(rows), Screen(quiet=quiet)
    write_json(output / "table5.json", {"settings": asdict(settings), "rows": records}, end="")
    write_csv(output / "table5.csv", records)
    write_text(output / "table5.txt", lambda file: file.print(table), WIDTH)
    console.print(table)
    console.print(f"Table and masks are in {output}.", markup=False, soft_wrap=True)
    return rows


def _table(rows: Sequence[Row]) -> Table:
    columns = ("texts", "fidelity", "95 % interval", "words %", "pairs %", "paper")
    table = plain_table("task", "family", "model", *columns, left=3, narrow=True)
    for row in rows:
        fidelity, low, high = map(display_percent, (row.fidelity, row.low, row.high))
        kept = (display_percent(share, 1) for share in (row.words_kept, row.pairs_kept))
        paper = "-" if row.paper_fidelity is None else f"{row.paper_fidelity:.2f}"
        shown = (f"{row.test_texts:,}", fidelity, f"{low} to {high}", *kept, paper)
        table.add_row(row.task, row.family, row.model, *shown)
    return table
