"""What random calibration texts reach, once the ranges are known: a run of a small sample.

Bins are known only when the last calibration text was seen, so some texts are run again: all of
few, a twentieth of many, never more than `MOST`, nor more than have their codes in `BYTES`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.calibration import DRAWS, Calibration, Draws, points_for
from mncover.data.files import load_json, save_json
from mncover.data.schema import Each, Number, Whole, check_shape
from mncover.errors import DataFileError, SchemaError
from mncover.selection.sets import gains_in_order
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine

LEAST, MOST = 500, 2000  # texts to draw from, where there are so many
SHARE = 1 / 20  # of the calibration texts
BYTES = 2**28  # of the codes, which wait until every order was walked

_KEPT = {"sampled": Whole(1), "points": [Whole(1)], "shares": Each([[Number(0, 1)]])}


def describe(engine: Engine, texts: Sequence[Text], draw: bool, cache: bool) -> Calibration:
    """Return what is kept of the calibration texts; with `draw`, what random ones reach."""
    rows = {
        name: np.concatenate([one.ravel() for one in sites])
        for name, sites in engine.setups.reachable.items()
    }
    lengths = engine.require_ranges().lengths
    return Calibration(lengths, rows, _draws(engine, texts, cache) if draw else None)


def _draws(engine: Engine, texts: Sequence[Text], cache: bool) -> Draws:
    """Return what random draws reach, from the cache if it is there."""
    if not cache:
        return _drawn(engine, texts)
    key: list[Any] = [DRAWS, LEAST, MOST, BYTES, engine.settings.attention_weight]
    key += [[name, engine.group(name).cells] for name in engine.criteria]
    key.append(None if engine.masks is None else engine.masks.fingerprint)
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    path = engine.cache_path(texts).with_suffix(f".{name}.json")
    kept = read_draws(path, key, engine.criteria)
    if kept is not None:
        return kept
    found = _drawn(engine, texts)
    shares_list = {name: one.tolist() for name, one in found.shares.items()}
    state = {"sampled": found.sampled, "points": found.points.tolist(), "shares": shares_list}
    with suppress(OSError):  # the ranges were not kept either, and that was said
        save_json(path, key, state)
    return found


def read_draws(path: Path, key: Any, names: Iterable[str]) -> Draws | None:
    """Return draws that were kept under this key; a damaged file is the same as none."""
    try:
        kept = load_json(path, key)
        if kept is None:
            return None
        check_shape(kept, _KEPT, "state")
        shares = {name: np.array(one, dtype=np.float64) for name, one in kept["shares"].items()}
        found = Draws(kept["sampled"], np.array(kept["points"], dtype=np.int64), shares)
        if found.fit(names):
            return found
        why = f"{path}: damaged (its numbers do not fit together)"
    except (DataFileError, SchemaError, ValueError) as error:  # such as rows of several lengths
        why = str(error).rstrip(".")
    warnings.warn(f"{why}: it is ignored and made again.", stacklevel=2)
    return None


def _drawn(engine: Engine, texts: Sequence[Text]) -> Draws:
    """Run a sample once, and walk its codes in random orders."""
    sample = [texts[i] for i in sample_of(engine, texts)]
    points = points_for(len(sample), len(texts))
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in engine.criteria}
    with engine.bar("Yardstick", len(sample)) as advance:
        for window in engine.windows([[text] for text in sample], advance, whole=True):
            for seed in range(DRAWS):
                order = np.random.default_rng(seed).permutation(len(sample)).tolist()
                for name, shares in found.items():
                    (gains,) = gains_in_order(engine, window, name, order, (None,))
                    shares.append(np.minimum(np.cumsum(gains)[points - 1], 1.0))
    return Draws(len(sample), points, {name: np.stack(shares) for name, shares in found.items()})


def sample_of(engine: Engine, texts: Sequence[Text]) -> NDArray[np.int64]:
    """Return the places of the texts that are drawn from."""
    n = min(len(texts), max(LEAST, min(MOST, int(SHARE * len(texts)))))
    places = np.random.default_rng(0).permutation(len(texts))[:n]
    tokens = engine.subject.encode([texts[i] for i in places], engine.settings.max_length)
    sizes = [engine.setups.code_bytes(length, waiting=False) for length in tokens.lengths.tolist()]
    fits = np.cumsum(sizes) <= BYTES
    return places[: max(1, int(fits.sum()))]
