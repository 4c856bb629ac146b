"""Find failures with people's help: batches to judge, verdicts, and what was found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import datafile
from mncover.data.columns import taken
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.errors import DataFileError, SettingsError
from mncover.selection.batches import EXPLORE, Chooser, Seen
from mncover.selection.cases import case_rows
from mncover.selection.diverse import cells_of
from mncover.selection.findings import Findings, summarize_findings
from mncover.selection.flaggedfile import is_flagged, read_flagged
from mncover.selection.journal import VERDICTS, Asked, Journal, Verdict, Why, subject_key
from mncover.selection.pool import cluster, pool_of
from mncover.suites.rows import label_numbers
from mncover.types import Text, html_table


@dataclass(frozen=True, slots=True)
class Item:
    """A case to look at: its texts, what the model answered, and why it was chosen.

    `case` is its number in the suite or file that was run. `answers` and `confidences` have an
    entry for each text. `expected` is how likely it is to fail.
    """

    case: int
    texts: tuple[Text, ...]
    answers: tuple[str, ...]
    confidences: tuple[float, ...]
    batch: int
    why: Why
    cluster: int
    expected: float
    verdict: Verdict | None = None


class Batch(list[Item]):
    """Some cases to look at; a notebook shows them as a table."""

    @property
    def expected(self) -> float:
        """How many failures are expected among them."""
        return sum(item.expected for item in self)

    def _repr_html_(self) -> str:
        rows = [
            [str(i.case), " / ".join(map(str, i.texts)), ", ".join(i.answers), i.why] for i in self
        ]
        return html_table(f"{len(self)} cases to judge", ["case", "text", "answer", "why"], rows)


class Finder:
    """Chooses cases that are worth judging from a run, and learns from verdicts.

    `run` is a data file, flagged texts that `gaps` wrote, or a `Coverage` that has measured. With
    `journal`, a path, what was asked and answered is kept there, and another finder goes on from
    it. Expectations, labels and test names of the run are never looked at.

        finder = Finder("run.mncover")
        batch = finder.next(50)
        finder.tell({item.case: "wrong" if bad(item) else "ok" for item in batch})
        print(finder.findings().left)
    """

    def __init__(
        self,
        run: Any,
        *,
        journal: str | Path | None = None,
        explore: float = EXPLORE,
        seed: int = 0,
    ) -> None:
        if not 0 <= explore <= 1:
            raise SettingsError(f"`explore` must be from 0 to 1, got {explore}.")
        self.data = _data_of(run)
        if not self.has_inside and not self.data.identity.labels:
            raise DataFileError(
                "the model has no classes and the data has no signatures, so there is nothing to "
                "choose by: run it again without --no-signatures."
            )
        self.numbers, self.rows = case_rows(self.data)
        if not len(self.rows):
            raise DataFileError("there is no complete case to judge.")
        self._position = {int(number): at for at, number in enumerate(self.numbers)}
        self.explore, self.seed = explore, seed
        path = None if journal is None else Path(journal)
        self.journal = Journal.open(subject_key(self.data), path)
        if foreign := self.journal.cases - self._position.keys():
            raise DataFileError(
                f"{path}: it is about case {min(foreign)}, which is not in the data."
            )

    @property
    def has_inside(self) -> bool:
        """Whether the data has signatures; without them only outputs are known."""
        return bool(self.data.table.signatures.shape[1])

    @cached_property
    def chooser(self) -> Chooser:
        """What chooses; it reads outputs and signatures, nothing else."""
        pool = pool_of(self.data.table, self.rows)
        inside = pool.inside if pool.inside.shape[1] else pool.outputs
        space = self.data.space
        cells = None if space is None else cells_of(pool.inside, space)
        return Chooser(pool, cluster(inside, self.seed), cells, self.explore, self.seed)

    def next(self, n: int = 50) -> Batch:
        """Return the next n cases to judge; none is ever returned twice."""
        if n < 1:
            raise SettingsError(f"a batch has at least 1 case, got {n}.")
        chosen = self.chooser.choose(n, self.seen(), self.journal.batches + 1)
        asked = [replace(one, case=int(self.numbers[one.case])) for one in chosen]
        self.journal.ask(asked)
        return Batch(map(self.item, asked))

    def tell(self, verdicts: Mapping[int, Any] | Sequence[Any]) -> None:
        """Take verdicts: `ok`, `wrong`, or the right class; None for a case not judged.

        A mapping is by case; a list is for the cases of the last batch, in order.
        """
        if not isinstance(verdicts, Mapping):
            mine = (one for one in self.journal.asked if one.batch == self.journal.batches)
            last = [one.case for one in mine if one.why != "given"]
            if len(last) != len(verdicts):
                raise SettingsError(
                    f"the last batch has {len(last)} cases, but there are {len(verdicts)} verdicts."
                )
            verdicts = dict(zip(last, verdicts, strict=True))
        found = {int(case): self.verdict(int(case), given) for case, given in verdicts.items()}
        known = {case: verdict for case, verdict in found.items() if verdict is not None}
        new = [case for case in known if case not in self.journal.cases]
        self.journal.ask([self._given(case) for case in new])
        self.journal.tell(known)

    def _given(self, case: int) -> Asked:
        """Return a case that was judged although no batch had it."""
        group = int(self.chooser.clusters[self._position[case]])
        return Asked(case, self.journal.batches, "given", group)

    def verdict(self, case: int, given: Any) -> Verdict | None:
        """Return `ok` or `wrong` for what a person wrote about a case; None for nothing."""
        if case not in self._position:
            raise SettingsError(f"there is no case {case}; they are numbered from 0.")
        if given is None or (isinstance(given, str) and not given.strip()):
            return None
        said = str(given).strip().casefold()
        for known in VERDICTS:
            if said == known:
                return known
        rows = self.rows[self._position[case]]
        answer, labels = int(self.data.table["prediction"][rows[0]]), self.data.identity.labels
        choices = ", ".join([*VERDICTS, *(labels if len(rows) == 1 else ())])
        if len(rows) == 1 and answer != UNKNOWN and said in _names(labels):
            return "ok" if label_numbers([said], labels)[0] == answer else "wrong"
        raise SettingsError(f"case {case}: a verdict is one of {choices}; got {given!r:.40}.")

    @property
    def pending(self) -> Batch:
        """The cases that were chosen and have no verdict yet."""
        return Batch(map(self.item, self.journal.pending))

    def texts(self, case: int) -> tuple[Text, ...]:
        """Return the texts of a case."""
        return tuple(taken(self.data.table.texts, self.rows[self._position[case]]))

    def item(self, asked: Asked) -> Item:
        """Return a case that was asked about, to be shown."""
        table, rows = self.data.table, self.rows[self._position[asked.case]]
        labels = self.data.identity.labels
        predictions = [int(table["prediction"][row]) for row in rows]
        return Item(
            asked.case,
            self.texts(asked.case),
            tuple("" if p == UNKNOWN else labels[p] for p in predictions),
            tuple(float(np.nanmax(table.probabilities[row], initial=0)) for row in rows),
            asked.batch,
            asked.why,
            asked.cluster,
            asked.expected,
            self.journal.verdicts.get(asked.case),
        )

    def findings(self) -> Findings:
        """Return what was found so far, and an estimate of what is left."""
        return summarize_findings(self.journal, len(self.rows))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was found, and a row for each batch."""
        found = self.findings()
        title = f"{found.failing:,} of {found.judged:,} judged cases fail"
        if found.left is not None:
            title += f", about {found.left.value:,.0f} are left in {found.cases:,} cases"
        rows = [
            [
                *map(str, (b.number, b.cases, b.judged, b.failing)),
                "" if b.expected is None else f"{b.expected:.1f}",
            ]
            for b in found.batches
        ]
        return html_table(title, ["batch", "cases", "judged", "failing", "expected"], rows)

    def seen(self) -> Seen:
        """Return the positions of the cases that were asked about and judged, for the chooser."""
        asked = [self._position[case] for case in sorted(self.journal.cases)]
        judged = sorted(self.journal.verdicts.items())
        places = [self._position[case] for case, _ in judged]
        fails = [verdict == "wrong" for _, verdict in judged]
        return Seen(_ints(asked), _ints(places), np.array(fails, dtype=bool))


def _ints(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _names(labels: Sequence[str]) -> set[str]:
    return {name.casefold() for name in labels} | {str(i) for i in range(len(labels))}


def _data_of(run: Any) -> CoverageData:
    if isinstance(run, str | Path):
        path = Path(run)
        return read_flagged(path) if is_flagged(path) else datafile.read(path)
    found = getattr(run, "data", run)
    if not isinstance(found, CoverageData):
        raise SettingsError(f"a finder needs a data file or a Coverage, got {type(run).__name__}.")
    return found
