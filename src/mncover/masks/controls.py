"""Do masks mean something? Their fidelity beside that of masks of the same density.

Pairs are judged alone, with all words in place, next to random pairs and pairs shuffled among
equally frequent ones; words are judged alone; and two seeds should agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from scipy.stats import t as student

from mncover.engine.batches import Tokens
from mncover.engine.subject import Subject
from mncover.masks.masks import Masks
from mncover.masks.vocabulary import Integers, count_pairs
from mncover.masks.wimask import agreeing, predict
from mncover.report.tables import plain_table, write_csv
from mncover.selection.chance import wilson
from mncover.types import Text, display_percent

SHUFFLES = 5  # of random and of shuffled masks
GROUPS = 50  # of about equally frequent pairs
OFTEN = 5

BOTH, PAIRS, WORDS = "words and pairs", "pairs alone", "words alone"
RANDOM, SHUFFLED = "as many pairs at random", "shuffled among equally frequent pairs"
ABOVE_RANDOM, ABOVE_SHUFFLED = "pairs alone, above random", "pairs alone, above shuffled"
NO_PAIR, DROPPED = "no pair that training saw", "pairs alone, unseen pairs dropped"


class Control(NamedTuple):
    """A fidelity, or by how much one exceeds another, with its 95 % interval.

    Of several `masks` it is the mean, with the lowest and the highest.
    """

    name: str
    value: float
    low: float
    high: float
    masks: int = 1


def shuffled(masks: Masks, seed: int) -> Masks:
    """Return masks that keep as many pairs, at random."""
    return replace(masks, pair_scores=np.random.default_rng(seed).permutation(masks.pair_scores))


def shuffled_within_frequency(masks: Masks, seed: int) -> Masks:
    """Return masks whose scores of pairs changed places only among about equally frequent ones."""
    random, scores = np.random.default_rng(seed), masks.pair_scores.copy()
    order = np.lexsort((random.random(len(scores)), masks.pair_counts))  # ties in random order
    for group in np.array_split(order, GROUPS):
        scores[group] = random.permutation(scores[group])
    return replace(masks, pair_scores=scores)


def with_every_word(masks: Masks) -> Masks:
    """Return masks of the same pairs, in which all words count."""
    counts = np.maximum(masks.word_counts, 1)  # so that a rule for unseen words drops none
    return replace(masks, word_scores=np.ones_like(masks.word_scores), word_counts=counts)


class Controls:
    """Measures masks, and others in their place, on the same texts."""

    def __init__(self, subject: Subject, texts: Sequence[Text], max_length: int) -> None:
        self.subject = subject
        self.tokens: Tokens = subject.encode(texts, max_length).with_tokens()
        with subject.measuring():
            self.plain: Integers = predict(subject, self.tokens)

    def agreeing(self, masks: Masks) -> NDArray[np.bool_]:
        """Return for each text whether it keeps its class."""
        with self.subject.measuring():
            return agreeing(self.subject, masks, self.tokens, self.plain)

    def of(self, name: str, masks: Masks) -> Control:
        """Return the fidelity of masks with its interval."""
        return _share(name, self.agreeing(masks))

    def random(self, masks: Masks) -> list[Control]:
        """Return the fidelity of the pairs alone, of as many others, and what lies between."""
        pairs = with_every_word(masks)
        own, found = self.agreeing(pairs), list[Control]()
        for name, above, change in (
            (RANDOM, ABOVE_RANDOM, shuffled),
            (SHUFFLED, ABOVE_SHUFFLED, shuffled_within_frequency),
        ):
            others = np.stack([self.agreeing(change(pairs, seed)) for seed in range(SHUFFLES)])
            found += [_mean(name, others), _above(above, own, others)]
        return [_share(PAIRS, own), *found[::2], *found[1::2]]

    def all(self, masks: Masks) -> list[Control]:
        """Return the fidelity of masks, of their parts, and of their controls."""
        pairs = with_every_word(masks)
        return [
            self.of(BOTH, masks),
            self.of(WORDS, masks.with_thresholds(pairs=0.0)),
            *self.random(masks),
            self.of(NO_PAIR, replace(pairs, pair_scores=pairs.pair_scores * 0)),
            self.of(DROPPED, replace(pairs, unseen="drop")),
        ]


def _share(name: str, kept: NDArray[np.bool_]) -> Control:
    """Return the share of texts that keep their class, with Wilson's interval."""
    return Control(name, float(kept.mean()), *wilson(int(kept.sum()), len(kept)))


