"""Do pair masks mean something? Learn them for shares of pairs, with two seeds, and control them.

    python -m benchmarks.pair_masks MODEL TRAIN TEST [--kept 0.2,0.3] [--device cuda] [-o FILE]
    python -m benchmarks.pair_masks MODEL TRAIN TEST --masks FILE [FILE_OF_ANOTHER_SEED]

These are the controls of `mncover masks --controls`, for several shares, and two more: the pairs
that get most attention, and the share of the places in the test texts that is kept. With
`--masks`, nothing is learnt: these are cut where they keep each share. The table, as JSON and as
text, is written after every share.

    python -m benchmarks.pair_masks --plot curve.png FILE.json …

draws such tables, each in a panel of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from mncover.engine.batches import Tokens
from mncover.engine.loading import load_subject
from mncover.engine.masking import MaskTable
from mncover.engine.subject import Subject
from mncover.masks.controls import (
    Controls,
    agreement_of_seeds,
    kept_in_texts,
    with_every_word,
)
from mncover.masks.cut import exact_cut
from mncover.masks.learning import learn_masks
from mncover.masks.masks import Masks
from mncover.masks.paid import attention_paid
from mncover.masks.sample import draw_sample
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.report.plots import BLUE, ORANGE
from mncover.suites.formats import read_texts
from mncover.types import Text

ATTENDED = "as many pairs, those with most attention"


def most_attended(subject: Subject, masks: Masks, tokens: Tokens) -> Masks:
    """Return masks that keep as many pairs: those that the model pays most attention to."""
    paid = attention_paid(subject, tokens, MaskTable(masks, subject.device).pairs)
    cut = exact_cut(paid, float(masks.keep_pairs.mean()))
    return replace(masks, pair_scores=(paid - cut).sigmoid().cpu().numpy())


def cut_to(masks: Masks, share: float) -> Masks:
    """Return masks that keep the given share of pairs: those with the highest scores."""
    return masks.with_thresholds(pairs=float(np.quantile(masks.pair_scores, 1 - share)))


def measure(
    subject: Subject, learnt: Sequence[Masks], controls: Controls, sample: Tokens | None
) -> dict[str, Any]:
    """Control the first masks, and compare them with the second if there are any.

    `sample` has the texts that they were learnt from, to find the pairs with most attention.
    """
    masks, summary = learnt[0], learnt[0].summary()
    found = controls.all(masks)
    if sample is not None:
        with subject.measuring():
            attended = most_attended(subject, with_every_word(masks), sample)
        found.append(controls.of(ATTENDED, attended))
    places = kept_in_texts(masks, controls.tokens)
    return {
        "texts": len(controls.plain),
        "pairs kept": summary.pairs_kept / max(summary.pairs, 1),
        "words kept": summary.words_kept / max(summary.words, 1),
        "seen": summary.pairs,
        **dict(zip(("places seen", "places kept"), places, strict=True)),
        "fidelity": {one.name: one[1:4] for one in found},
        "seeds": agreement_of_seeds(*learnt[:2])._asdict() if len(learnt) > 1 else {},
        "held-out fidelity": summary.fidelity,
        "top pairs": [name for name, _ in summary.top_pairs],
        "facts": dict(masks.facts),
    }


def learn(
    subject: Subject, train: Sequence[Text], each: Sequence[LearningSettings]
) -> tuple[list[Masks], float]:
    """Learn masks with each seed's settings; return the mean time too."""
    start = time.perf_counter()
    learnt = [learn_masks(Masks, subject, train, settings) for settings in each]
    return learnt, (time.perf_counter() - start) / len(each)


def show(model: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return the table of a model, in percent but for kappa: a column for each share."""
    table = Table(title=f"{model}, {rows[0]['texts']} texts", title_justify="left")
    table.add_column("")
    for _ in rows:
        table.add_column(justify="right")
    for name in ("pairs kept", "words kept", "places seen", "places kept"):
        table.add_row(name, *(f"{100 * row[name]:.1f}" for row in rows))
    for name in rows[0]["fidelity"]:
        values = [row["fidelity"][name] for row in rows]
        table.add_row(
            name, *(f"{100 * a:.1f} ({100 * b:.1f} to {100 * c:.1f})" for a, b, c in values)
        )
    for name in rows[0]["seeds"]:
        table.add_row(name, *(f"{row['seeds'][name]:.4g}" for row in rows))
    table.add_row("seconds", *(f"{row['seconds']:.0f}" for row in rows))
    return table


# What is drawn, with its label and its style.
DRAWN = {
    "pairs alone": ("the learnt pairs", {"color": BLUE, "marker": "o"}),
    "words and pairs": ("the learnt pairs and words", {"color": BLUE, "marker": "o", "ls": "--"}),
    "shuffled among equally frequent pairs": ("shuffled", {"color": ORANGE, "marker": "s"}),
    "as many pairs at random": ("random", {"color": "0.5", "marker": "s"}),
}


def draw(tables: Sequence[Path], output: Path) -> None:
    """Draw fidelity against the share of pairs that is kept, with its 95 % interval or range."""
    figure = Figure(figsize=(4.5 * len(tables), 3.9), layout="constrained")
    axes = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for axis, path in zip(axes, tables, strict=True):
        table = json.loads(path.read_text())
        rows = sorted(table["rows"], key=lambda row: row["pairs kept"])
        kept = [100 * row["pairs kept"] for row in rows]
        for name, (label, style) in DRAWN.items():
            values = np.array([row["fidelity"][name] for row in rows]) * 100
            axis.plot(kept, values[:, 0], label=label, markersize=4, **style)
            axis.fill_between(kept, *values[:, 1:].T, color=style["color"], alpha=0.12, lw=0)
        axis.set(title=Path(table["model"]).name, xlabel="pairs kept, %", xticks=kept)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("fidelity, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(output, dpi=150)


def main() -> None:
    if sys.argv[1:2] == ["--plot"]:
        draw([Path(name) for name in sys.argv[3:]], Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--kept", default="0.3", help="shares of pairs to keep: 0.2,0.3")
    parser.add_argument("--masks", nargs="+", type=Path, help="control these, learn nothing")
    parser.add_argument("--seeds", default="0,1", help="the first is controlled")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device")
    parser.add_argument("--attended", action="store_true", help="also the pairs most attended")
    parser.add_argument("--test-limit", type=int, help="use only the first test texts")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/pairs.json"))
    asked = parser.parse_args()
    subject = load_subject(asked.model, device=asked.device)
    train = read_texts(asked.train).texts
    settings, rows = chosen_settings(False, asked.set), list[dict[str, Any]]()
    tests = read_texts(asked.test).texts[: asked.test_limit]
    controls = Controls(subject, tests, settings.max_length)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    for share in map(float, asked.kept.split(",")):
        seeds = [int(seed) for seed in asked.seeds.split(",")]
        each = [replace(settings, pairs_kept=share, seed=seed) for seed in seeds]
        learnt, seconds = [cut_to(Masks.load(path), share) for path in asked.masks or ()], 0.0
        if not learnt:
            learnt, seconds = learn(subject, train, each)
        sample = None
        if asked.attended:
            with subject.measuring():
                sample = draw_sample(subject, train, each[0]).tokens
        rows.append({**measure(subject, learnt, controls, sample), "seconds": seconds})
        asked.output.write_text(json.dumps({"model": asked.model, "rows": rows}, indent=1))
        with asked.output.with_suffix(".txt").open("w", encoding="utf-8") as file:
            Console(file=file, width=140).print(show(asked.model, rows))
    Console(width=140).print(show(asked.model, rows))


if __name__ == "__main__":
    main()
