"""How a text's pooled states become its signature, and where the calibration texts lie.

A signature is a small vector of what a model made of a text: the mean state of its middle layer,
that of its last layer, and the last layer's state at one token, each reduced to a few dimensions
by a projection that was learnt on the calibration texts. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.table import UNKNOWN, Signatures
from mncover.errors import DataFileError

PARTS = ("middle", "last", "token")
OWN = ("low", "high", "reference", "places", "labels")
# What files keep of a space: type and number of axes.
MEMBERS = {f"{part}.mean": ("<f4", 1) for part in PARTS}
MEMBERS |= {f"{part}.components": ("<f4", 2) for part in PARTS}
MEMBERS |= {"low": ("<f4", 1), "high": ("<f4", 1), "reference": ("<f2", 2)}
MEMBERS |= {"places": ("<i8", 1), "labels": ("<i4", 1)}
MAX_DIMENSIONS = 32  # of each part: three parts of 32 in half precision are 192 bytes
MAX_REFERENCE = 10_000  # calibration texts that are kept to compare with
MAX_REFERENCE_BYTES = 64 * 2**20  # their states, which wait in memory until all were run
MAX_STATE = 2.0**15  # half precision ends at 65504

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SignatureSpace:
    """A projection for each part, and the middle part of some calibration texts.

    `means` [width] and `components` [dimensions, width] turn the pooled states of a part into its
    dimensions, which lie between `low` and `high` for those texts. `reference` has a row for each
    calibration text that was kept, `places` where it is among them, and `labels` its class, or
    UNKNOWN.
    """

    means: tuple[Floats, ...]
    components: tuple[Floats, ...]
    low: Floats
    high: Floats
    reference: Signatures
    places: NDArray[np.int64]
    labels: NDArray[np.int32]

    @property
    def dimensions(self) -> tuple[int, ...]:
        """How many dimensions each part has."""
        return tuple(len(one) for one in self.components)

    @property
    def size(self) -> int:
        """How many numbers a signature has."""
        return sum(self.dimensions)

    @property
    def middle(self) -> slice:
        """Where in a signature the middle layer is."""
        return slice(0, self.dimensions[0])

    def labelled(self, labels: Sequence[int] | None) -> SignatureSpace:
        """Return the space with the classes of all calibration texts, or without classes."""
        given = np.full(len(self.places), UNKNOWN, dtype=np.int32)
        if labels is not None:
            given = np.asarray(labels, dtype=np.int32)[self.places]
        return replace(self, labels=given)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything by name, as files keep it."""
        named: dict[str, NDArray[Any]] = {}
        named |= {f"{part}.mean": one for part, one in zip(PARTS, self.means, strict=True)}
        for part, one in zip(PARTS, self.components, strict=True):
            named[f"{part}.components"] = one
        return named | {name: getattr(self, name) for name in OWN}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> SignatureSpace:
        """Make a space from what `arrays` returned; refuse what does not fit together."""
        if missing := [name for name in MEMBERS if name not in arrays]:
            raise DataFileError(f"its projection of signatures lacks '{missing[0]}'")
        known = {name: arrays[name] for name in MEMBERS}
        if wrong := [name for name, (k, _) in MEMBERS.items() if known[name].dtype != np.dtype(k)]:
            raise DataFileError(f"its projection of signatures has the wrong type in '{wrong[0]}'")
        means = tuple(known[f"{part}.mean"] for part in PARTS)
        parts = tuple(known[f"{part}.components"] for part in PARTS)
        own = [known[name] for name in OWN]
        if any(known[name].ndim != ndim for name, (_, ndim) in MEMBERS.items()) or not (
            all(m.shape == c.shape[1:] for m, c in zip(means, parts, strict=True))
            and known["low"].shape == known["high"].shape == (sum(map(len, parts)),)
            and known["reference"].shape == (len(known["places"]), len(parts[0]))
            and known["labels"].shape == known["places"].shape
        ):
            raise DataFileError("its projection of signatures does not fit together")
        return cls(means, parts, *own)


def reference_places(texts: int, widths: Sequence[int]) -> NDArray[np.int64]:
    """Return which of some calibration texts are kept: all of them, or a random choice."""
    most = min(MAX_REFERENCE, MAX_REFERENCE_BYTES // (2 * sum(widths)))
    if texts <= most:
        return np.arange(texts)
    return np.sort(np.random.default_rng(0).choice(texts, most, replace=False))


def learn_space(
    pooled: Sequence[NDArray[np.floating]], places: NDArray[np.int64]
) -> SignatureSpace:
    """Learn the principal components of each part from the pooled states of calibration texts.

    `pooled` has [texts, width] for each part; a text without tokens has NaN and is left out. The
    direction of a component is that of its largest entry, so that learning again gives the same.
    """
    known = np.isfinite(pooled[0]).all(axis=1)
    means, components = [], []
    for states in pooled:
        mean, found = _principal(states[known].astype(np.float64))
        means.append(mean)
        components.append(found)
    parts = zip(pooled, means, components, strict=True)
    signatures = [project(states[known], *how).astype(np.float16) for states, *how in parts]
    whole = np.concatenate(signatures, axis=1).astype(np.float32)
    return SignatureSpace(
        tuple(means),
        tuple(components),
        whole.min(axis=0),
        whole.max(axis=0),
        signatures[0],
        places[known],
        np.full(int(known.sum()), UNKNOWN, dtype=np.int32),
    )


def _principal(states: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Return the mean of some states, and the directions in which they differ most."""
    from scipy.linalg import eigh  # slow to import

    n, width = states.shape
    k = min(MAX_DIMENSIONS, width)
    mean = states.mean(axis=0)
    centred = states - mean
    _, vectors = eigh(centred.T @ centred / max(n - 1, 1), subset_by_index=[width - k, width - 1])
    rows = vectors.T[::-1]
    largest = np.abs(rows).argmax(axis=1)
    rows = rows * np.sign(rows[np.arange(k), largest])[:, None]
    return mean.astype(np.float32), np.ascontiguousarray(rows, dtype=np.float32)


def project(pooled: NDArray[np.floating], mean: Floats, components: Floats) -> NDArray[np.float64]:
    """Return the dimensions [texts, dimensions] of one part's pooled states [texts, width].

    >>> project(np.array([[3.0, 1.0]]), np.array([1, 1]), np.array([[1.0, 0.0]])).tolist()
    [[2.0]]
    """
    found = (pooled.astype(np.float64) - mean) @ components.T.astype(np.float64)
    return np.asarray(np.clip(found, -MAX_STATE, MAX_STATE))
