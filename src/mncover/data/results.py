"""Numbers computed from what was measured.

Everything here is derived: counts are added up from maps, shares are properties, and nothing
is stored. Every number that depends on a criterion is kept by the criterion's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.estimate import Estimate
from mncover.data.identity import Identity, Measured
from mncover.data.layout import Layout
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.data.threads import in_threads
from mncover.types import Settings, html_table, percent

if TYPE_CHECKING:
    from mncover.suites.judging import Outcome

# A text is redundant if at most this share of what it makes the model do is new.
REDUNDANT_AT = 0.01


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells were covered, of how many, and how many of them can be reached at all."""

    covered: int = 0
    total: int = 0
    reachable: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.covered + other.covered, self.total + other.total, self.reachable + other.reachable
        )

    @property
    def share(self) -> float:
        """The covered share of all cells, 0 to 1."""
        return self.covered / self.total if self.total else 0.0

    @property
    def share_of_reachable(self) -> float:
        """The covered share of the cells that can be reached, 0 to 1."""
        return self.covered / self.reachable if self.reachable else 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """Cells of both kinds of neuron, and the weighted share that a criterion is."""

    word: Count
    attention: Count
    attention_weight: float

    @property
    def share(self) -> float:
        """(word + weight · attention) hits over all cells weighted alike."""
        return self._weighted(self.word.total, self.attention.total)

    @property
    def share_of_reachable(self) -> float:
        """The share, if cells that no text can reach are left out of the total."""
        return self._weighted(self.word.reachable, self.attention.reachable)

    def _weighted(self, word: int, attention: int) -> float:
        weight = self.attention_weight
        total = word + weight * attention
        covered = self.word.covered + weight * self.attention.covered
        return covered / total if total else 0.0


