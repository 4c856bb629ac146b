"""Which kernels work on a subject's device, and the arrays they work on.

On the CPU these are NumPy arrays and compiled loops; elsewhere tensors and torch operations.
Nothing outside this file and the two kernel files has to know which.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover import maps
from mncover.sites import Layout, Site

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
        self.table = self.to_device(maps.site_table(layout, bins))
        self._spans = {(s.kind, s.layer): (s, part) for s, part in layout.spans()}
        # Loaded here, so that a machine without a compiler can still measure on its GPU.
        if self.on_cpu:
            from mncover import bins as kernels
        else:
            from mncover import bins_torch as kernels
        self.kernels: Any = kernels

    @property
    def none(self) -> int:
        """The code that stands for "no bin"."""
        return int(np.iinfo(self.code_type).max)

    def to_device(self, array: NDArray[Any]) -> Array:
        """Return a NumPy array as the kernels take it; the bits of words stay as they are."""
        if self.on_cpu:
            return array
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.view(f"i{array.dtype.itemsize}")
        return torch.from_numpy(array).to(self.device)

    def to_numpy(self, array: Array) -> NDArray[Any]:
        """Return an array of floats as NumPy."""
        return array if self.on_cpu else array.cpu().numpy()

    def new_map(self) -> Array:
        """Return a flat map in which nothing was hit."""
        return self.to_device(maps.empty_map(self.layout, self.bins))

    def map_to_numpy(self, words: Array) -> maps.Words:
        """Return a flat map as NumPy's unsigned words."""
        if self.on_cpu:
            return words  # type: ignore[no-any-return]
        return words.cpu().numpy().view(maps.word_type(self.bins))  # type: ignore[no-any-return]

    def new_counts(self, n: int) -> Array:
        """Return `n` zeros to count with."""
        return self.to_device(np.zeros(n, dtype=np.int64))

    def new_codes(self, n: int, site: Site, length: int) -> Array:
        """Return room for the codes of `n` texts of `length` tokens at a site."""
        shape = (n, site.groups, length, site.touched_columns(length))
        if self.on_cpu:
            return np.empty(shape, dtype=self.code_type)
        kind = torch.uint8 if self.code_type.itemsize == 1 else torch.int16
        return torch.empty(shape, dtype=kind, device=self.device)

    def site(self, kind: str, layer: int) -> Site:
        """Return a site by its kind and layer."""
        return self._spans[kind, layer][0]

    def ranges_of(self, flat: Array, site: Site) -> Array:
        """Return a site's part of a flat array of ranges as [groups, rows, columns]."""
        _, part = self._spans[site.kind, site.layer]
        return flat[part].reshape(site.shape)

    def words_of(self, flat: Array, site: Site) -> Array:
        """Return a site's part of a flat map as [groups, rows, columns * words a neuron]."""
        _, part = self._spans[site.kind, site.layer]
        words = flat[part.start * self.per_neuron : part.stop * self.per_neuron]
        return words.reshape(site.groups, site.rows, -1)

    def values(self, tensor: Tensor) -> Array:
        """Return a model's tensor as [texts, groups, T, columns] in float32, exactly."""
        if tensor.dim() == 3:
            tensor = tensor.unsqueeze(1)
        tensor = tensor.detach().float().contiguous()
        return tensor.numpy() if self.on_cpu else tensor.to(self.device)
