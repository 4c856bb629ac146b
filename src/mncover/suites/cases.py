"""The cases of a test: one by one, or as a column whose texts are on disk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Coded, Coder, Column, Numbers, Places, at_places
from mncover.data.texts import TextFile, Texts
from mncover.suites.answers import Label
from mncover.types import Text


@dataclass(frozen=True, slots=True)
class Case:
    """Texts that are judged together, and the correct class, or answer, if one is needed."""

    texts: tuple[Text, ...]
    label: Label = None


class CaseColumn(Column[Case]):
    """Cases whose texts follow each other; `ends` says where each begins and ends."""

    def __init__(
        self, texts: Sequence[Text], ends: NDArray[np.integer[Any]], labels: Coded[Label]
    ) -> None:
        self.texts, self.ends, self.labels = texts, ends, labels

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> Numbers:
        """How many texts each case has."""
        return Numbers(np.diff(self.ends))

    def at(self, places: Places) -> list[Case]:
        """Return the cases at some places."""
        starts, sizes = self.ends[places], self.ends[places + 1] - self.ends[places]
        ends = np.cumsum([0, *sizes.tolist()])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
        texts = at_places(self.texts, np.repeat(starts, sizes) + within)
        each = zip(pairwise(ends.tolist()), self.labels.at(places), strict=True)
        return [Case(tuple(texts[start:stop]), label) for (start, stop), label in each]


class CaseWriter:
    """Makes a `CaseColumn`, case by case; only one at a time may write to a file."""

    def __init__(self, file: TextFile) -> None:
        self.file, self._start = file, len(file)
        self._ends = array("i", [0])
        self._labels = Coder[Label]()

    def add(self, case: Case) -> None:
        """Add a case to the end."""
        for text in case.texts:
            self.file.add(text)
        self._ends.append(len(self.file) - self._start)
        self._labels.add(case.label)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def cases(self) -> CaseColumn:
        """Return what was added."""
        texts = self.file.texts(self._start, self._start + self._ends[-1])
        return CaseColumn(texts, np.array(self._ends, np.int32), self._labels.column())


def written(cases: Iterable[Case], file: TextFile) -> CaseColumn:
    """Return cases as a column, whose texts go to a file."""
    writer = CaseWriter(file)
    for case in cases:
        writer.add(case)
    return writer.cases()


def all_texts(parts: Sequence[Sequence[Case]]) -> Texts:
    """Return the texts of all cases as one column, which is there if they came from one file."""
    found = [part.texts for part in parts if isinstance(part, CaseColumn)]
    columns = [texts for texts in found if isinstance(texts, Texts)]
    in_order = all(a.file is b.file and a.stop == b.start for a, b in pairwise(columns))
    if columns and len(columns) == len(parts) and in_order:
        return columns[0].file.texts(columns[0].start, columns[-1].stop)
    file = TextFile()
    for part in parts:
        written(part, file)
    return file.texts()