@dataclass(frozen=True, slots=True)
class SiteResult:
    """One site by one criterion: its cells, and those of each head where it has heads."""

    name: str
    kind: str
    layer: int
    count: Count
    heads: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """All texts together by one criterion."""

    name: str
    title: str
    tally: Tally
    sites: tuple[SiteResult, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a context covers by one criterion: alone, beyond those before it, beyond all others."""

    tally: Tally
    adds: float
    only_here: float


@dataclass(frozen=True, slots=True)
class ContextResult:
    """One context: what it covers by each criterion, and how its texts fared.

    `redundant` counts the texts whose novelty is at most the asked share, `accuracy` is the share
    of labelled texts predicted right; both are None where they are not known.
    """

    name: str
    texts: int
    truncated: int
    empty: int
    by: Mapping[str, Contribution]
    redundant: int | None
    labelled: int
    wrong: int
    judged: int = 0
    failing: int = 0

    @property
    def failure_rate(self) -> float | None:
        """The failing share of the cases judged, if the context is a test; else None."""
        return self.failing / self.judged if self.judged else None

    @property
    def main(self) -> Contribution:
        """What it covers by the main criterion."""
        return next(iter(self.by.values()))

    def share(self, criterion: str) -> float:
        """Return what this context alone covers by a criterion, 0 to 1."""
        return self.by[criterion].tally.share

    @property
    def cover(self) -> float:
        """Cover of this context alone, 0 to 1."""
        return self.share("cover")

    @property
    def mncover(self) -> float | None:
        """MnCover of this context alone; None without masks."""
        return self.share("mncover") if "mncover" in self.by else None

    @property
    def adds(self) -> float:
        """What it adds to the main criterion's coverage by the contexts before it."""
        return self.main.adds

    @property
    def only_here(self) -> float:
        """How much of the main criterion's coverage only this context has."""
        return self.main.only_here

    @property
    def accuracy(self) -> float | None:
        """The share of labelled texts that the model predicts right."""
        return 1 - self.wrong / self.labelled if self.labelled else None


@dataclass(frozen=True, slots=True)
class Result:
    """The coverage of everything measured, by criterion, site and context."""

    identity: Identity
    criteria: Mapping[str, CriterionResult]
    contexts: tuple[ContextResult, ...]
    redundant_at: float
    interrupted: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = field(default=())
    estimates: tuple[Estimate, ...] = ()

    @property
    def main(self) -> CriterionResult:
        """The main criterion: the first that was measured."""
        return next(iter(self.criteria.values()))

    def share(self, criterion: str) -> float:
        """Return what all texts together cover by a criterion, 0 to 1; refuse one not measured."""
        return self.criteria[self.identity.criterion(criterion).name].tally.share

    @property
    def cover(self) -> float:
        """Cover of all texts together, 0 to 1; refuses if it was not measured."""
        return self.share("cover")

    @property
    def mncover(self) -> float | None:
        """MnCover of all texts together, 0 to 1; None without masks."""
        return self.share("mncover") if "mncover" in self.criteria else None

    @property
    def sites(self) -> tuple[SiteResult, ...]:
        """The sites by the main criterion."""
        return self.main.sites

    @property
    def word(self) -> Count:
        """The cells of hidden neurons by the main criterion."""
        return self.main.tally.word

    @property
    def attention(self) -> Count:
        """The cells of attention neurons by the main criterion."""
        return self.main.tally.attention

    @property
    def texts(self) -> int:
        """How many texts were run."""
        return sum(context.texts for context in self.contexts)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: totals, and a row for each context."""
        criteria = self.criteria.values()
        names = ["context", "texts", *(f"{c.title} %" for c in criteria)]
        rows = []
        for context in self.contexts:
            shares = [context.share(name) for name in self.criteria]
            shown = (*shares, context.adds, context.only_here, context.failure_rate)
            rows.append([context.name, f"{context.texts:,}", *map(percent, shown)])
        title = ", ".join(f"{c.title} {percent(c.tally.share)} %" for c in criteria)
        names += ["adds %", "only here %", "failing %"]
        return html_table(f"{title} of {self.identity.model}", names, rows)


def weigh(
    identity: Identity, bits: maps.Bits, criterion: Measured | None = None
) -> tuple[Tally, tuple[SiteResult, ...]]:
    """Count the cells of a map of a criterion (the main one if not given), by site and in all."""
    layout, measured = identity.layout, criterion or identity.main
    sites = []
    for site, covered, reachable in zip(
        layout.sites, maps.count_bits(bits, layout, measured.cells), measured.reachable, strict=True
    ):
        total = layout.neurons_per_group(site) * measured.cells
        groups = tuple(Count(int(c), total, r) for c, r in zip(covered, reachable, strict=True))
        heads = groups if site.kind == "attention" else ()
        sites.append(SiteResult(site.name, site.kind, site.layer, sum(groups, Count()), heads))
    word, attention = (
        sum((s.count for s in sites if s.kind == kind), Count()) for kind in ("hidden", "attention")
    )
    return Tally(word, attention, identity.settings.attention_weight), tuple(sites)


def summarize(
    data: CoverageData,
    outcomes: Sequence[Outcome] = (),
    redundant_at: float = REDUNDANT_AT,
    estimates: Sequence[Estimate] = (),
) -> Result:
    """Compute all numbers of a measurement; maps are unpacked a few at a time, twice.

    `outcomes` say how the tests of its suites went, `estimates` how whole tests would. A text
    counts as redundant if its novelty is at most `redundant_at`.
    """
    criteria: dict[str, CriterionResult] = {}
    by: list[dict[str, Contribution]] = [{} for _ in data.contexts]
    for measured in data.identity.criteria:
        parts, criteria[measured.name] = _contributions(data, measured)
        for context, part in zip(by, parts, strict=True):
            context[measured.name] = part
    redundant = novelty(data) <= redundant_at
    contexts = tuple(_context(data, n, one, redundant, outcomes) for n, one in enumerate(by))
    interrupted = tuple(run.suite or run.id for run in data.incomplete)
    found = (tuple(outcomes), tuple(estimates))
    return Result(data.identity, criteria, contexts, redundant_at, interrupted, *found)


def _contributions(
    data: CoverageData, measured: Measured
) -> tuple[list[Contribution], CriterionResult]:
    """Weigh every context's map by itself and against the others, and the union of all."""
    identity, name = data.identity, measured.name

    def tally(bits: maps.Bits) -> Tally:
        return weigh(identity, bits, measured)[0]

    def only_here(context: str) -> tuple[Tally, float]:
        bits = data.map_of(context, name)
        return tally(bits), tally(bits & ~twice).share

    once = maps.empty_map(identity.layout, measured.cells)
    twice = once.copy()
    adds: list[float] = []
    for _, bits in data.each_map(name):
        adds.append(tally(bits & ~once).share)
        twice |= once & bits
        once |= bits
    alone = in_threads(only_here, data.contexts)
    found = [Contribution(mine, new, own) for (mine, own), new in zip(alone, adds, strict=True)]
    return found, CriterionResult(name, measured.title, *weigh(identity, once, measured))


def _context(
    data: CoverageData,
    number: int,
    by: Mapping[str, Contribution],
    redundant: NDArray[np.bool_],
    outcomes: Sequence[Outcome],
) -> ContextResult:
    table, name = data.table, data.contexts[number]
    mine = table["context"] == number
    labelled = mine & (table["label"] != UNKNOWN) & (table["prediction"] != UNKNOWN)
    ordered = table.ordered(data.identity.main.name, mine)
    # A test that was run twice counts twice.
    tests = [outcome for outcome in outcomes if outcome.test.name == name]
    return ContextResult(
        name=name,
        texts=int(mine.sum()),
        truncated=int(table["truncated"][mine].sum()),
        empty=int((table["length"][mine] == 0).sum()),
        by=by,
        redundant=int(redundant[mine].sum()) if ordered else None,
        labelled=int(labelled.sum()),
        wrong=int((table["label"] != table["prediction"])[labelled].sum()),
        judged=sum(test.judged for test in tests),
        failing=sum(test.failing for test in tests),
    )


def novelty(data: CoverageData) -> NDArray[np.float64]:
    """Return, for each text, how much of what it made the model do was new, 0 to 1.

    That is, of the neurons it touched, the share in which it hit a cell that no text before it
    in its run had hit, by the main criterion, the two kinds weighted as in it. Unlike the gain it
    does not grow with the text's length. NaN where the order of the run was not kept.
    """
    table = data.table
    hidden, attention = table.new[data.identity.main.name]
    new = hidden + data.identity.settings.attention_weight * attention
    # A text without tokens touches nothing: nothing of it was new.
    shares = new / np.maximum(touched_neurons(data.identity, table["length"]), 1.0)
    return np.where(hidden == UNKNOWN, np.nan, shares)


def touched_neurons(identity: Identity, lengths: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many neurons a text of each length touches, the two kinds weighted."""
    layout, weight = identity.layout, identity.settings.attention_weight
    distinct, which = np.unique(lengths, return_inverse=True)
    touched = layout.touched_neurons
    found = [touched("hidden", n) + weight * touched("attention", n) for n in distinct.tolist()]
    return np.array(found, dtype=np.float64)[which]


def gains(data: CoverageData, criterion: str, rows: Any = slice(None)) -> NDArray[np.float64]:
    """Return what each text added to a criterion; NaN where the order was not kept."""
    new, identity = data.table.new[criterion][:, rows], data.identity
    cells = identity.criterion(criterion).cells
    shares = gain_share(identity.layout, identity.settings, cells, *new)
    return np.where(new[0] == UNKNOWN, np.nan, shares)


def gain_share(
    layout: Layout, settings: Settings, cells: int, new_hidden: Any, new_attention: Any
) -> Any:
    """Return newly hit cells, numbers or arrays of them, as a share of all cells."""
    totals = {"hidden": 0, "attention": 0}
    for site in layout.sites:
        totals[site.kind] += layout.neurons(site) * cells
    weight = settings.attention_weight
    new = np.asarray(new_hidden) + weight * np.asarray(new_attention)
    return new / (totals["hidden"] + weight * totals["attention"])


def below(share: float, fail_under: float) -> bool:
    """Return whether a share falls short of `fail_under` percent; 100 means truly all."""
    return share * 100 < fail_under
