"""Numbers computed from what was measured.

Everything here is derived: counts are added up from maps, shares are properties, and nothing
is stored. It belongs to the reading half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria import COVER, MNCOVER, Metric
from mncover.data import maps
from mncover.data.display import html_table, percent
from mncover.data.layout import Layout
from mncover.data.store import CoverageData, Identity
from mncover.data.table import UNKNOWN
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.suites.judging import Outcome

# A text is redundant if at most this share of what it makes the model do is new.
REDUNDANT_AT = 0.01


@dataclass(frozen=True, slots=True)
class Count:
    """How many bins were covered, of how many, and how many of them can be reached at all."""

    covered: int = 0
    total: int = 0
    reachable: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.covered + other.covered,
            self.total + other.total,
            self.reachable + other.reachable,
        )

    @property
    def share(self) -> float:
        """The covered share of all bins, 0 to 1."""
        return self.covered / self.total if self.total else 0.0

    @property
    def share_of_reachable(self) -> float:
        """The covered share of the bins that can be reached, 0 to 1."""
        return self.covered / self.reachable if self.reachable else 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """Bins of both kinds of neuron, and the weighted share that is called Cover."""

    word: Count
    attention: Count
    attention_weight: float

    @property
    def cover(self) -> float:
        """Cover: (word + weight · attention) hits over all bins weighed alike."""
        weight = self.attention_weight
        total = self.word.total + weight * self.attention.total
        covered = self.word.covered + weight * self.attention.covered
        return covered / total if total else 0.0

    @property
    def cover_of_reachable(self) -> float:
        """Cover, if bins that no text can reach are left out of the total."""
        weight = self.attention_weight
        total = self.word.reachable + weight * self.attention.reachable
        covered = self.word.covered + weight * self.attention.covered
        return covered / total if total else 0.0


@dataclass(frozen=True, slots=True)
class SiteResult:
    """One site: its bins, and those of each head where it has heads.

    With masks, `masked` and `masked_heads` count only the hits that the masks let count.
    """

    name: str
    kind: str
    layer: int
    count: Count
    heads: tuple[Count, ...] = ()
    masked: Count | None = None
    masked_heads: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a context has by one metric: alone, over the contexts before it, over all others."""

    tally: Tally
    adds: float
    only_here: float


@dataclass(frozen=True, slots=True)
class ContextResult:
    """One context: what it covers, what it adds, and what only it has.

    `masked` is the same by mnCover, if there are masks. `redundant` counts the texts whose
    novelty is at most the asked share, `accuracy` is the share of labelled texts predicted
    right; both are None where it is not known.
    """

    name: str
    texts: int
    truncated: int
    empty: int
    plain: Contribution
    masked: Contribution | None
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
    def tally(self) -> Tally:
        """The bins of this context."""
        return self.plain.tally

    @property
    def cover(self) -> float:
        """Cover of this context alone."""
        return self.plain.tally.cover

    @property
    def adds(self) -> float:
        """What it adds to the Cover of the contexts before it."""
        return self.plain.adds

    @property
    def only_here(self) -> float:
        """How much of Cover only this context has."""
        return self.plain.only_here

    @property
    def mncover(self) -> float | None:
        """MnCover of this context alone; None without masks."""
        return None if self.masked is None else self.masked.tally.cover

    @property
    def accuracy(self) -> float | None:
        """The share of labelled texts that the model predicts right."""
        return 1 - self.wrong / self.labelled if self.labelled else None


