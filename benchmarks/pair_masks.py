"""Do pair masks mean something? Learn them for shares of pairs, with two seeds, and control them.

    python -m benchmarks.pair_masks MODEL TRAIN TEST [--kept 0.2,0.3] [--device cuda] [-o FILE]

Pairs are judged alone, with all words in place, against masks of the same density: random ones,
ones shuffled among equally frequent pairs, and the pairs that get most attention. Pairs that
training did not see count unless stated otherwise. The table, as JSON and as text, is written after
every share.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.masks import kappa, spearman
from mncover.engine.batches import Tokens
from mncover.engine.loading import load_subject
from mncover.engine.masking import MaskTable
from mncover.engine.subject import Subject
from mncover.masks.cut import exact_cut
from mncover.masks.learning import draw_sample, learn_masks
from mncover.masks.masks import Masks
from mncover.masks.paid import attention_paid
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.masks.vocabulary import count_pairs
from mncover.masks.wimask import agreement, predict
from mncover.selection.chance import wilson
from mncover.suites.formats import read_texts

SHUFFLES = 5
GROUPS = 50  # of about equally frequent pairs
OFTEN = 5

COLUMNS = {
    "pairs kept": "pairs kept",
    "pairs": "fidelity",
    "random": "random",
    "shuffled": "shuffled",
    "most attended": "most attended",
    "no seen pair": "no seen pair",
    "unseen dropped": "unseen dropped",
    "words": "words alone",
    "both": "both",
}


def shuffled_within_frequency(masks: Masks, seed: int) -> Masks:
    """Return masks whose scores of pairs changed places only among about equally frequent ones."""
    random, scores = np.random.default_rng(seed), masks.pair_scores.copy()
    order = np.lexsort((random.random(len(scores)), masks.pair_counts))  # ties in random order
    for group in np.array_split(order, GROUPS):
        scores[group] = random.permutation(scores[group])
    return replace(masks, pair_scores=scores)


def shuffled(masks: Masks, seed: int) -> Masks:
    """Return masks that keep as many pairs, at random."""
    return replace(masks, pair_scores=np.random.default_rng(seed).permutation(masks.pair_scores))


def most_attended(subject: Subject, masks: Masks, tokens: Tokens) -> Masks:
    """Return masks that keep as many pairs: those that the model pays most attention to."""
    paid = attention_paid(subject, tokens, MaskTable(masks, subject.device).pairs)
    cut = exact_cut(paid, float(masks.keep_pairs.mean()))
    return replace(masks, pair_scores=(paid - cut).sigmoid().cpu().numpy())


def fidelities(
    subject: Subject, masks: Masks, tokens: Tokens, learnt_from: Tokens
) -> dict[str, Any]:
    """Return the fidelity of pairs alone, of their controls, of words alone, and of both."""
    plain = predict(subject, tokens)

    def measured(changed: Masks) -> float:
        return agreement(subject, changed, tokens, plain)

    def mean_of(change: Callable[[Masks, int], Masks]) -> float:
        return float(np.mean([measured(change(pairs, seed)) for seed in range(SHUFFLES)]))

    every_word = np.ones_like(masks.word_scores)
    pairs = replace(masks, word_scores=every_word)
    dropped = replace(pairs, unseen="drop", word_counts=np.maximum(pairs.word_counts, 1))
    own = measured(pairs)
    return {
        "texts": len(plain),
        "pairs": own,
        "interval": wilson(round(own * len(plain)), len(plain)),
        "random": mean_of(shuffled),
        "shuffled": mean_of(shuffled_within_frequency),
        "most attended": measured(most_attended(subject, pairs, learnt_from)),
        "no seen pair": measured(replace(pairs, pair_scores=pairs.pair_scores * 0)),
        "unseen dropped": measured(dropped),
        "words": measured(masks.with_thresholds(pairs=0.0)),
        "both": measured(masks),
    }


def kept_in_texts(masks: Masks, tokens: Tokens) -> dict[str, float]:
    """Return which share of all places with pairs in texts was seen, and which of these is kept."""
    keys, counts = count_pairs(tokens.ids(), len(masks.words), masks.special, 1)
    at = np.searchsorted(masks.pair_keys, keys).clip(max=max(len(masks.pair_keys) - 1, 0))
    seen = masks.pair_keys[at] == keys if len(masks.pair_keys) else np.zeros(len(keys), bool)
    kept = counts[seen] @ masks.keep_pairs[at[seen]] / max(counts[seen].sum(), 1)
    return {"places seen": counts[seen].sum() / max(counts.sum(), 1), "places kept": float(kept)}


def agreement_of_seeds(one: Masks, two: Masks) -> dict[str, float]:
    """Return how much two seeds agree on the pairs that both saw, and on frequent ones."""
    _, at, there = np.intersect1d(one.pair_keys, two.pair_keys, return_indices=True)
    often = np.minimum(one.pair_counts[at], two.pair_counts[there]) >= OFTEN
    first, second = one.keep_pairs[at], two.keep_pairs[there]
    return {
        "kappa": kappa(first, second),
        f"kappa of pairs seen {OFTEN} times": kappa(first[often], second[often]),
        "rank correlation": spearman(one.pair_scores[at], two.pair_scores[there]),
    }


def measure(
    subject: Subject, train: Sequence[Any], tokens: Tokens, each: Sequence[LearningSettings]
) -> dict[str, Any]:
    """Learn masks with each seed's settings and control those of the first."""
    start = time.perf_counter()
    learnt = [learn_masks(Masks, subject, train, settings) for settings in each]
    seconds = (time.perf_counter() - start) / len(each)
    masks, summary = learnt[0], learnt[0].summary()
    with subject.measuring():
        sample = draw_sample(subject, train, each[0]).tokens
        found = fidelities(subject, masks, tokens, sample)
    return {
        "pairs kept": summary.pairs_kept / max(summary.pairs, 1),
        "words kept": summary.words_kept / max(summary.words, 1),
        "seen": summary.pairs,
        **kept_in_texts(masks, tokens),
        **found,
        **(agreement_of_seeds(*learnt[:2]) if len(learnt) > 1 else {}),
        "held-out fidelity": summary.fidelity,
        "seconds": seconds,
        "top pairs": [name for name, _ in summary.top_pairs],
        "settings": asdict(each[0]),
    }


