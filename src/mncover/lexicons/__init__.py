"""Word lists of our own for templates and perturbations: one text file each, a word in a line."""

from __future__ import annotations

from functools import cache
from importlib import resources

from mncover.errors import SettingsError

# Names that stand for several lists.
_UNIONS = {"name": ("female_name", "male_name"), "place": ("city", "country")}


@cache
def lexicon(name: str) -> tuple[str, ...]:
    """Return the words of a list.

    >>> lexicon("city")[:3]
    ('London', 'Paris', 'Berlin')
    """
    if name in _UNIONS:
        return tuple(word for part in _UNIONS[name] for word in lexicon(part))
    if name not in lexicon_names():
        raise SettingsError(
            f"there is no lexicon {name!r}; there are {', '.join(lexicon_names())}."
        )
    content = (resources.files(__name__) / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line for line in content.splitlines() if line)


@cache
def lexicon_names() -> tuple[str, ...]:
    """Return the names of all lists, sorted."""
    files = [path.name for path in resources.files(__name__).iterdir()]
    return tuple(sorted({*_UNIONS, *(n.removesuffix(".txt") for n in files if n.endswith(".txt"))}))