def _mean(name: str, kept: NDArray[np.bool_]) -> Control:
    """Return the mean of several masks [masks, texts], with the lowest and the highest."""
    found = kept.mean(1)
    return Control(name, float(found.mean()), float(found.min()), float(found.max()), len(kept))


def _above(name: str, own: NDArray[np.bool_], others: NDArray[np.bool_]) -> Control:
    """Return by how much a share exceeds the mean of others: the mean of paired differences."""
    paired = own - others.mean(0)
    mean, n = float(paired.mean()), len(paired)
    error = float(paired.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    within = float(student.ppf(0.975, max(n - 1, 1))) * error
    return Control(name, mean, mean - within, mean + within)


def kappa(one: NDArray[np.bool_], two: NDArray[np.bool_]) -> float:
    """Return Cohen's kappa: agreement of two masks beyond what their shares kept would give."""
    if not len(one):
        return float("nan")
    agree = float((one == two).mean())
    p, q = float(one.mean()), float(two.mean())
    chance = p * q + (1 - p) * (1 - q)
    return (agree - chance) / (1 - chance) if chance < 1 else 1.0


class Agreement(NamedTuple):
    """How many pairs and words two seeds both saw, and how much they agree on them: kappa."""

    pairs: int
    kappa: float
    often: int  # pairs that both saw `OFTEN` times
    kappa_often: float
    words: int
    kappa_words: float

    def sentence(self) -> str:
        """Return it in words."""
        return (
            f"Two seeds agree on {self.pairs:,} pairs with kappa {self.kappa:.2f}, on "
            f"{self.often:,} seen {OFTEN} times or more with {self.kappa_often:.2f}, "
            f"and on {self.words:,} words with {self.kappa_words:.2f}."
        )


def agreement_of_seeds(one: Masks, two: Masks) -> Agreement:
    """Return how much the masks of two seeds agree on what both saw."""
    _, at, there = np.intersect1d(one.pair_keys, two.pair_keys, return_indices=True)
    often = np.minimum(one.pair_counts[at], two.pair_counts[there]) >= OFTEN
    first, second = one.keep_pairs[at], two.keep_pairs[there]
    words = np.flatnonzero((one.word_counts > 0) & (two.word_counts > 0))
    words = np.setdiff1d(words, one.special)
    return Agreement(
        len(at),
        kappa(first, second),
        int(often.sum()),
        kappa(first[often], second[often]),
        len(words),
        kappa(one.keep_words[words], two.keep_words[words]),
    )


def kept_in_texts(masks: Masks, tokens: Tokens) -> tuple[float, float]:
    """Return which share of all places with pairs in texts was seen, and which of these is kept."""
    keys, counts = count_pairs(tokens.ids(), len(masks.words), masks.special, 1)
    at = np.searchsorted(masks.pair_keys, keys).clip(max=max(len(masks.pair_keys) - 1, 0))
    seen = masks.pair_keys[at] == keys if len(masks.pair_keys) else np.zeros(len(keys), bool)
    kept = counts[seen] @ masks.keep_pairs[at[seen]] / max(counts[seen].sum(), 1)
    return float(counts[seen].sum() / max(counts.sum(), 1)), float(kept)


def controls_table(found: Sequence[Control]) -> Table:
    """Return a line for each fidelity, in percent, and each difference, in points."""
    table = plain_table("Masks", "fidelity %", "from", "to", width=20)
    for one in found:
        name = one.name if one.masks == 1 else f"{one.name}, mean of {one.masks}"
        shown = _points if one.name in (ABOVE_RANDOM, ABOVE_SHUFFLED) else display_percent
        table.add_row(name, *map(shown, (one.value, one.low, one.high)))
    return table


def _points(difference: float) -> str:
    return f"{100 * difference:+.2f}"


def write_controls(found: Sequence[Control], seeds: Agreement, path: Path) -> None:
    """Write the table as CSV, with a row for each number on which two seeds agree."""
    rows: list[dict[str, Any]] = [one._asdict() for one in found]
    kappas = {
        "kappa of pairs": seeds.kappa,
        f"kappa of pairs seen {OFTEN} times": seeds.kappa_often,
        "kappa of words": seeds.kappa_words,
    }
    empty = dict.fromkeys(("low", "high"), "")
    rows += [{"name": name, "value": value, **empty, "masks": 2} for name, value in kappas.items()]
    write_csv(path, rows)