def show(model: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return the table of a model, in percent but for kappa."""
    table = Table(title=f"{model}, {rows[0]['texts']} texts", title_justify="left")
    for heading in (*COLUMNS.values(), "kappa", f"kappa, {OFTEN}+", "seconds"):
        table.add_column(heading, justify="right")
    for row in rows:
        shares = [f"{row[name] * 100:.1f}" for name in COLUMNS]
        kappas = (row.get("kappa"), row.get(f"kappa of pairs seen {OFTEN} times"))
        shown = ["-" if value is None else f"{value:.2f}" for value in kappas]
        table.add_row(*shares, *shown, f"{row['seconds']:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--kept", default="0.3", help="shares of pairs to keep: 0.2,0.3")
    parser.add_argument("--seeds", default="0,1", help="the first is controlled")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device")
    parser.add_argument("--test-limit", type=int, help="use only the first test texts")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/pairs.json"))
    asked = parser.parse_args()
    subject = load_subject(asked.model, device=asked.device)
    train = read_texts(asked.train).texts
    tokens = subject.encode(read_texts(asked.test).texts[: asked.test_limit], 128).with_tokens()
    settings, rows = chosen_settings(False, asked.set), list[dict[str, Any]]()
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    for share in map(float, asked.kept.split(",")):
        each = [replace(settings, pairs_kept=share, seed=seed) for seed in seeds]
        rows.append(measure(subject, train, tokens, each))
        asked.output.write_text(json.dumps({"model": asked.model, "rows": rows}, indent=1))
        with asked.output.with_suffix(".txt").open("w", encoding="utf-8") as file:
            Console(file=file, width=140).print(show(asked.model, rows))
    Console(width=140).print(show(asked.model, rows))


if __name__ == "__main__":
    main()
