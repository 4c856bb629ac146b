"""Numbers computed from what was measured.

Everything here is derived: counts are added up from maps, shares are properties, and nothing
is stored. Every number that depends on a criterion is kept by the criterion's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.calibration import Calibration, Yardstick, yardstick
from mncover.data.counts import Count, Tally
from mncover.data.estimate import Estimate
from mncover.data.gains import novelty
from mncover.data.identity import Identity, Measured
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.data.threads import in_threads
from mncover.types import html_table, percent

if TYPE_CHECKING:
    from mncover.report.frames import Frame, Tables
    from mncover.suites.judging import Outcome

# A text adds little if at most this share of what it makes the model do is new.
ADDS_LITTLE_AT = 0.01


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
    new: Tally
    own: Tally

    @property
    def adds(self) -> float:
        """What the contexts before it do not cover, as a share of all cells."""
        return self.new.share

    @property
    def only_here(self) -> float:
        """What no other context covers, as a share of all cells."""
        return self.own.share


@dataclass(frozen=True, slots=True)
class ContextResult:
    """One context: what it covers by each criterion, and how its texts fared.

    `adds_little` counts the texts whose novelty is at most the asked share, `little_failing` those
    among them that fail, or whose case does. `outside` is the mean share of a text's values that
    no range holds. `accuracy` is the share of labelled texts predicted right. They are None where
    they are not known. `judged` and `failing` count cases: those of tests, and labelled texts that
    belong to no test.
    """

    name: str
    texts: int
    truncated: int
    empty: int
    by: Mapping[str, Contribution]
    adds_little: int | None
    little_failing: int | None
    outside: float | None
    labelled: int
    wrong: int
    judged: int = 0
    failing: int = 0

    @property
    def failure_rate(self) -> float | None:
        """The failing share of the cases judged; None if none was."""
        return self.failing / self.judged if self.judged else None

    @property
    def main(self) -> Contribution:
        """What it covers by the main criterion."""
        return next(iter(self.by.values()))

    def share(self, criterion: str) -> float:
        """Return what this context alone covers by a criterion, 0 to 1."""
        return self.by[criterion].tally.share

    def share_of_reachable(self, criterion: str) -> float:
        """Return the same as a share of the cells that can be reached."""
        return self.by[criterion].tally.share_of_reachable

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
    adds_little_at: float
    interrupted: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # of which suites only a part was run, and which
    outcomes: tuple[Outcome, ...] = field(default=())
    calibration: Calibration | None = field(default=None, compare=False)
    tables: Tables | None = field(default=None, repr=False, compare=False)
    estimates: tuple[Estimate, ...] = ()  # of a run of a plan: how whole tests would go

    @property
    def main(self) -> CriterionResult:
        """The main criterion: the first that was measured."""
        return next(iter(self.criteria.values()))

    def share(self, criterion: str) -> float:
        """Return what all texts together cover by a criterion, 0 to 1; refuse one not measured."""
        return self.criteria[self.identity.criterion(criterion).name].tally.share

    def share_of_reachable(self, criterion: str) -> float:
        """Return the same as a share of the cells that can be reached: what reports show first."""
        return self.criteria[self.identity.criterion(criterion).name].tally.share_of_reachable

    def yardstick(self, criterion: str | None = None) -> Yardstick | None:
        """Return what as many random calibration texts reach; None if that is not known."""
        name = criterion or self.main.name
        return yardstick(
            self.calibration, self.identity, self.identity.criterion(name), self.n_texts
        )

    @property
    def judged(self) -> int:
        """How many cases are known to pass or to fail."""
        return sum(context.judged for context in self.contexts)

    @property
    def failing(self) -> int:
        """How many cases fail."""
        return sum(context.failing for context in self.contexts)

    @property
    def outside(self) -> float | None:
        """The mean share of a text's values that no range holds; None if it is not known."""
        known = [(c.outside, c.texts) for c in self.contexts if c.outside is not None]
        texts = sum(n for _, n in known)
        return sum(share * n for share, n in known) / texts if texts else None

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
    def n_texts(self) -> int:
        """How many texts were run."""
        return sum(context.texts for context in self.contexts)

    def texts(self) -> Frame:
        """Return a table with a row for each text: what `mncover json --texts` has."""
        return self._tables.texts()

    def cases(self) -> Frame:
        """Return a table with a row for each case; in a plain list every text is one."""
        return self._tables.cases()

    def tests(self) -> Frame:
        """Return a table with a row for each test, or context: what it covers, how it fails."""
        return self._tables.tests(self)

    @property
    def _tables(self) -> Tables:
        assert self.tables is not None  # `Coverage.result` has given them
        return self.tables

    def _repr_html_(self) -> str:
        """Return what a notebook shows: totals, and a row for each context."""
        criteria = self.criteria.values()
        names = ["test", "texts", *(f"{c.title} %" for c in criteria)]
        rows = []
        for context in self.contexts:
            shares = [context.share_of_reachable(name) for name in self.criteria]
            main = context.main.new.share_of_reachable, context.main.own.share_of_reachable
            shown = (*shares, *main, context.failure_rate)
            rows.append([context.name, f"{context.texts:,}", *map(percent, shown)])
        totals = [f"{c.title} {percent(c.tally.share_of_reachable)} %" for c in criteria]
        title = f"{', '.join(totals)} of the reachable bins"
        names += ["adds %", "only here %", "failing %"]
        return html_table(f"{title} of {self.identity.model}", names, rows)


