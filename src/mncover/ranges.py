"""The range of every neuron: the smallest and largest value over the calibration texts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mncover.errors import DataFileError, MismatchError
from mncover.files import replacing
from mncover.sites import Layout

FORMAT = "mncover-ranges-1"


@dataclass(frozen=True)
class Ranges:
    """Low and high of every slot of a layout; a neuron that no text reached has low > high."""

    layout: Layout
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    texts: int = 0

    @classmethod
    def empty(cls, layout: Layout) -> Ranges:
        """Return ranges that no text has reached yet."""
        low = np.full(layout.slots, np.inf, dtype=np.float32)
        high = np.full(layout.slots, -np.inf, dtype=np.float32)
        return cls(layout, low, high)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all the numbers."""
        digest = hashlib.sha256(np.ascontiguousarray(self.low).data)
        digest.update(np.ascontiguousarray(self.high).data)
        return digest.hexdigest()

    def merge(self, other: Ranges) -> Ranges:
        """Return the ranges over the texts of both."""
        if self.layout != other.layout:
            raise MismatchError("cannot merge ranges: they belong to models of another shape.")
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Ranges(self.layout, low, high, self.texts + other.texts)

    def forget_future(self) -> None:
        """In a causal model, take the ranges from attention to later positions: no neurons."""
        for site, part in self.layout.spans():
            if self.layout.causal and site.kind == "attention":
                future = np.triu(np.ones((site.rows, site.columns), dtype=bool), k=1)
                self.low[part].reshape(site.shape)[:, future] = np.inf
                self.high[part].reshape(site.shape)[:, future] = -np.inf

    def reachable_bins(self, bins: int) -> list[NDArray[np.int64]]:
        """Return, for each site and group, how many bins can be hit at all.

        All bins of a neuron that varied, the first bin of one that did not, none of one that
        no calibration text reached.
        """
        counts = []
        for site, part in self.layout.spans():
            low, high = self.low[part], self.high[part]
            varied = (low < high).reshape(site.groups, -1).sum(axis=1, dtype=np.int64)
            constant = (low == high).reshape(site.groups, -1).sum(axis=1, dtype=np.int64)
            counts.append(varied * bins + constant)
        return counts

    def save(self, path: Path, **notes: Any) -> None:
        """Write the ranges to a file, with notes that `load` gives back."""
        about = {"format": FORMAT, "texts": self.texts, "layout": self.layout.to_json(), **notes}
        with replacing(path) as temporary:
            arrays = {"low": self.low, "high": self.high}
            try:
                save_file(arrays, temporary, metadata={"mncover": json.dumps(about)})
            except SafetensorError as error:
                raise OSError(str(error)) from error

    @classmethod
    def load(cls, path: Path) -> tuple[Ranges, dict[str, Any]]:
        """Read ranges and notes from a file."""
        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {}).get("mncover", "{}"))
                low, high = file.get_tensor("low"), file.get_tensor("high")
        except (OSError, SafetensorError, ValueError) as error:
            raise DataFileError(f"{path}: not a file of ranges, or damaged ({error}).") from error
        if about.get("format") != FORMAT:
            raise DataFileError(f"{path}: not a file of ranges that this version reads.")
        layout = Layout.from_json(about["layout"])
        if low.shape != (layout.slots,) or high.shape != low.shape:
            raise DataFileError(f"{path}: its arrays do not have the size its header tells.")
        return cls(layout, low, high, about["texts"]), about
