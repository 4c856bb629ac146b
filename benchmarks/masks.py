"""Are learnt masks more than noise? Controls for masks that two seeds learnt.

    python -m benchmarks.masks MODEL TEST MASKS MASKS_OF_ANOTHER_SEED [-o FILE]

Sentiment words should be kept more often than others, two seeds should agree, and a mask
shuffled over the vocabulary, which keeps as many words or pairs, should be less faithful.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from mncover.engine.loading import load_subject
from mncover.engine.subject import Subject
from mncover.masks.controls import SHUFFLES, kappa, shuffled
from mncover.masks.masks import Masks
from mncover.masks.wimask import agreement, predict
from mncover.selection.chance import wilson
from mncover.suites.formats import read_texts

WORDS = Path(__file__).with_name("sentiment_words.txt")


def seen_words(masks: Masks) -> NDArray[np.int64]:
    """Return the words that training saw, without special tokens."""
    return np.setdiff1d(np.flatnonzero(masks.word_counts), masks.special)


def sentiment_tokens(subject: Subject, masks: Masks) -> NDArray[np.int64]:
    """Return the listed words that are one token each and that training saw."""
    lines = [line for line in WORDS.read_text().splitlines() if not line.startswith("#")]
    special = set(subject.tokenizer.all_special_ids)
    found = set()
    for line in lines:
        for form in (line, f" {line}"):
            ids = subject.tokenizer(form, add_special_tokens=False)["input_ids"]
            found |= set(ids) - special if len(ids) == 1 else set()
    return np.intersect1d(np.array(sorted(found)), seen_words(masks))


def spearman(one: NDArray[Any], two: NDArray[Any]) -> float:
    """Return the correlation of two scores' ranks."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, two)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def agreement_of_seeds(one: Masks, two: Masks) -> dict[str, float]:
    words = np.intersect1d(seen_words(one), seen_words(two))
    keys, at, there = np.intersect1d(one.pair_keys, two.pair_keys, return_indices=True)
    return {
        "words": len(words),
        "words agreeing": float((one.keep_words[words] == two.keep_words[words]).mean()),
        "kappa of words": kappa(one.keep_words[words], two.keep_words[words]),
        "rank correlation of words": spearman(one.word_scores[words], two.word_scores[words]),
        "pairs": len(keys),
        "kappa of pairs": kappa(one.keep_pairs[at], two.keep_pairs[there]),
        "rank correlation of pairs": spearman(one.pair_scores[at], two.pair_scores[there]),
    }


def shuffled_words(masks: Masks, seed: int) -> Masks:
    """Return masks whose scores of seen words changed places."""
    words, scores = seen_words(masks), masks.word_scores.copy()
    scores[words] = np.random.default_rng(seed).permutation(scores[words])
    return replace(masks, word_scores=scores)


def shuffled_within_frequency(masks: Masks, seed: int) -> Masks:
    """Return masks whose scores changed places only among words about equally frequent."""
    words, scores = seen_words(masks), masks.word_scores.copy()
    random = np.random.default_rng(seed)
    for group in np.array_split(words[np.argsort(masks.word_counts[words], kind="stable")], 50):
        scores[group] = random.permutation(scores[group])
    return replace(masks, word_scores=scores)


def fidelities(subject: Subject, masks: Masks, test: Path) -> dict[str, Any]:
    tokens = subject.encode(read_texts(test).texts, 128)
    plain = predict(subject, tokens)

    def measured(changed: Masks) -> float:
        return agreement(subject, changed, tokens, plain)

    own = measured(masks)
    found: dict[str, Any] = {"masks": own, "interval": wilson(round(own * len(plain)), len(plain))}
    found["texts"] = len(plain)
    for name, shuffle in (
        ("words shuffled", shuffled_words),
        ("words shuffled within frequency", shuffled_within_frequency),
        ("pairs shuffled", shuffled),
    ):
        values = [measured(shuffle(masks, seed)) for seed in range(SHUFFLES)]
        found[name] = {"mean": float(np.mean(values)), "all": values}
    return found


def measure(model: str, test: Path, one: Masks, two: Masks) -> dict[str, Any]:
    subject = load_subject(model)
    sentiment, summary = sentiment_tokens(subject, one), one.summary()
    frequent = seen_words(one)[one.word_counts[seen_words(one)] >= 5]
    return {
        "model": model,
        "words kept": summary.words_kept / summary.words,
        "frequent words kept": float(one.keep_words[frequent].mean()),
        "pairs kept": summary.pairs_kept / max(summary.pairs, 1),
        "sentiment words": len(sentiment),
        "sentiment words kept": float(one.keep_words[sentiment].mean()),
        "held-out fidelity": summary.fidelity,
        "seeds": agreement_of_seeds(one, two),
        "fidelity": fidelities(subject, one, test),
    }


def show(found: dict[str, Any]) -> Table:
    table = Table(title=found["model"], title_justify="left", show_header=False)
    for name, value in found.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for part, number in rows:
            mean = number["mean"] if isinstance(number, dict) else number
            table.add_row(name, part, f"{mean:.4f}" if isinstance(mean, float) else str(mean))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("test", type=Path)
    parser.add_argument("masks", type=Path, nargs=2)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/masks.json"))
    asked = parser.parse_args()
    found = measure(asked.model, asked.test, *(Masks.load(path) for path in asked.masks))
    Console().print(show(found))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
