"""Which words of one text may meet under masks, and the scores of its pairs. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mncover.data.identity import Scored
from mncover.data.meetings import APART, MEETS, UNSEEN, Meeting
from mncover.masks.vocabulary import Integers

if TYPE_CHECKING:
    from mncover.masks.masks import Masks


def meeting(masks: Masks, ids: ArrayLike, most: int | None = None) -> Meeting:
    """Return which of a text's tokens may meet; special ones are left out, as they always may.

    With `most`, tokens after so many are left out too.
    """
    words = _plain(masks, ids)[:most]
    kept = masks.keep_words[words]
    pairs = []
    for i, place in enumerate(_places(masks, words)):
        by_words = kept[:i] & kept[i]
        unseen = by_words if masks.unseen == "words" else np.full(i, masks.unseen == "keep")
        line = np.where(unseen, UNSEEN, APART)
        seen = place >= 0
        line[seen] = np.where(masks.keep_pairs[place[seen]], MEETS, APART)
        line[words[:i] == words[i]] = MEETS  # a word meets itself
        pairs.append("".join(line.tolist()))
    names = tuple(masks.words[word] for word in words.tolist())
    return Meeting(names, "".join("01"[keep] for keep in kept.tolist()), tuple(pairs))


def scored_pairs(masks: Masks, ids: ArrayLike) -> list[Scored]:
    """Return the pairs of a text that training saw, in the text's order of words, by score."""
    words, found = _plain(masks, ids), dict[int, Scored]()
    for i, places in enumerate(_places(masks, words)):
        for j, place in enumerate(places.tolist()):
            if place >= 0:
                name = pair_name(masks.words[words[j]], masks.words[words[i]])
                found.setdefault(place, (name, float(masks.pair_scores[place])))
    return sorted(found.values(), key=lambda one: -one[1])


def pair_name(first: str, second: str) -> str:
    """Return two words as one name."""
    return f"{first} – {second}"  # noqa: RUF001 (a dash between two words)


def _plain(masks: Masks, ids: ArrayLike) -> Integers:
    every = np.asarray(ids, dtype=np.int64)
    return every[~np.isin(every, masks.special)]


def _places(masks: Masks, words: Integers) -> list[Integers]:
    """Return for each word where its pairs with the words before it stand in the keys, or -1."""
    found = []
    for i in range(len(words)):
        low, high = np.minimum(words[:i], words[i]), np.maximum(words[:i], words[i])
        keys = low * len(masks.words) + high
        at = np.searchsorted(masks.pair_keys, keys)
        inside = np.minimum(at, max(len(masks.pair_keys) - 1, 0))
        there = masks.pair_keys[inside] == keys if len(masks.pair_keys) else np.zeros(i, bool)
        found.append(np.where(there, inside, -1))
    return found
