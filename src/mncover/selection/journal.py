"""Which cases were asked about, how they were chosen, and what people said: kept in a file.

The file is beside the data file and only ever grows: a line for each case that was put into a
batch, and a line for each verdict, of which the last one counts. It knows the model's weights and
the texts that it is about, because a verdict is about an answer of one model to one text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from mncover.data.schema import Maybe, OneOf, Whole, check_shape
from mncover.data.store import CoverageData
from mncover.data.writing import replacing
from mncover.errors import DataFileError, MismatchError, SchemaError
from mncover.types import fingerprint_texts

Verdict = Literal["ok", "wrong"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Why = Literal["start", "likely", "explore", "survey", "given"]
WHYS: tuple[Why, ...] = get_args(Why)
VERSION = 1

# What the lines look like: the first one, one for a case that was asked about, one for a verdict.
_FIRST = {"mncover": OneOf(("verdicts",)), "version": Whole(1, VERSION), "about": str}
_NUMBERS = {"case": Whole(), "batch": Whole(), "cluster": Maybe(Whole(-1))}
_SHARES: dict[str, Any] = dict.fromkeys(("expected", "chance", "rest"), Maybe(float))
_ASKED = {"asked": {**_NUMBERS, **_SHARES, "why": OneOf(WHYS)}}
_TOLD = {"case": Whole(), "verdict": Maybe(OneOf(VERDICTS))}
# What else a damaged line raises: it is no JSON, or has names that nothing knows.
_DAMAGE = (ValueError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Asked:
    """A case that was put into a batch, and how it was chosen.

    `expected` is how likely it was to fail, as predicted then. If it was drawn at random, `chance`
    is the probability with which it was, and `rest` the number of failures expected among all
    cases that were not asked about before it.
    """

    case: int
    batch: int
    why: Why
    cluster: int = -1
    expected: float = 0.0
    chance: float = 0.0
    rest: float = 0.0


def journal_path(data_file: Path) -> Path:
    """Return where the verdicts on a data file's cases are kept.

    >>> str(journal_path(Path("tweets.mncover")))
    'tweets.verdicts.jsonl'
    """
    return data_file.with_suffix(".verdicts.jsonl")


def subject_key(data: CoverageData) -> str:
    """Return a digest of what verdicts are about: the model's weights, and the texts of each case.

    The numbers of the cases are in it, because the same texts may be cut into cases in two ways.
    """
    numbers = np.stack([data.table["case"], data.table["index"]]).astype("<i8")
    digest = hashlib.sha256(data.identity.model_fingerprint.encode("utf-8", "replace"))
    digest.update(fingerprint_texts(data.table.texts).encode())
    digest.update(numbers.tobytes())
    return digest.hexdigest()[:32]


@dataclass
class Journal:
    """What was asked and answered; written line by line if it has a path."""

    key: str
    path: Path | None = None
    asked: list[Asked] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    @classmethod
    def open(cls, key: str, path: Path | None) -> Journal:
        """Read a journal, or start one; refuse one that is about something else, or damaged."""
        journal = cls(key, path)
        if path is not None and path.exists():
            journal._read(path)
        return journal

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return max((one.batch for one in self.asked), default=0)

    @property
    def cases(self) -> set[int]:
        """The cases that are not to be asked about again."""
        return {one.case for one in self.asked} | self.verdicts.keys()

    @property
    def pending(self) -> list[Asked]:
        """The cases that were asked about and have no verdict."""
        return [one for one in self.asked if one.case not in self.verdicts]

    def ask(self, batch: Iterable[Asked]) -> None:
        """Add a batch."""
        new = list(batch)
        self._append([{"asked": asdict(one)} for one in new])
        self.asked += new

    def tell(self, verdicts: dict[int, Verdict]) -> None:
        """Add verdicts; one that is given again replaces the earlier one."""
        new = {case: v for case, v in verdicts.items() if self.verdicts.get(case) != v}
        self._append([{"case": case, "verdict": verdict} for case, verdict in new.items()])
        self.verdicts |= new

    def forget(self, case: int) -> None:
        """Take a verdict back."""
        self._append([{"case": case, "verdict": None}])
        self.verdicts.pop(case, None)

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if self.path is None or not rows:
            return
        if not self.path.exists() or not self.path.stat().st_size:
            rows = [{"mncover": "verdicts", "version": VERSION, "about": self.key}, *rows]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    def _read(self, path: Path) -> None:
        raw = path.read_text(encoding="utf-8", errors="replace")
        lines = raw.splitlines()
        if raw and not raw.endswith("\n"):  # writing it was interrupted
            lines.pop()
            with replacing(path) as temporary:
                temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        for number, line in enumerate(lines, start=1):
            try:
                self._take(json.loads(line), first=number == 1)
            except (*_DAMAGE, SchemaError) as error:
                raise DataFileError(
                    f"{path}, line {number}: damaged ({error}). Remove the line to go on."
                ) from error
            except MismatchError:
                raise MismatchError(
                    f"{path}: these verdicts are about another model or other texts than the data "
                    "file. Move it away to start anew."
                ) from None

    def _take(self, row: Any, first: bool) -> None:
        if first:
            check_shape(row, _FIRST, "line")
            if row["about"] != self.key:
                raise MismatchError
        elif isinstance(row, dict) and "asked" in row:
            check_shape(row, _ASKED, "line")
            self.asked.append(Asked(**row["asked"]))
        else:
            check_shape(row, _TOLD, "line")
            if "verdict" not in row:
                raise SchemaError("line has no 'verdict'")
            if row["verdict"] is None:
                self.verdicts.pop(row["case"], None)
            else:
                self.verdicts[row["case"]] = row["verdict"]