@dataclass(frozen=True, slots=True)
class Result:
    """The coverage of everything measured, by site and by context."""

    identity: Identity
    tally: Tally
    sites: tuple[SiteResult, ...]
    contexts: tuple[ContextResult, ...]
    redundant_at: float
    interrupted: tuple[str, ...] = ()
    masked: Tally | None = None
    outcomes: tuple[Outcome, ...] = ()

    @property
    def cover(self) -> float:
        """Cover of all texts together, 0 to 1."""
        return self.tally.cover

    @property
    def mncover(self) -> float | None:
        """MnCover of all texts together, 0 to 1; None without masks."""
        return None if self.masked is None else self.masked.cover

    @property
    def word(self) -> Count:
        """The bins of hidden neurons."""
        return self.tally.word

    @property
    def attention(self) -> Count:
        """The bins of attention neurons."""
        return self.tally.attention

    @property
    def texts(self) -> int:
        """How many texts were run."""
        return sum(context.texts for context in self.contexts)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: totals, and a row for each context."""
        names = ["context", "texts", "Cover %", "mnCover %", "adds %", "only here %", "failing %"]
        rows = [
            [c.name, f"{c.texts:,}", *map(percent, shares)]
            for c in self.contexts
            for shares in ((c.cover, c.mncover, c.adds, c.only_here, c.failure_rate),)
        ]
        title = f"Cover {percent(self.cover)} % of {self.identity.model}"
        if self.mncover is not None:
            title += f", mnCover {percent(self.mncover)} %"
        return html_table(title, names, rows)


def weigh(identity: Identity, words: maps.Words) -> tuple[Tally, tuple[SiteResult, ...]]:
    """Count the bins of a map, by site and in all."""
    layout, bins = identity.layout, identity.settings.bins
    sites = []
    for site, covered, reachable in zip(
        layout.sites, maps.count_bits(words, layout, bins), identity.reachable, strict=True
    ):
        total = layout.neurons_per_group(site) * bins
        groups = tuple(Count(int(c), total, r) for c, r in zip(covered, reachable, strict=True))
        heads = groups if site.kind == "attention" else ()
        count = sum(groups, Count())
        sites.append(SiteResult(site.name, site.kind, site.layer, count, heads))
    return tally_of(identity, sites), tuple(sites)


def tally_of(identity: Identity, sites: Sequence[SiteResult]) -> Tally:
    """Add up sites."""
    word = sum((s.count for s in sites if s.kind == "hidden"), Count())
    attention = sum((s.count for s in sites if s.kind == "attention"), Count())
    return Tally(word, attention, identity.settings.attention_weight)


def summarize(
    data: CoverageData, outcomes: tuple[Outcome, ...] = (), redundant_at: float = REDUNDANT_AT
) -> Result:
    """Compute all numbers of a measurement; maps are unpacked one at a time, twice.

    `outcomes` are the results of the tests (see `judge_data`). A text counts as redundant if its
    novelty is at most `redundant_at`.
    """
    plain, tally, sites = _contributions(data, COVER)
    masked: list[Contribution] = []
    masked_tally = None
    if MNCOVER in data.metrics:
        masked, masked_tally, masked_sites = _contributions(data, MNCOVER)
        sites = tuple(
            replace(site, masked=other.count, masked_heads=other.heads)
            for site, other in zip(sites, masked_sites, strict=True)
        )
    redundant = novelty(data) <= redundant_at
    contexts = tuple(
        _with_failures(
            _context(data, number, plain[number], masked[number] if masked else None, redundant),
            outcomes,
        )
        for number in range(len(data.contexts))
    )
    interrupted = tuple(run.suite or run.id for run in data.incomplete)
    return Result(
        data.identity,
        tally,
        sites,
        contexts,
        redundant_at,
        interrupted,
        masked_tally,
        outcomes,
    )


def _with_failures(context: ContextResult, outcomes: Sequence[Outcome]) -> ContextResult:
    """Add how the cases of a test went; a test that was run twice counts twice."""
    mine = [outcome for outcome in outcomes if outcome.test.name == context.name]
    judged, failing = sum(o.judged for o in mine), sum(o.failing for o in mine)
    return replace(context, judged=judged, failing=failing)


def _contributions(
    data: CoverageData, metric: Metric
) -> tuple[list[Contribution], Tally, tuple[SiteResult, ...]]:
    """Weigh every context's map by itself and against the others, and the union of all."""
    identity = data.identity
    once = maps.empty_map(identity.layout, identity.settings.bins)
    twice = once.copy()
    adds: list[float] = []
    for _, words in data.each_map(metric):
        adds.append(weigh(identity, words & ~once)[0].cover)
        twice |= once & words
        once |= words
    found = [
        Contribution(weigh(identity, words)[0], new, weigh(identity, words & ~twice)[0].cover)
        for (_, words), new in zip(data.each_map(metric), adds, strict=True)
    ]
    tally, sites = weigh(identity, once)
    return found, tally, sites


def _context(
    data: CoverageData,
    number: int,
    plain: Contribution,
    masked: Contribution | None,
    redundant: NDArray[np.bool_],
) -> ContextResult:
    table = data.table
    mine = table["context"] == number
    known = bool((table["new_hidden"][mine] != UNKNOWN).all())
    judged = mine & (table["label"] != UNKNOWN) & (table["prediction"] != UNKNOWN)
    return ContextResult(
        name=data.contexts[number],
        texts=int(mine.sum()),
        truncated=int(table["truncated"][mine].sum()),
        empty=int((table["length"][mine] == 0).sum()),
        plain=plain,
        masked=masked,
        redundant=int(redundant[mine].sum()) if known else None,
        labelled=int(judged.sum()),
        wrong=int((table["label"] != table["prediction"])[judged].sum()),
    )


def novelty(data: CoverageData) -> NDArray[np.float64]:
    """Return, for each text, how much of what it made the model do was new, 0 to 1.

    That is, of the neurons it touched, the share in which it hit a bin that no text before it
    in its run had hit, the two kinds weighed as in Cover. Unlike the gain it does not grow with
    the text's length. NaN where the order of the run was not kept.
    """
    table = data.table
    weight = data.identity.settings.attention_weight
    new = table["new_hidden"] + weight * table["new_attention"]
    # A text without tokens touches nothing: nothing of it was new.
    shares = new / np.maximum(touched_neurons(data.identity, table["length"]), 1.0)
    return np.where(table["new_hidden"] == UNKNOWN, np.nan, shares)


def touched_neurons(identity: Identity, lengths: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many neurons a text of each length touches, the two kinds weighed as in Cover."""
    layout, weight = identity.layout, identity.settings.attention_weight
    distinct, which = np.unique(lengths, return_inverse=True)
    touched = [
        layout.touched_neurons("hidden", int(n))
        + weight * layout.touched_neurons("attention", int(n))
        for n in distinct
    ]
    return np.array(touched, dtype=np.float64)[which]


def gain_share(layout: Layout, settings: Settings, new_hidden: Any, new_attention: Any) -> Any:
    """Return newly hit bins, numbers or arrays of them, as what they add to Cover."""
    totals = {"hidden": 0, "attention": 0}
    for site in layout.sites:
        totals[site.kind] += layout.neurons(site) * settings.bins
    weight = settings.attention_weight
    new = np.asarray(new_hidden) + weight * np.asarray(new_attention)
    return new / (totals["hidden"] + weight * totals["attention"])


def below(share: float, fail_under: float) -> bool:
    """Return whether a share falls short of `fail_under` percent; 100 means truly all."""
    return share * 100 < fail_under
