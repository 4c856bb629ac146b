"""What every room uses: texts, shares as people read them, and the settings of a measurement."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any, TypeAlias

from mncover.errors import SettingsError, TextError

__version__ = "0.1.0"

Text: TypeAlias = "str | tuple[str, str]"

# Stands between the two texts of a pair while they are changed together; it occurs in no word.
BETWEEN = "\x1f"


def is_text(value: Any) -> bool:
    """Return whether a value is a string or a tuple of two strings."""
    pair = isinstance(value, tuple) and len(value) == 2
    return isinstance(value, str) or (pair and all(isinstance(v, str) for v in value))


def are_texts(values: Collection[Any]) -> bool:
    """Return whether all values are texts; strings alone are recognised at once."""
    return {*map(type, values)} <= {str} or all(map(is_text, values))


def check_texts(texts: Iterable[Any]) -> list[Text]:
    """Return the texts as a list; refuse what is no text, naming its place."""
    checked = list(texts)
    for index, text in enumerate(checked):
        if not is_text(text):
            raise TextError(
                f"text {index} must be a string or a tuple of two strings, got {brief(text, 80)}."
            )
    return checked


def check_cases(cases: Iterable[Any]) -> list[list[Text]]:
    """Return the cases as lists of texts; a text that stands alone is a case of one."""
    checked: list[list[Text]] = []
    for index, case in enumerate(cases):
        texts = [case] if is_text(case) else case
        if not isinstance(texts, Sequence) or not all(is_text(text) for text in texts):
            raise TextError(
                f"case {index} must be a list of texts (strings or tuples of two strings), "
                f"got {brief(case, 80)}."
            )
        checked.append(list(texts))
    return checked


def fingerprint_texts(texts: Iterable[Text]) -> str:
    """Return a digest of the texts and their order."""
    digest = hashlib.sha256()
    for text in texts:
        parts = (text,) if isinstance(text, str) else text
        digest.update(len(parts).to_bytes(1, "little"))
        for part in parts:
            # surrogatepass: lone surrogates occur in scraped data and are hashed, not refused.
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "little"))
            digest.update(raw)
    return digest.hexdigest()


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can carry: each half of a broken pair becomes U+FFFD.

    Scraped data has such halves, and tokenizers refuse them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def joined(text: Text) -> str:
    """Return a text as one string, so that both sides of a pair can be changed alike."""
    return text if isinstance(text, str) else BETWEEN.join(text)


def split_like(changed: str, like: Text) -> Text:
    """Undo `joined` after a change that kept what stands between the sides.

    >>> split_like(joined(("a", "b")).upper(), like=("a", "b"))
    ('A', 'B')
    """
    if isinstance(like, str):
        return changed
    parts, first = changed.split(BETWEEN), like[0].count(BETWEEN) + 1
    return BETWEEN.join(parts[:first]), BETWEEN.join(parts[first:])


def shorten(text: Text, width: int = 60) -> str:
    """Return a text on one line of at most `width` characters, for messages.

    >>> shorten("one two three", 9)
    'one two …'
    """
    both = (text,) if isinstance(text, str) else text
    return fitted([" ".join(part.split()) for part in both], width)


def fitted(parts: Sequence[str], width: int) -> str:
    """Join the one or two parts of a text, cut to `width`; both are seen, however long they are.

    >>> fitted(["one two three four", "five six"], 20)
    'one two … | five six'
    """
    left, cut = width - 3 * (len(parts) - 1), list(parts)
    for done, place in enumerate(sorted(range(len(parts)), key=lambda i: len(parts[i]))):
        room = left // (len(parts) - done)  # what a short part leaves is for the other
        if len(cut[place]) > room:
            cut[place] = cut[place][: room - 1] + "…"
        left -= len(cut[place])
    return " | ".join(cut)


def brief(value: Any, width: int = 60) -> str:
    """Return the beginning of a value as Python writes it, for messages, whatever the value is."""
    try:
        return repr(value)[:width]
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        return f"a {type(value).__name__}"


def counted(number: int, thing: str) -> str:
    """Return a number of things.

    >>> counted(1, "text"), counted(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


MOST_NAMES = 10  # of which a message lists all


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return what to say after a name that is not known: the nearest names, or all there are.

    >>> suggestion("negaton", ["negation", "typos"]), suggestion("x", ["negation", "typos"])
    ("did you mean 'negation'?", 'there are negation, typos.')
    """
    folded = {one.casefold(): one for one in known}
    near = [folded[one] for one in difflib.get_close_matches(name.casefold(), folded, n=3)]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    more = f", … ({len(known):,} in all)" if len(known) > MOST_NAMES else ""
    return f"there are {', '.join(known[:MOST_NAMES])}{more}."


# Control characters except line feeds and tabs, halves of pairs, what reorders what is shown, and
# line ends that few programs know as such.
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
    "\\ufff9-\\ufffb]"
)


def visible(text: str) -> str:
    r"""Return a text with its control characters written out, so that a terminal does not obey.

    Line feeds and tabs stay.

    >>> print(visible("one\x1b[2Jtwo"))
    one\x1b[2Jtwo
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


MOST_ROWS = 50  # of an HTML table


def display_percent(share: float, digits: int = 2) -> str:
    """Return a share as a percentage that reads 0 or 100 only if it is exactly that.

    >>> display_percent(0.5), display_percent(0.999999), display_percent(0.0000001)
    ('50.00', '99.99', '0.01')
    """
    least, shown = 10**-digits, share * 100
    if 0 < shown < 100:
        shown = min(max(shown, least), 100 - least)
    return f"{shown:.{digits}f}"


def html_table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a title; whatever the cells hold is shown as text.

    Columns in which every cell is empty or a dash are left out.
    """
    filled = [
        i for i in range(len(names)) if not rows or any(row[i] not in ("", "-") for row in rows)
    ]
    names, rows = [names[i] for i in filled], [[row[i] for i in filled] for row in rows]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = f"<p>{len(rows) - MOST_ROWS:,} more rows</p>" if len(rows) > MOST_ROWS else ""
    return (
        f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


def percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash."""
    return "-" if share is None else display_percent(share)


MIN_BINS, MAX_BINS = 2, 1000
POSITIONS = ("each", "any", "mean")
SITES = ("all", "hidden")


@dataclass(frozen=True, slots=True)
class Settings:
    """Which neurons there are, how they are cut into bins, and how the two kinds are weighed.

    `positions` says whether there is a neuron for each position of a text, or one for all, which
    every token hits (`any`) or the mean over the tokens (`mean`). `sites` says what is read.
    """

    bins: int = 10
    max_length: int = 128
    attention_weight: float = 1.0
    positions: str = POSITIONS[0]
    sites: str = SITES[0]

    def __post_init__(self) -> None:
        _require_int("bins", self.bins, MIN_BINS, MAX_BINS)
        _require_int("max_length", self.max_length, 1, 1_000_000)
        weight = self.attention_weight
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise SettingsError(f"`attention_weight` must be a number, got {weight!r}.")
        if not 0.0 <= weight < float("inf"):
            raise SettingsError(f"`attention_weight` must be finite and at least 0, got {weight}.")
        object.__setattr__(self, "attention_weight", float(weight))
        _require_one_of("positions", self.positions, POSITIONS)
        _require_one_of("sites", self.sites, SITES)

    @property
    def pooled(self) -> bool:
        """Whether the tokens of a text share their neurons."""
        return self.positions != POSITIONS[0]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        """Make settings from what `to_json` returned; refuse unknown or missing names."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            raise SettingsError(f"settings must be exactly {sorted(names)}, got {sorted(values)}.")
        return cls(**values)


def _require_one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingsError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")


def _require_int(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(f"`{name}` must be a whole number from {low} to {high}, got {value!r}.")
