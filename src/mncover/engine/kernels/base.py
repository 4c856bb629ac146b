"""What kernels are: the arrays of one layout on one device, and the loops over them.

Ranges, maps and first hits are flat arrays over all slots of the layout. The loops over a batch
take the values of one site for equally long texts (`Block`) and change what such texts touch:

    values     [texts, groups, n]   the floats of the model, or `Heads`
    keep       [texts, n]           1 or 0: which neurons count for which text; None: all
    low, high  [slots]              float32; a neuron without a range has low > high
    bits       [slots * W]          W integers per neuron, bit c = cell c was hit
    first      [cells, slots]       int32: the smallest number of a text that hit the cell

They return False if a value was not finite. An implementation that would have to wait for the
device to know says True, and tells by `fault` later. Every implementation passes the same tests
(tests/engine/test_kernels.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mncover.criteria.base import Group
from mncover.data import maps
from mncover.data.layout import Kind, Layout, Site

if TYPE_CHECKING:
    from mncover.engine.masking import MaskTable

Array = Any  # what an implementation works on: np.ndarray, torch.Tensor


@cache
def code_type(cells: int) -> np.dtype[Any]:
    """Return the type of a code; its largest number stands for "no cell"."""
    return np.dtype(np.uint8 if cells <= 255 else np.int16)


@cache
def no_cell(cells: int) -> int:
    """Return the code that stands for no cell."""
    return int(np.iinfo(code_type(cells)).max)


class Heads(NamedTuple):
    """The attention of a batch before it is computed; whoever reads it also fills `output`.

    The states are [texts, heads, T, width], of key and value perhaps for fewer heads, which are
    then shared. `output` is [texts, T, heads, width].
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    causal: bool
    output: Tensor

    def fill(self, done: int = 0) -> None:
        """Let torch compute the output of all texts but the first `done`."""
        shared = self.key.shape[1] != self.query.shape[1]
        query, key, value = self.query[done:], self.key[done:], self.value[done:]
        mixed = scaled_dot_product_attention(
            query, key, value, scale=self.scale, is_causal=self.causal, enable_gqa=shared
        )
        self.output[done:] = mixed.transpose(1, 2)


class Block(NamedTuple):
    """The values of a batch at one site; `rows` has the place of each text in the call.

    Where tokens share their neurons a text may have several rows, and `counts` [texts] says which
    of them count; None: all.
    """

    site: Site
    length: int
    values: Array  # or Heads
    rows: Array
    keep: Array | None = None
    counts: Tensor | None = None


class Bounds(NamedTuple):
    """Low and high of every neuron."""

    low: Array
    high: Array


class Target(NamedTuple):
    """Where the hits of one criterion go.

    If texts have an order, `bits` are several maps, [maps, slots * W], and `first` is brought up
    to date for the cells that `old`, a map, does not have.
    """

    bits: Array
    old: Array | None = None
    first: Array | None = None


class Order(NamedTuple):
    """For each text of a call its number, and the map that it goes to; neither ever falls."""

    numbers: Array
    which: Array


NOBODY = 2**31 - 1  # in `first`: no text hit the cell


class CodeStore(Protocol):
    """Keeps the codes of a window of texts, batch by batch and site by site."""

    def put(self, codes: Array, cells: int) -> Any:
        """Keep codes [texts, groups, n]; return where they are."""

    def get(self, places: Sequence[Any], sizes: NDArray[np.int64], row: int, cells: int) -> Array:
        """Return one text's codes at several places, one after the other.

        `sizes` has the number of codes that a text has at each place.
        """

    def clear(self) -> None:
        """Forget everything; the space is used again."""

    def close(self) -> None:
        """Release the space."""


def spare_bytes(device: torch.device, otherwise: int) -> int:
    """Return a quarter of the free memory of a GPU; of another device, what is given."""
    if device.type != "cuda":
        return otherwise
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (free + unused) // 4


