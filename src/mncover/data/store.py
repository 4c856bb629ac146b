"""What was measured: the hits of each context and a row for each text.

The reading half's centre: `datafile.py` stores it, `results.py` computes numbers from it. It
knows neither torch nor the model, only the model's fingerprint.

Byte strings in an unnamed temporary file, so that they do not stay in memory.
What reports say of masks: how much they keep, how faithfully, and their extremes.
"""

from __future__ import annotations

import datetime
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.criteria import COVER, METRICS, Metric
from mncover.data import maps
from mncover.data.layout import Layout
from mncover.data.table import Table
from mncover.errors import MaskError, MismatchError
from mncover.types import Settings


class Blob(NamedTuple):
    """Where a byte string lies."""

    offset: int
    size: int


class BlobStore:
    """Keeps byte strings until the store goes away; they are only ever added."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mncover-")  # noqa: SIM115 (lives as long as the store)

    def put(self, data: bytes) -> Blob:
        """Keep a byte string."""
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return Blob(offset, len(data))

    def get(self, blob: Blob) -> bytes:
        """Give a byte string back."""
        self._file.seek(blob.offset)
        return self._file.read(blob.size)


COUNTS = ("words", "words_kept", "pairs", "pairs_kept")
LISTS = ("top_words", "low_words", "top_pairs", "low_pairs")

# A word, or two words of a pair, with its score.
Scored = tuple[str, float]


@dataclass(frozen=True)
class MaskSummary:
    """Masks in a few numbers and words; two are equal if the same words and pairs count.

    Of `words` and `pairs` that training saw, so many are kept. `fidelity` is None if it was
    never measured, as for masks made by hand.
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
        counts = {name: int(value[name]) for name in COUNTS}
        lists = {
            name: tuple((str(word), float(score)) for word, score in value[name]) for name in LISTS
        }
        if min(counts.values()) < 0:
            raise MaskError("its summary of the masks has negative numbers")
        fidelity = value["fidelity"]
        known: dict[str, Any] = {**counts, **lists}
        return cls(
            fingerprint=str(value["fingerprint"]),
            unseen=str(value["unseen"]),
            fidelity=None if fidelity is None else float(fidelity),
            **known,
        )


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
    reachable: tuple[tuple[int, ...], ...]
    masks: MaskSummary | None = None

    def require_same(self, other: Identity) -> None:
        """Refuse another model, tokenizer, ranges or settings, naming the first difference."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if one.name in ("model", "calibration_texts") or mine == theirs:  # no identity
                continue
            what = _difference(one.name, mine, theirs)
            raise MismatchError(f"cannot be combined: they differ in {what}.")


def _difference(name: str, mine: object, theirs: object) -> str:
    if isinstance(mine, Settings) and isinstance(theirs, Settings):
        pairs = zip(mine.to_json().items(), theirs.to_json().items(), strict=True)
        return ", ".join(f"{key} ({a} and {b})" for (key, a), (_, b) in pairs if a != b)
    what = {
        "model_fingerprint": "the model's weights",
        "tokenizer_fingerprint": "the tokenizer",
        "ranges_fingerprint": "the ranges (calibrated on other texts)",
        "layout": "the model's sites",
        "reachable": "the ranges",
        "masks": "the masks",
    }.get(name, name.replace("_", " "))
    show = isinstance(mine, str | int) or name == "labels"
    return f"{what} ({str(mine)[:12]} and {str(theirs)[:12]})" if show else what


@dataclass(frozen=True)
class Run:
    """One session of measuring; its rows are numbered from 0."""

    id: str
    created: str
    suite: str = ""
    suite_fingerprint: str = ""
    texts: int = 0  # how many the suite has, if known: fewer rows mean an interrupted run

    @classmethod
    def start(cls, suite: str = "", suite_fingerprint: str = "", texts: int = 0) -> Run:
        """Return a new run with a name of its own."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
        return cls(secrets.token_hex(8), now, suite, suite_fingerprint, texts)


Snapshot = tuple[dict[str, dict[Metric, Blob]], Table, list[Run]]


