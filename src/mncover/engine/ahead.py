"""Shards that workers finished before their turn, kept beside the checkpoint of a run.

Shards are added in the order of the suite, so some wait. When whoever asked is interrupted, they
are in files of their own, `run.mncover.8192.partial` for one that begins with text 8,192, and the
same command does not run them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.files import PARTIAL_SUFFIX, Say, silent
from mncover.data.owners import Block, nobody
from mncover.data.schema import Whole, check_shape
from mncover.data.table import UNKNOWN
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.engine import Engine
from mncover.engine.setups import Setups
from mncover.engine.shards import Adder, Covered, Hits, Shard
from mncover.errors import DataFileError

KEY = "mncover_shards"
HEADER = {
    "run": str,
    "criteria": [str],
    "shards": [{"blocks": Whole(0, 10**6), "contexts": [str], "answers": [str]}],
}
ROWS = {"lengths": "i8", "truncated": "?", "probabilities": "f4", "signatures": "f2"}

Arrays = dict[str, NDArray[Any]]


class Ahead:
    """The files of one run, whose id is in them; `output` is its data file."""

    def __init__(self, output: Path, run: str, engine: Engine, say: Say = silent) -> None:
        self.output, self.run, self.engine, self.say = output, run, engine, say
        ending = re.escape(PARTIAL_SUFFIX)
        self._name = re.compile(rf"{re.escape(output.name)}\.(\d+){ending}", re.DOTALL)
        self._kept: set[int] = set()  # that were written, or read

    def keep(self, found: Iterable[tuple[int, Sequence[Shard]]]) -> None:
        """Keep what waits, by its first text; what does not wait any more is deleted."""
        before, self._kept = self._kept, set()
        for start, shards in found:
            if start not in before:
                path = self.output.with_name(f"{self.output.name}.{start}{PARTIAL_SUFFIX}")
                write_tensors(path, KEY, *_written(self.run, shards))
            self._kept.add(start)
        self._delete(path for start, path in self._files().items() if start not in self._kept)

    def read(self) -> dict[int, list[Shard]]:
        """Return what was kept; files of other runs, or damaged ones, are passed over."""
        found = {}
        for start, path in self._files().items():
            try:
                header, arrays = read_tensors(path, KEY, checksum=True)
                if isinstance(header, dict) and header.get("run") == self.run:
                    found[start] = _read(header, arrays, self.engine)
            except Exception:  # damaged bytes make what reads them raise almost anything
                self.say(f"{path} is damaged: its texts are run again.")
        self._kept = set(found)
        return found

    def remove(self) -> None:
        """Delete all files: the outcome is safe."""
        self._delete(self._files().values())

    def _files(self) -> dict[int, Path]:
        each = self.output.parent.iterdir() if self.output.parent.is_dir() else ()
        named = ((self._name.fullmatch(path.name), path) for path in each)
        return {int(name[1]): path for name, path in named if name is not None}

    def _delete(self, paths: Iterable[Path]) -> None:
        for path in paths:
            if _is_ours(path):
                path.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    """Return whether a file holds shards; a user's file may be called like one."""
    try:
        return read_tensors(path, KEY)[0] is not None
    except (OSError, DataFileError):
        return False


def _written(run: str, shards: Sequence[Shard]) -> tuple[dict[str, Any], Arrays]:
    """Return what a file says of shards, and their arrays."""
    about, arrays = [], Arrays()
    for number, shard in enumerate(shards):
        arrays |= {f"{number}.{name}": getattr(shard, name) for name in ROWS}
        for n, block in enumerate(shard.sampled):
            arrays |= {f"{number}.block.{n}.{name}": a for name, a in block._asdict().items()}
        for criterion, hits in shard.hits.items():
            arrays |= {f"{number}.{criterion}.{name}": a for name, a in hits._asdict().items()}
        for n, mine in enumerate(shard.contexts.values()):
            arrays |= _written_context(f"{number}.context.{n}", mine)
        arrays |= {f"{number}.answer.{n}": ids for n, ids in enumerate(shard.answers.values())}
        keys = [key.hex() for key in shard.answers]
        contexts = {"contexts": list(shard.contexts), "answers": keys}
        about.append({"blocks": len(shard.sampled), **contexts})
    return {"run": run, "criteria": list(shards[0].hits), "shards": about}, arrays


