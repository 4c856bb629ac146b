"""What a measurement is of: model, ranges, settings, criteria, masks, and its runs."""

from __future__ import annotations

import datetime
import re
import secrets
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from mncover.data.layout import Layout
from mncover.data.prompting import Prompting
from mncover.errors import DataFileError, MaskError, MismatchError, SettingsError
from mncover.types import Settings

COUNTS = ("words", "words_kept", "pairs", "pairs_kept")
LISTS = ("top_words", "low_words", "top_pairs", "low_pairs")
MAX_CELLS = 100_000  # what a stranger's file may ask memory for
NAME = re.compile(r"[A-Za-z_]\w*(:[0-9]+(\.[0-9]+)?)?", re.ASCII)  # of a criterion: `tknc:3`
OF_ALL = "-of-all"  # behind a criterion's name: its share of all cells, not of the reachable ones

_AS_THEY_ARE = Prompting()

# A word, or two words of a pair, with its score.
Scored = tuple[str, float]


@dataclass(frozen=True)
class MaskSummary:
    """Masks in a few numbers and words; two are equal if the same words and pairs count.

    `words` and `pairs` count what training saw, `words_kept` and `pairs_kept` what of it counts.
    `fidelity` is None if it was never measured, as for masks made by hand.
    """

    fingerprint: str
    words: int = field(compare=False)
    words_kept: int = field(compare=False)
    pairs: int = field(compare=False)
    pairs_kept: int = field(compare=False)
    unseen: str = field(compare=False)
    fidelity: float | None = field(compare=False)
    top_words: tuple[Scored, ...] = field(compare=False)
    low_words: tuple[Scored, ...] = field(compare=False)
    top_pairs: tuple[Scored, ...] = field(compare=False)
    low_pairs: tuple[Scored, ...] = field(compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MaskSummary:
        """Make a summary from what `to_json` returned; the value may come from a stranger."""
        known: dict[str, Any] = {name: int(value[name]) for name in COUNTS}
        if min(known.values()) < 0:
            raise MaskError("its summary of the masks has negative numbers")
        known |= {name: str(value[name]) for name in ("fingerprint", "unseen")}
        for name in LISTS:
            known[name] = tuple((str(word), float(score)) for word, score in value[name])
        fidelity = value["fidelity"]
        return cls(fidelity=None if fidelity is None else float(fidelity), **known)


@dataclass(frozen=True)
class Measured:
    """A criterion as a measurement knows it; nothing else is needed to read its maps.

    `name` is what files and commands call it, `title` what reports do. `cells` is the number of
    cells per neuron, `reachable` how many can be hit at all in each group of each site of its
    layout.
    """

    name: str
    title: str
    cells: int
    reachable: tuple[tuple[int, ...], ...]
    layout: Layout

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "cells": self.cells,
            "reachable": [list(groups) for groups in self.reachable],
            "layout": self.layout.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Measured:
        """Make it from what `to_json` returned; the value may come from a stranger."""
        name, cells = str(value["name"]), int(value["cells"])
        layout = Layout.from_json(value["layout"])
        reachable = tuple(tuple(int(n) for n in groups) for groups in value["reachable"])
        if not NAME.fullmatch(name) or not 1 <= cells <= MAX_CELLS:
            raise DataFileError("its list of criteria cannot be read")
        if [len(groups) for groups in reachable] != [site.groups for site in layout.sites]:
            raise DataFileError("its counts of reachable cells do not fit its sites")
        return cls(name, str(value["title"]), cells, reachable, layout)


@dataclass(frozen=True)
class Identity:
    """What two measurements must share for their union to mean anything."""

    model: str
    settings: Settings
    model_fingerprint: str
    tokenizer_fingerprint: str
    ranges_fingerprint: str
    layout: Layout
    labels: tuple[str, ...]
    calibration_texts: int
    masks: MaskSummary | None
    criteria: tuple[Measured, ...]
    prompting: Prompting = _AS_THEY_ARE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the criteria that were measured."""
        return tuple(criterion.name for criterion in self.criteria)

    @property
    def main(self) -> Measured:
        """The criterion that novelty is about: the first."""
        return self.criteria[0]

    def metric(self, name: str | None) -> tuple[Measured, bool]:
        """Return the criterion of a metric, by default the main one, and whether of all cells."""
        asked = self.main.name if name is None else name
        return self.criterion(asked.removesuffix(OF_ALL)), asked.endswith(OF_ALL)

    def criterion(self, name: str) -> Measured:
        """Return a criterion that was measured; refuse another."""
        for known in self.criteria:
            if known.name == name:
                return known
        hint = " (`mncover run --masks`)" if name == "mncover" else ""
        raise SettingsError(f"{name!r} was not measured{hint}; there is {', '.join(self.names)}.")

    def require_same(self, other: Identity) -> None:
        """Refuse another model, tokenizer, ranges or settings, naming the first difference."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if one.name in ("model", "calibration_texts") or mine == theirs:  # no identity
                continue
            what = _difference(one.name, mine, theirs)
            raise MismatchError(f"cannot be combined: they differ in {what}.")


_CALLED = {
    "model_fingerprint": "the model's weights",
    "tokenizer_fingerprint": "the tokenizer",
    "ranges_fingerprint": "the ranges (calibrated on other texts)",
    "layout": "the model's sites",
    "masks": "the masks",
}


def _difference(name: str, mine: Any, theirs: Any) -> str:
    if name in ("settings", "prompting"):
        pairs = zip(mine.to_json().items(), theirs.to_json().items(), strict=True)
        return ", ".join(f"{key} ({a} and {b})" for (key, a), (_, b) in pairs if a != b)
    if name == "criteria":
        names = [", ".join(one.name for one in criteria) for criteria in (mine, theirs)]
        return f"the criteria ({names[0]} and {names[1]})"
    what = _CALLED.get(name, name.replace("_", " "))
    show = isinstance(mine, str | int) or name == "labels"
    return f"{what} ({str(mine)[:12]} and {str(theirs)[:12]})" if show else what


@dataclass(frozen=True)
class Run:
    """One session of measuring; its rows are numbered from 0.

    If only a part of its suite was run, `part` says which, and `whole` how many texts all have.
    """

    id: str
    created: str
    suite: str = ""
    suite_fingerprint: str = ""
    texts: int = 0  # how many were to be run, if known: fewer rows mean an interrupted run
    part: str = ""
    whole: int = 0

    @classmethod
    def start(
        cls,
        suite: str = "",
        suite_fingerprint: str = "",
        texts: int = 0,
        part: str = "",
        whole: int = 0,
    ) -> Run:
        """Return a new run with a name of its own."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
        return cls(secrets.token_hex(8), now, suite, suite_fingerprint, texts, part, whole)

    def to_json(self) -> list[Any]:
        """Return the fields as a list; the last two only if a part of the suite was run."""
        values = list(astuple(self))
        return values if self.part else values[:5]
