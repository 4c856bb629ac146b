"""Which kernels work on a subject's device, and the arrays they work on.

On the CPU these are NumPy arrays and compiled loops; elsewhere tensors and torch operations.
Nothing outside this file and the two kernel files has to know which.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.data import maps
from mncover.data.layout import Kind, Layout, Site

Array = Any  # np.ndarray on the CPU, torch.Tensor elsewhere

_SIGNED = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Backend:
    """Makes, converts and slices the arrays of one layout, number of bins and device."""

    def __init__(self, layout: Layout, bins: int, device: torch.device) -> None:
        self.layout = layout
        self.bins = bins
        self.device = device
        self.on_cpu = device.type == "cpu"
        self.per_neuron = maps.words_per_neuron(bins)
        # The largest number of the type is kept for "no bin".
        self.code_type = np.dtype(np.uint8 if bins <= 255 else np.int16)
        self.none = int(np.iinfo(self.code_type).max)
        self._spans = {(s.kind, s.layer): (s, part) for s, part in layout.spans()}
        # Loaded by name and late: numba is slow to import and of no use to a GPU.
        self.kernels: Any = import_module(
            "mncover.engine.kernels.cpu" if self.on_cpu else "mncover.engine.kernels.plain_torch"
        )
        table = maps.site_table(layout, bins)
        self.table: Any = table if self.on_cpu else self.kernels.SiteTable(table, device)

    def to_device(self, array: NDArray[Any]) -> Array:
        """Return a NumPy array as the kernels take it; the bits of words stay as they are."""
        if self.on_cpu:
            return array
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.view(f"i{array.dtype.itemsize}")
        return torch.from_numpy(array).to(self.device)

    def to_numpy(self, array: Array) -> NDArray[Any]:
        """Return an array of floats as NumPy."""
        return np.asarray(array if self.on_cpu else array.cpu())

    def new_map(self) -> Array:
        """Return a flat map in which nothing was hit."""
        return self.to_device(maps.empty_map(self.layout, self.bins))

    def map_to_numpy(self, words: Array) -> maps.Words:
        """Return a flat map as NumPy's unsigned words."""
        if self.on_cpu:
            return words  # type: ignore[no-any-return]
        return words.cpu().numpy().view(maps.word_type(self.bins))  # type: ignore[no-any-return]

    def copy_of(self, array: Array) -> Array:
        """Return a copy of an array."""
        return array.copy() if self.on_cpu else array.clone()

    def room_like(self, array: Array) -> Array:
        """Return an array of the same shape and type, to be filled."""
        return np.empty_like(array) if self.on_cpu else torch.empty_like(array)

    def new_counts(self, n: int) -> Array:
        """Return `n` zeros to count with."""
        return self.to_device(np.zeros(n, dtype=np.int64))

    def new_codes(self, n: int, site: Site, length: int) -> Array:
        """Return room for the codes of `n` texts of `length` tokens at a site."""
        shape = (n, site.groups, site.touched(length) // site.groups)
        if self.on_cpu:
            return np.empty(shape, dtype=self.code_type)
        kind = torch.uint8 if self.code_type.itemsize == 1 else torch.int16
        return torch.empty(shape, dtype=kind, device=self.device)

    def site(self, kind: Kind, layer: int) -> Site:
        """Return a site by its kind and layer."""
        return self._spans[kind, layer][0]

    def touched_ranges(self, flat: Array, site: Site, length: int) -> Array:
        """Return the part of a flat array of ranges that a text of `length` tokens touches."""
        return self._touched(flat, site, length, 1)

    def touched_words(self, flat: Array, site: Site, length: int) -> Array:
        """Return the part of a flat map that a text of `length` tokens touches."""
        return self._touched(flat, site, length, self.per_neuron)

    def _touched(self, flat: Array, site: Site, length: int, width: int) -> Array:
        """Cut a site's touched block out of a flat array as [groups, n * width].

        For hidden states it is a view. For attention it is a copy, because the kernels want it
        without gaps: `put_back` returns it.
        """
        return self._block(flat, site, length, width).reshape(site.groups, -1)

    def put_back(self, flat: Array, site: Site, length: int, part: Array) -> None:
        """Return a touched part to its flat array, if it was a copy."""
        if site.kind == "attention":
            width = part.shape[1] // (length * site.touched_columns(length))
            block = self._block(flat, site, length, width)
            block[:] = part.reshape(tuple(block.shape))

    def _block(self, flat: Array, site: Site, length: int, width: int) -> Array:
        _, span = self._spans[site.kind, site.layer]
        whole = flat[span.start * width : span.stop * width]
        columns = site.touched_columns(length) * width
        return whole.reshape(site.groups, site.rows, -1)[:, :length, :columns]

    def as_array(self, tensor: Tensor) -> Array:
        """Return a tensor of the subject's device as the kernels take it."""
        return tensor.contiguous().numpy() if self.on_cpu else tensor.contiguous()

    def values(self, tensor: Tensor) -> Array:
        """Return a model's tensor in float32, exactly, without gaps."""
        tensor = tensor.detach().float().contiguous()
        return tensor.numpy() if self.on_cpu else tensor.to(self.device)