def _written_context(start: str, covered: Mapping[str, Covered]) -> Arrays:
    found = {}
    for criterion, part in covered.items():
        name, array = ("cells", part.cells) if part.bits is None else ("bits", part.bits)
        assert array is not None
        found[f"{start}.{criterion}.{name}"] = array
    return found


def _read(header: Any, arrays: Arrays, engine: Engine) -> list[Shard]:
    """Return the shards of a file; refuse what does not fit together."""
    check_shape(header, HEADER, "header")
    criteria = header["criteria"]
    if criteria != list(engine.criteria):
        raise ValueError("it has other criteria")
    found = []
    for number, about in enumerate(header["shards"]):
        shard = _read_shard(str(number), about, criteria, arrays)
        rows, maps = _rows_fit(shard, engine), _hits_fit(shard, engine.setups)
        if not (rows and maps and _sample_fits(shard, engine)):
            raise ValueError("its arrays do not fit together")
        found.append(shard)
    return found


def _read_shard(at: str, about: Any, criteria: Sequence[str], arrays: Arrays) -> Shard:
    blocks = [f"{at}.block.{n}" for n in range(about["blocks"])]
    contexts = {
        context: {name: _covered(f"{at}.context.{n}.{name}", arrays) for name in criteria}
        for n, context in enumerate(about["contexts"])
    }
    keys = [bytes.fromhex(key) for key in about["answers"]]
    rows: dict[str, Any] = {name: arrays[f"{at}.{name}"] for name in ROWS}
    return Shard(
        **rows,
        sampled=[Block(arrays[f"{one}.texts"], arrays[f"{one}.cells"]) for one in blocks],
        hits={n: Hits(arrays[f"{at}.{n}.cells"], arrays[f"{at}.{n}.counts"]) for n in criteria},
        contexts=contexts,
        answers={key: arrays[f"{at}.answer.{n}"] for n, key in enumerate(keys)},
    )


def _covered(start: str, arrays: Arrays) -> Covered:
    if (bits := arrays.get(f"{start}.bits")) is not None:
        return Covered(None, bits)
    return Covered(arrays[f"{start}.cells"])


# The file may come from a stranger, and what does not fit would be written beyond maps.


def _rows_fit(shard: Shard, engine: Engine) -> bool:
    n, lengths = len(shard.lengths), shard.lengths
    shapes = {"lengths": (n,), "truncated": (n,), "probabilities": (n, engine.subject.n_labels)}
    shapes["signatures"] = engine.sign(None, n).signatures.shape
    return (
        all(getattr(shard, name).shape == shape for name, shape in shapes.items())
        and all(getattr(shard, name).dtype == kind for name, kind in ROWS.items())
        and bool(((lengths >= 0) & (lengths <= engine.settings.max_length)).all())
        and all(ids.dtype == np.int32 and ids.ndim == 1 for ids in shard.answers.values())
        and all(not len(ids) or ids.min() >= 0 for ids in shard.answers.values())
    )


def _hits_fit(shard: Shard, setups: Setups) -> bool:
    adder = Adder(setups)
    for name, hits in shard.hits.items():
        empty, counts = adder.empty(name), hits.counts
        fits = counts.shape == shard.lengths.shape and counts.dtype == np.int64
        fits = fits and bool((counts >= 0).all()) and int(counts.sum()) == len(hits.cells)
        fits = fits and _are_cells(hits.cells, name, setups)
        for part in (mine[name] for mine in shard.contexts.values()):
            if part.bits is not None:
                fits = fits and (part.bits.shape, part.bits.dtype) == (empty.shape, empty.dtype)
            elif part.cells is not None:
                fits = fits and _are_cells(part.cells, name, setups)
        if not fits:
            return False
    return True


def _sample_fits(shard: Shard, engine: Engine) -> bool:
    main = engine.identity().main
    n, cells = len(shard.lengths), nobody(main.layout, main.cells).size
    return all(
        block.texts.dtype == np.int64
        and block.cells.dtype == np.int32
        and block.cells.shape[:1] == block.texts.shape
        and block.cells.ndim == 2
        and _between(block.texts, 0, n)
        and _between(block.cells, UNKNOWN, cells)
        for block in shard.sampled
    )


def _between(values: NDArray[Any], low: int, end: int) -> bool:
    return not values.size or (int(values.min()) >= low and int(values.max()) < end)


def _are_cells(cells: NDArray[Any], name: str, setups: Setups) -> bool:
    most = setups.layout_of(name).slots * setups.group(name).cells
    return cells.ndim == 1 and cells.dtype in (np.uint32, np.int64) and _between(cells, 0, most)
