"""Fill templates such as "{name} is {a:profession}." with words. No torch here.

A field names a lexicon: `{name}`. The same field twice is the same word; `{name}` and `{name2}`
are two different words of one lexicon. `{a:thing}` puts "a" or "an" before the word.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence

from mncover.errors import SettingsError
from mncover.lexicons import lexicon
from mncover.texts import Text

_FIELD = re.compile(r"\{(a:)?([A-Za-z_]+?)(\d*)\}")


def fill_template(
    template: Text,
    lexicons: Mapping[str, Sequence[str]] | None = None,
    n: int | None = None,
    seed: int = 0,
) -> list[Text]:
    """Return the texts of a template, each once: all of them, or n drawn by a seed.

    `lexicons` come before the bundled ones. A pair is filled with the same words on both sides.

    >>> fill_template("{who} is {a:what}.", {"who": ["Ann", "Bo"], "what": ["actor"]})
    ['Ann is an actor.', 'Bo is an actor.']
    """
    parts = [template] if isinstance(template, str) else list(template)
    fields = list(dict.fromkeys(field for part in parts for field in _fields(part)))
    words = [_words(name, lexicons or {}) for name, _ in fields]
    texts: dict[Text, None] = {}
    for filling in _fillings(fields, words, n, seed):
        filled = [_filled(part, filling) for part in parts]
        texts.setdefault(filled[0] if isinstance(template, str) else (filled[0], filled[1]))
        if len(texts) == n:
            break
    return list(texts)


def _fields(template: str) -> list[tuple[str, str]]:
    """Return the lexicon and number of each field; refuse braces that are no field."""
    rest = _FIELD.sub("", template)
    if "{" in rest or "}" in rest:
        raise SettingsError(f"{template!r}: a field is {{lexicon}}, {{lexicon2}} or {{a:lexicon}}.")
    return [(match[2], match[3]) for match in _FIELD.finditer(template)]


def _words(name: str, lexicons: Mapping[str, Sequence[str]]) -> Sequence[str]:
    words = list(dict.fromkeys(lexicons[name])) if name in lexicons else lexicon(name)
    if not words:
        raise SettingsError(f"the lexicon {name!r} is empty.")
    return words


def _fillings(
    fields: Sequence[tuple[str, str]], words: Sequence[Sequence[str]], n: int | None, seed: int
) -> Iterator[dict[tuple[str, str], str]]:
    """Yield a word for each field: every combination, in order or, for n of them, drawn."""
    sizes = [len(w) for w in words]
    total, rng = math.prod(sizes), random.Random(seed)
    if n is None or n >= total:
        numbers: Iterator[Sequence[int]] = itertools.product(*(range(size) for size in sizes))
    else:
        drawn = rng.sample(range(total), min(total, 20 * n))  # some have one word twice
        numbers = (_digits(number, sizes) for number in drawn)
    for places in numbers:
        chosen = {f: w[i] for f, w, i in zip(fields, words, places, strict=True)}
        if _differ(chosen):
            yield chosen


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    """Return which combination a number stands for."""
    places = []
    for size in reversed(sizes):
        number, place = divmod(number, size)
        places.append(place)
    return places[::-1]


def _differ(chosen: Mapping[tuple[str, str], str]) -> bool:
    """Return whether the fields of one lexicon all have different words."""
    pairs = [(name, word) for (name, _), word in chosen.items()]
    return len(set(pairs)) == len(pairs)


def _filled(template: str, words: Mapping[tuple[str, str], str]) -> str:
    def word(match: re.Match[str]) -> str:
        found = words[match[2], match[3]]
        article = ("an " if found[0].lower() in "aeiou" else "a ") if match[1] and found else ""
        return article + found

    return _FIELD.sub(word, template)
