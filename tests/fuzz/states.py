"""Masks, states of unfinished work, caches and dictionaries: how they are made and read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mncover.augment.records import SearchState
from mncover.data.cache import Entry
from mncover.data.files import load_json, save_json
from mncover.data.identity import Run
from mncover.data.store import CoverageData
from mncover.data.tensors import read_tensors, write_tensors
from mncover.suites.formats.records import Fields


def masks(path: Path) -> None:
    from mncover.masks.masks import Masks

    Masks.load(path).summary()


@cache
def learner(pairs: str = "attention") -> Any:
    from tests.masks.test_learning import MESSAGES, QUICK, learner_of

    return learner_of(QUICK if pairs == "attention" else MESSAGES)


def write_masks(path: Path, pairs: str) -> None:
    learner(pairs).masks().save(path)


def first_masks(path: Path) -> None:
    """Write masks of format 1, which did not say how pairs were learnt."""
    write_masks(path, "messages")
    header, arrays = read_tensors(path, "mncover_masks")
    older = {name: value for name, value in header.items() if name != "pairs"}
    write_tensors(path, "mncover_masks", {**older, "format": 1}, arrays)


def write_checkpoint(path: Path, pairs: str) -> None:
    known = learner(pairs)
    known.step(list(range(4)), 0, 1.0)
    known.write(path)


def checkpoint(path: Path, pairs: str) -> None:
    if learner(pairs).read(path) is not None:
        learner(pairs).step(list(range(4)), 1, 1.0)


@cache
def shared_run() -> Any:
    """Return an engine whose texts others run, eight at a time, and rows for it."""
    from mncover.engine import windows
    from mncover.suites.intake import given_rows
    from tests import tiny
    from tests.engine.crews import Hasty, pair_of_coverages

    windows.WINDOW_TEXTS = 8
    here, there, _ = pair_of_coverages("bert", criteria=["cover", "nbc"])
    for cov in (here, there):
        cov.calibrate(tiny.texts(40, seed=3), cache=False)
    here.engine.crew = Hasty(there.engine)
    texts = list(dict.fromkeys(tiny.texts(99, seed=5)))[:20]
    rows = given_rows(texts, Fields(), ["a"] * 12 + ["b"] * 8, None)
    return here.engine, rows.without_cases().numbered(here.engine.subject.labels).by_context()


def write_shards(path: Path) -> None:
    """Write shards that were finished before their turn, of a run that was interrupted."""
    engine, rows = shared_run()
    engine.crew.stop = 1
    recorder = _recorder()
    with suppress(KeyboardInterrupt):
        list(recorder.record_in_order(rows, lambda n: None))
    ahead(path).keep(recorder.waiting())
    engine.crew.stop = None
    assert path.exists()


def shards(path: Path) -> None:
    """Go on with the run: damaged shards are run again."""
    _, rows = shared_run()
    known = ahead(path).read()
    list(_recorder().record_in_order(rows, lambda n: None, known=known))


def ahead(path: Path) -> Any:
    from mncover.engine.ahead import Ahead

    return Ahead(path.with_name("x.mncover"), "run", shared_run()[0])


def _recorder() -> Any:
    from mncover.engine.recorder import Recorder

    engine, _ = shared_run()
    return Recorder(engine, CoverageData(engine.identity()), Run("run", "2026-01-01", "", "", 20))


def search_state(path: Path) -> None:
    SearchState.from_json(load_json(path, {"a": 1}))


def write_training_set(path: Path) -> None:
    save_json(path, {"a": 1}, {"texts": ["x", ["y", "z"]], "labels": [0, 1]})


def training_set(path: Path) -> None:
    """Read a set that retraining kept: a damaged file is as good as none."""
    from mncover.paper.table4 import _kept_set

    _kept_set(path, {"a": 1})


def cache_entry(path: Path) -> None:
    """Say what a file in the cache is."""
    Entry("ranges", path, 1, 1.0).about()


def write_wordnet(folder: Path) -> Sequence[Path]:
    from tests.augment.material import write_wordnet as write

    write(folder / "dict")
    counts = "film%1:09:00:: 1 30\nbad%3:15:00:: 1 2\nsee%2:31:00:: 1 9\n"
    (folder / "dict" / "cntlist.rev").write_text(counts)
    for path in (folder / "dict").iterdir():
        path.rename(folder / path.name)
    return sorted(path for path in folder.iterdir() if path.is_file())


def wordnet(path: Path) -> None:
    from mncover.augment.transforms.wordnet import Database, Thesaurus, find_wordnet

    thesaurus = Thesaurus(Database(find_wordnet(path.parent)))
    for word in ("film", "films", "saw", "bad", "quickly", "enjoyed"):
        thesaurus.synonyms(word)


def write_yardstick(path: Path) -> None:
    from mncover.data.calibration import DRAWS

    shares = {"cover": [[0.1, 0.2, 0.25]] * DRAWS}
    save_json(path, {"a": 1}, {"sampled": 4, "points": [1, 2, 4], "shares": shares})


def yardstick(path: Path) -> None:
    """Read kept draws: a damaged file is as good as none, with a warning."""
    from mncover.engine.yardstick import read_draws

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_draws(path, {"a": 1}, ["cover"])