class CoverageData:
    """The hits of each context, packed, and the table of texts.

    Maps are unpacked one at a time; between uses they wait on disk.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.runs: list[Run] = []
        self.outlines: dict[str, dict[str, Any]] = {}  # of test suites, as JSON, by run id
        self.table = Table.empty(len(identity.labels))
        self._blobs = BlobStore()
        self._contexts: dict[str, dict[Metric, Blob]] = {}  # what was packed so far

    @property
    def _bins(self) -> int:
        return self.identity.settings.bins

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, in the order in which they first appeared."""
        return list(self._contexts)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that were measured: Cover, and with masks mnCover too."""
        return METRICS if self.identity.masks is not None else (COVER,)

    def packed(self, context: str, metric: Metric = COVER) -> bytes:
        """Return a context's map as `maps.pack` made it."""
        blob = self._contexts[context].get(metric)
        if blob is None:
            return maps.pack(self.map_of(context, metric), self._bins)
        return self._blobs.get(blob)

    def context_number(self, context: str) -> int:
        """Return a context's place among the contexts; a new one comes last."""
        self._contexts.setdefault(context, {})
        return self.contexts.index(context)

    def put_packed(self, context: str, data: bytes, metric: Metric = COVER) -> None:
        """Set a context's map to what `maps.pack` made."""
        self._contexts.setdefault(context, {})[metric] = self._blobs.put(data)

    def map_of(self, context: str, metric: Metric = COVER) -> maps.Words:
        """Return a context's map; an empty one for a context not seen yet."""
        layout, bins = self.identity.layout, self._bins
        if metric not in self._contexts.get(context, {}):
            return maps.empty_map(layout, bins)
        return maps.unpack(self.packed(context, metric), layout, bins)

    def set_map(self, context: str, words: maps.Words, metric: Metric = COVER) -> None:
        """Set a context's map."""
        self.put_packed(context, maps.pack(words, self._bins), metric)

    def each_map(self, metric: Metric = COVER) -> Iterator[tuple[str, maps.Words]]:
        """Yield every context with its map, one at a time."""
        for context in self.contexts:
            yield context, self.map_of(context, metric)

    def total(self, metric: Metric = COVER) -> maps.Words:
        """Return the union of all contexts."""
        words = maps.empty_map(self.identity.layout, self._bins)
        for _, context in self.each_map(metric):
            words |= context
        return words

    def snapshot(self) -> Snapshot:
        """Return what `restore` needs to undo everything that comes after; it copies little."""
        packed = {context: dict(blobs) for context, blobs in self._contexts.items()}
        return packed, self.table, list(self.runs)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        self._contexts, self.table, self.runs = snapshot

    def add_rows(self, rows: Table) -> None:
        """Add rows; their `run` and `context` count in this object's lists."""
        self.table = self.table.append(rows)

    @property
    def incomplete(self) -> list[Run]:
        """The runs that were interrupted before their suite's end."""
        done = np.bincount(self.table["run"], minlength=len(self.runs))
        return [run for run, n in zip(self.runs, done, strict=True) if n < run.texts]

    def union(self, other: CoverageData) -> CoverageData:
        """Return what both measured; rows that both have are kept once."""
        self.identity.require_same(other.identity)
        united = CoverageData(replace(self.identity))
        united.outlines = {**self.outlines, **other.outlines}
        united.runs = sorted({*self.runs, *other.runs}, key=lambda run: (run.created, run.id))
        names = list(dict.fromkeys([*self.contexts, *other.contexts]))
        rows = _rows_for(self, united.runs, names).append(_rows_for(other, united.runs, names))
        rows = rows.in_order()
        order = _first_appearance(rows["context"], len(names))
        united.table = rows.renumbered(context=np.argsort(order))
        for i in order:
            for metric in united.metrics:
                united.put_packed(names[i], _united_map(names[i], metric, self, other), metric)
        return united


def _rows_for(data: CoverageData, runs: list[Run], contexts: list[str]) -> Table:
    """Return the rows with runs and contexts counted in the given lists."""
    run = np.array([runs.index(r) for r in data.runs], dtype=np.int64)
    context = np.array([contexts.index(c) for c in data.contexts], dtype=np.int64)
    return data.table.renumbered(run=run, context=context)


def _first_appearance(column: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Return 0..n-1 in the order in which they first appear; what never does comes last."""
    first = np.full(n, len(column))
    np.minimum.at(first, column, np.arange(len(column)))
    return np.argsort(first, kind="stable")


def _united_map(context: str, metric: Metric, *sources: CoverageData) -> bytes:
    have = [data for data in sources if context in data.contexts]
    if len(have) == 1:
        return have[0].packed(context, metric)
    words = have[0].map_of(context, metric)
    for data in have[1:]:
        words |= data.map_of(context, metric)
    return maps.pack(words, have[0].identity.settings.bins)
