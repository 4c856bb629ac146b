"""The paper's Table 5: how faithful are the learnt masks?

Our models are not the paper's: its figures stand beside ours for the same task and the same
family of architecture, BERT or RoBERTa.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mncover.data.display import display_percent
from mncover.data.files import replacing
from mncover.engine.loading import load_subject
from mncover.errors import SettingsError
from mncover.masks.fidelity import fidelity_on
from mncover.masks.learning import learn_masks
from mncover.masks.settings import LearningSettings
from mncover.report.progress import bar
from mncover.selection.chance import wilson
from mncover.suites.formats import read_texts

# Fidelity in percent, by task and family.
PAPER = {
    ("sst2", "bert"): 99.31,
    ("qqp", "bert"): 99.77,
    ("sst2", "roberta"): 97.36,
    ("qqp", "roberta"): 99.66,
}
# The paper tests its QQP suite with models of paraphrase; MRPC is the other such task.
TASKS = {"sst2": "sst2", "qqp": "qqp", "mrpc": "qqp"}


@dataclass(frozen=True, slots=True)
class Asked:
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
    """Return what a text such as `sst2=MODEL,TRAIN,TEST` asks for."""
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
    console = Console(quiet=quiet)
    rows = [_fill(row, number, settings, output, device, quiet) for number, row in enumerate(asked)]
    records = [asdict(row) for row in rows]
    with replacing(output / "table5.json") as path:
        path.write_text(json.dumps({"settings": asdict(settings), "rows": records}, indent=1))
    with (
        replacing(output / "table5.csv") as path,
        path.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    table = _table(rows)
    with replacing(output / "table5.txt") as path, path.open("w", encoding="utf-8") as file:
        Console(file=file, width=110).print(table)
    console.print(table)
    console.print(f"Table and masks are in {output}.", markup=False, soft_wrap=True)
    return rows


def _fill(
    asked: Asked,
    number: int,
    settings: LearningSettings,
    output: Path,
    device: str | None,
    quiet: bool,
) -> Row:
    say = partial(Console(stderr=True, quiet=quiet).print, markup=False, soft_wrap=True)
    train, test = read_texts(asked.train).texts, read_texts(asked.test).texts
    subject = load_subject(asked.model, device=device)
    name = Path(asked.model).name
    file = output / f"masks-{number + 1}-{asked.task}-{name}.safetensors"
    unfinished = file.with_name(file.name + ".partial")
    with bar(
        f"{asked.task}, {name}", settings.steps_over(len(train)), False if quiet else None
    ) as advance:
        masks = learn_masks(subject, train, settings, advance, unfinished, say)
    masks.save(file)
    unfinished.unlink(missing_ok=True)
    fidelity, summary = fidelity_on(subject, masks, test, settings.max_length), masks.summary()
    family = str(subject.model.config.model_type)
    return Row(
        asked.task,
        family,
        name,
        len(test),
        fidelity,
        *wilson(round(fidelity * len(test)), len(test)),
        words_kept=summary.words_kept / max(summary.words, 1),
        pairs_kept=summary.pairs_kept / max(summary.pairs, 1),
        paper_fidelity=PAPER.get((TASKS[asked.task], family)),
    )


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("task", "family", "model"):
        table.add_column(name, overflow="fold", min_width=len(name))
    for name in ("texts", "fidelity", "95 % interval", "words %", "pairs %", "paper"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.task,
            row.family,
            row.model,
            f"{row.test_texts:,}",
            display_percent(row.fidelity),
            f"{display_percent(row.low)} to {display_percent(row.high)}",
            display_percent(row.words_kept, 1),
            display_percent(row.pairs_kept, 1),
            "-" if row.paper_fidelity is None else f"{row.paper_fidelity:.2f}",
        )
    return table