def weigh(
    identity: Identity,
    bits: maps.Bits,
    criterion: Measured | None = None,
    length: int | None = None,
) -> tuple[Tally, tuple[SiteResult, ...]]:
    """Count the cells of a map of a criterion (the main one if not given), by site and in all.

    `length` says that the map is in the layout that is cropped to it.
    """
    measured = criterion or identity.main
    layout = measured.layout
    own = layout if length is None else layout.cropped(length)
    sites = []
    for site, covered, reachable in zip(
        layout.sites, maps.count_bits(bits, own, measured.cells), measured.reachable, strict=True
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
    adds_little_at: float = ADDS_LITTLE_AT,
    failing: NDArray[np.bool_] | None = None,
) -> Result:
    """Compute all numbers of a measurement; maps are unpacked a few at a time, twice.

    `outcomes` say how the tests of its suites went, `failing` which rows belong to a case that
    fails; `suites.judging.result_of` finds both. A text adds little if its novelty is at most
    `adds_little_at`.
    """
    criteria: dict[str, CriterionResult] = {}
    by: list[dict[str, Contribution]] = [{} for _ in data.contexts]
    for measured in data.identity.criteria:
        parts, criteria[measured.name] = _contributions(data, measured)
        for context, part in zip(by, parts, strict=True):
            context[measured.name] = part
    little = novelty(data) <= adds_little_at
    fails = misclassified(data) if failing is None else failing
    contexts = tuple(_context(data, n, one, little, fails, outcomes) for n, one in enumerate(by))
    interrupted = tuple(run.suite or run.id for run in data.incomplete)
    chosen = tuple(f"{run.suite}: {run.part}" for run in data.runs if run.part)
    found = criteria, contexts, adds_little_at, interrupted, chosen
    return Result(data.identity, *found, tuple(outcomes), data.calibration)


def misclassified(data: CoverageData) -> NDArray[np.bool_]:
    """Return which labelled texts were given another class than their label."""
    label, prediction = data.table["label"], data.table["prediction"]
    wrong: NDArray[np.bool_] = (label != prediction) & (label != UNKNOWN) & (prediction != UNKNOWN)
    return wrong


def _contributions(
    data: CoverageData, measured: Measured
) -> tuple[list[Contribution], CriterionResult]:
    """Weigh every context's map by itself and against the others, and the union of all.

    Maps are cropped to the longest text, which saves much where `max_length` is far above it.
    """
    identity, name, length = data.identity, measured.name, data.longest

    def tally(bits: maps.Bits) -> Tally:
        return weigh(identity, bits, measured, length)[0]

    def only_here(context: str) -> tuple[Tally, Tally]:
        bits = data.map_of(context, name, length)
        return tally(bits), tally(bits & ~twice)

    once = maps.empty_map(measured.layout.cropped(length), measured.cells)
    twice = once.copy()
    adds: list[Tally] = []
    for _, bits in data.each_map(name, length):
        adds.append(tally(bits & ~once))
        twice |= once & bits
        once |= bits
    alone = in_threads(only_here, data.contexts)
    found = [Contribution(mine, new, own) for (mine, own), new in zip(alone, adds, strict=True)]
    return found, CriterionResult(name, measured.title, *weigh(identity, once, measured, length))


def _context(
    data: CoverageData,
    number: int,
    by: Mapping[str, Contribution],
    little: NDArray[np.bool_],
    fails: NDArray[np.bool_],
    outcomes: Sequence[Outcome],
) -> ContextResult:
    table, name = data.table, data.contexts[number]
    mine = table["context"] == number
    labelled = mine & (table["label"] != UNKNOWN) & (table["prediction"] != UNKNOWN)
    alone = labelled & (table["case"] == UNKNOWN)  # a text that is a case by itself
    wrong = table["label"] != table["prediction"]
    ordered = table.ordered(data.identity.main.name, mine)
    outside = table["outside"][mine]
    outside = outside[~np.isnan(outside)]
    # A test that was run twice counts twice.
    tests = [outcome for outcome in outcomes if outcome.test.name == name]
    return ContextResult(
        name=name,
        texts=int(mine.sum()),
        truncated=int(table["truncated"][mine].sum()),
        empty=int((table["length"][mine] == 0).sum()),
        by=by,
        adds_little=int(little[mine].sum()) if ordered else None,
        little_failing=int((little & fails)[mine].sum()) if ordered else None,
        outside=float(outside.mean(dtype=np.float64)) if len(outside) else None,
        labelled=int(labelled.sum()),
        wrong=int(wrong[labelled].sum()),
        judged=sum(test.judged for test in tests) + int(alone.sum()),
        failing=sum(test.failing for test in tests) + int(wrong[alone].sum()),
    )


def below(share: float, fail_under: float) -> bool:
    """Return whether a share falls short of `fail_under` percent; 100 means truly all."""
    return share * 100 < fail_under