class Kernels(Protocol):
    """Makes, converts and slices arrays, and runs the loops over them."""

    name: ClassVar[str]
    orders: ClassVar[bool] = False  # whether `hit` keeps the first text of each cell
    layout: Layout
    device: torch.device
    _spans: dict[tuple[Kind, int], tuple[Site, slice]]

    # Arrays.

    def to_device(self, array: NDArray[Any]) -> Array:
        """Return a NumPy array as the loops take it; bits stay as they are."""

    def to_numpy(self, array: Array) -> NDArray[Any]:
        """Return an array of numbers as NumPy."""

    def bits_to_numpy(self, bits: Array, cells: int) -> maps.Bits:
        """Return a map as NumPy's unsigned integers."""

    def copy_of(self, array: Array) -> Array:
        """Return a copy of an array."""

    def new_codes(self, n: int, site: Site, length: int, cells: int) -> Array:
        """Return space for the codes of `n` texts of `length` tokens at a site."""

    def as_array(self, tensor: Tensor) -> Array:
        """Return a tensor of the subject's device as the loops take it."""

    def new_store(self) -> CodeStore:
        """Return a store for the codes of a window of texts."""

    def disk_bytes(self, codes: int, cells: int) -> int:
        """Return how many bytes on disk a store needs for some codes."""

    # Loops over a batch.

    def widen(self, block: Block, bounds: Bounds) -> bool:
        """Stretch the ranges so that they hold the values."""

    def hit(
        self,
        group: Group,
        block: Block,
        bounds: Bounds,
        targets: Sequence[Target],
        order: Order | None = None,
    ) -> bool:
        """Set the bit of every cell a value falls into.

        There is a target for each criterion of the group; in that of the masked one only neurons
        that count are hit. An order is given only to an implementation that `orders`.
        """

    def encode(self, group: Group, block: Block, bounds: Bounds, codes: Array) -> bool:
        """Write the cell of every value, or "no cell", into `codes` [texts, groups, n]."""

    def scaled(self, values: Array, texts: int) -> Array:
        """Return values [rows, groups, n] scaled to 0..1 within their text; 0 if all are equal."""

    def top(self, values: Array, width: int, k: int) -> Array:
        """Return 1 for the k largest of each `width` values, and all as large; 0 for others."""

    # Loops over one text's codes for all sites, flat, and a whole map.

    def walk(
        self, codes: Array, length: int, cells: int, bits: Array, store: bool
    ) -> tuple[int, int]:
        """Return how many hidden and attention cells of a text are new; `store` adds them."""

    def mask_codes(
        self, codes: Array, length: int, cells: int, keep_tokens: Array, keep_pairs: Array
    ) -> Array:
        """Return a copy of a text's codes with "no cell" for tokens and pairs that do not count."""

    def copy_touched(self, length: int, cells: int, source: Array, target: Array) -> None:
        """Copy the part of a map that a text of `length` tokens can touch."""

    # What is the same for all implementations.

    def for_windows(self, cells: int) -> WindowKernels | None:
        """Return the loops over all codes of a window at once, if there are any and they fit."""
        return None

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self._spans = {(s.kind, s.layer): (s, part) for s, part in layout.spans()}

    def add_cells(self, codes: Array, length: int, cells: int, bits: Array) -> NDArray[np.int64]:
        """Add one text's codes to a map; return the cells that are new, as `maps.cells_in` does."""
        before = self.bits_to_numpy(self.copy_of(bits), cells)
        self.walk(codes, length, cells, bits, True)
        return maps.cells_in(self.bits_to_numpy(bits, cells) & ~before, cells)

    def new_bits(self, cells: int) -> Array:
        """Return a map in which nothing was hit."""
        return self.to_device(maps.empty_map(self.layout, cells))

    def new_bounds(self) -> Bounds:
        """Return ranges that no value has reached."""
        ends = (np.full(self.layout.slots, end, dtype=np.float32) for end in (np.inf, -np.inf))
        return Bounds(*map(self.to_device, ends))

    def fuses(self, groups: Sequence[Group]) -> bool:
        """Return whether the loops take `Heads` for some groups of criteria."""
        return False

    def stacked(self, codes: Sequence[Array]) -> Array:
        """Return arrays of codes as one, a row for each."""
        return np.stack(codes)

    def counting(self, block: Block) -> Block:
        """Return a block of the rows that count."""
        if block.counts is None:
            return block
        rows = self.as_array(block.counts)
        return block._replace(values=block.values[rows], rows=block.rows[block.counts])

    def fault(self) -> tuple[Site, int] | None:
        """Return a site, and the row of a text, with a value that was not finite, if any.

        It tells what the loops did not, and forgets it.
        """
        return None

    def values(self, tensor: Tensor) -> Array:
        """Return a model's tensor in float32, exactly, without gaps."""
        return self.as_array(tensor.detach().float().to(self.device))

    def look_up(self, table: MaskTable, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for the tokens [n, T] and pairs [n, T, T] that count, 0 for the others."""
        return table.tokens_of(ids).byte(), table.pairs_of(ids).byte()

    def keep(self, part: Tensor, site: Site) -> Array:
        """Return the tokens [texts, T] or pairs [texts, T, T] that count as the loops take them."""
        if site.kind == "hidden":
            part = part[..., None].expand(-1, -1, site.columns)
        return self.as_array(part.flatten(1))

    def site(self, kind: Kind, layer: int) -> Site:
        """Return a site by its kind and layer."""
        return self._spans[kind, layer][0]

    def touched(self, flat: Array, site: Site, length: int, width: int = 1) -> Array:
        """Return the part of a flat array that a text of `length` tokens touches at a site.

        `width` is the number of values per neuron: 1 for ranges, the integers per neuron for a
        map. The part is [groups, n * width]. For hidden states it is a view. For attention it is
        a copy, because the loops want it without gaps: `put_back` writes it back.
        """
        return self._block(flat, site, length, width).reshape(site.groups, -1)

    @contextmanager
    def _writing(
        self, flats: Sequence[Array], block: Block, width: int = 1
    ) -> Iterator[list[Array]]:
        """Yield the touched parts of flat arrays, and write them back."""
        parts = [self.touched(flat, block.site, block.length, width) for flat in flats]
        yield parts
        for flat, part in zip(flats, parts, strict=True):
            self.put_back(flat, block.site, block.length, part)

    def put_back(self, flat: Array, site: Site, length: int, part: Array) -> None:
        """Write a touched part back to its flat array, if it was a copy."""
        if site.kind == "attention":
            width = part.shape[1] // (length * site.touched_columns(length))
            block = self._block(flat, site, length, width)
            block[:] = part.reshape(tuple(block.shape))

    def _block(self, flat: Array, site: Site, length: int, width: int) -> Array:
        _, span = self._spans[site.kind, site.layer]
        whole = flat[span.start * width : span.stop * width]
        columns = site.touched_columns(length) * width
        return whole.reshape(site.groups, site.rows, -1)[:, :length, :columns]


class WindowKernels(Kernels, Protocol):
    """Kernels that keep the codes of a window in memory, with loops over all of them at once.

    The loops take codes [n, touched slots] of equally long texts, for all sites, and `first`, an
    array with a number for every cell: -1 if a map has it, else the smallest number of a text that
    hit it, `NOBODY` if none did.
    """

    def new_first(self, cells: int, bits: Array | None = None) -> Array:
        """Return the numbers of the cells when no text was added to a map; None is an empty one."""

    def add_first(self, codes: Array, length: int, numbers: Array, first: Array) -> None:
        """Add texts with their numbers [n] to `first`."""

    def count_first(self, first: Array, n: int) -> Array:
        """Return how many hidden and attention cells have each of the numbers below n: [2, n]."""

    def count_later(self, codes: Array, length: int, numbers: Array, first: Array) -> Array:
        """Return how many cells of each text have its own number or a larger one: [2, n]."""

    def store_first(self, first: Array, bits: Array) -> None:
        """Add the cells that a text hit to a map."""

    def new_maps(self, n: int, cells: int) -> Array:
        """Return `n` maps in which nothing was hit: [n, integers]."""

    def only_new(
        self, codes: Array, length: int, cells: int, which: Array, several: Array
    ) -> Array:
        """Return the codes with "no cell" for what a text's own map has already.

        `which` [n] says which of `several` maps is whose, no two texts have the same. The cells
        are added to it.
        """
