"""Kernels for a GPU: Triton programs that read a batch once and write almost nothing.

Where a Triton program does not cover something (more than 64 cells, another coding than bins),
torch operations do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mncover.criteria.base import Group
from mncover.criteria.binned import BINS
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine.kernels import triton_loops as loops
from mncover.engine.kernels.base import Block, Bounds, Heads, Order, Target, no_cell
from mncover.engine.kernels.plain_torch import TorchKernels

MOST_CELLS = 64  # as many as an integer has bits
WHOLE_LENGTH = 128  # up to here a program holds whole rows of attention
PROGRAMS = 1024  # what fills a large GPU; more write more
BLOCK = 512  # neurons of a program that reads values

Flags = tuple[int, bool, bool, bool]
Place = tuple[int, ...]
Grid = tuple[int, int, int]


class Tile(NamedTuple):
    """How much of a head's attention a program takes: rows, columns, and threads / 32."""

    rows: int
    columns: int
    warps: int


def tile_for(length: int) -> Tile:
    """Return the tile for texts of some length; a dot product wants 16 rows or more."""
    if length <= 16:
        return Tile(16, 16, 1)
    if length <= 32:
        return Tile(32, 32, 4)
    if length <= 64:
        return Tile(16, 64, 4)
    return Tile(32, 128, 8) if length <= WHOLE_LENGTH else Tile(64, 64, 8)


class TritonKernels(TorchKernels):
    """Bins by Triton programs; maps have at least 32 bits per neuron, as atomics want them."""

    name = "triton"

    def __init__(self, layout: Layout, device: torch.device) -> None:
        super().__init__(layout, device)
        self._place = {site: place for place, site in enumerate(layout.sites)}
        self._compiled: dict[Any, Any] = {}
        self._none = torch.empty(0, dtype=torch.int32, device=device)

    def to_device(self, array: NDArray[Any]) -> Tensor:
        return super().to_device(array.astype(np.uint32) if array.dtype == np.uint16 else array)

    def bits_to_numpy(self, bits: Tensor, cells: int) -> maps.Bits:
        kind = maps.int_type(cells)
        found = bits.cpu().numpy()
        return found.astype(kind) if kind.itemsize < found.itemsize else found.view(kind)

    def fuses(self, groups: Sequence[Group]) -> bool:
        return all(_covered(group) for group in groups)

    def values(self, tensor: Tensor) -> Tensor:
        return tensor.detach().contiguous()

    def keep(self, part: Tensor, site: Site) -> Tensor:
        return part.contiguous()

    def widen(self, block: Block, bounds: Bounds) -> bool:
        self._launch(loops.WIDEN, block, bounds)
        return True

    def hit(
        self,
        group: Group,
        block: Block,
        bounds: Bounds,
        targets: Sequence[Target],
        order: Order | None = None,
    ) -> bool:
        if not _covered(group):
            return super().hit(group, self._plain(block), bounds, targets, order)
        self._launch(loops.HIT, block, bounds, group.cells, targets, order)
        return True

    def encode(self, group: Group, block: Block, bounds: Bounds, codes: Tensor) -> bool:
        if not _covered(group):
            return super().encode(group, self._plain(block), bounds, codes)
        self._launch(loops.ENCODE, block, bounds, group.cells, codes=codes)
        return True

    def _plain(self, block: Block) -> Block:
        """Return a block as torch operations take it."""
        keep = None if block.keep is None else super().keep(block.keep, block.site)
        return block._replace(values=block.values.float(), keep=keep)

    def _launch(
        self,
        mode: Any,
        block: Block,
        bounds: Bounds,
        cells: int = 1,
        targets: Sequence[Target] = (),
        order: Order | None = None,
        codes: Tensor | None = None,
    ) -> None:
        site, masked, nothing = block.site, len(targets) > 1, self._none
        first = targets[0] if targets else Target(nothing)
        second = targets[1] if masked else Target(nothing)
        arrays = (
            block.keep,
            *bounds,
            first.bits,
            second.bits,
            first.old,
            second.old,
            first.first,
            second.first,
            codes,
            block.rows,
            *(order or (None, None)),
            self._faults,
        )
        given = [nothing if array is None else array for array in arrays]
        flags = (mode.value, masked, order is not None, cells > 32)
        place = (
            site.columns,
            site.rows * site.columns,
            self._spans[site.kind, site.layer][1].start,
            self.layout.slots,
        )
        run = self._attend if isinstance(block.values, Heads) else self._read
        run(block, cells, given, (self._place[site], *place), flags)

    def _read(
        self, block: Block, cells: int, given: list[Tensor], place: Place, flags: Flags
    ) -> None:
        """Launch the program that reads values from memory."""
        site, length, values = block.site, block.length, block.values
        columns, texts = site.touched_columns(length), len(values)
        per_group = length * columns
        neurons = site.groups * per_group
        blocks = triton.cdiv(neurons, BLOCK)
        part = _texts_per_program(texts, blocks)
        number, *where = place
        sizes = (number, texts, neurons, per_group, columns, *where, cells, part)
        per_keep = columns if site.kind == "hidden" else 1
        aligned = neurons % 16 == 0 and values.data_ptr() % 16 == 0
        self._run(
            loops.read_values,
            (blocks, triton.cdiv(texts, part), 1),
            (values, *given, *sizes, per_keep, no_cell(cells)),
            (*flags, aligned, BLOCK),
            4,
            values.dtype,
        )

    def _attend(
        self, block: Block, cells: int, given: list[Tensor], place: Place, flags: Flags
    ) -> None:
        """Launch the program that computes attention and reads its weights."""
        length = block.length
        heads: Heads = block.values
        whole, tile = length <= WHOLE_LENGTH, tile_for(length)
        tops, totals = (self._none, self._none) if whole else self._row_totals(heads, length)
        texts, (_, n, _, width) = len(block.rows), heads.query.shape
        tiles = triton.cdiv(length, tile.rows) * triton.cdiv(length, tile.columns)
        part = _texts_per_program(texts, n * tiles)
        strides = [s for states in heads[:3] for s in states.stride()[:3]]
        states, (number, *where) = (*heads[:3], heads.output), place
        sizes = (number, texts, n, n // heads.key.shape[1], length, width, heads.scale, *where)
        even = all(s % 16 == 0 for s in (*strides, width))
        aligned = even and all(states.data_ptr() % 16 == 0 for states in heads[:3])
        constants = (*flags, heads.causal, whole, _precision(), aligned, *tile[:2], _padded(width))
        self._run(
            loops.attend,
            (triton.cdiv(texts, part), n, tiles),
            (*states, tops, totals, *given, *strides, *sizes, cells, part, no_cell(cells)),
            constants,
            tile.warps,
            heads.query.dtype,
        )
        # Long texts, and the copies behind a small batch, which nobody reads.
        done = texts if whole else 0
        if done < len(heads.query):
            _fill_output(heads, done)

    def _row_totals(self, heads: Heads, length: int) -> tuple[Tensor, Tensor]:
        """Return the largest score of each row of attention, and the sum of its exponentials."""
        texts, n, _, width = heads.query.shape
        tops = torch.empty((texts, n, length), dtype=torch.float32, device=self.device)
        totals = torch.empty_like(tops)
        strides = [s for states in heads[:2] for s in states.stride()[:3]]
        sizes = (n, n // heads.key.shape[1], length, width, heads.scale)
        self._run(
            loops.row_totals,
            (triton.cdiv(length, 64), texts, n),
            (*heads[:2], tops, totals, *strides, *sizes),
            (heads.causal, _precision(), 64, 64, _padded(width)),
            4,
            heads.query.dtype,
        )
        return tops, totals

    def _run(
        self, program: Any, grid: Grid, given: Any, constants: Any, warps: int, kind: torch.dtype
    ) -> None:
        """Launch a program that was compiled for these constants, or compile it first.

        Finding it ourselves takes a third of the time that Triton takes to look at all arguments,
        and a small model's layer takes no longer than that.
        """
        key = (program, constants, warps, kind)
        compiled = self._compiled.get(key)
        if compiled is None:
            self._compiled[key] = program[grid](*given, *constants, num_warps=warps)
        else:
            compiled[grid](*given, *constants)


def _covered(group: Group) -> bool:
    return group.coding is BINS and group.cells <= MOST_CELLS


def _texts_per_program(texts: int, programs: int) -> int:
    """Return how many texts a program takes, if there are some programs for each text."""
    return max(1, -(-texts * programs // PROGRAMS), -(-texts // 65535))


def _padded(width: int) -> int:
    """Return the power of two, 16 or more, that holds a head's dimensions."""
    return max(16, 1 << (width - 1).bit_length())


def _precision() -> str:
    """Return how single-precision products round: as the user told torch."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _fill_output(heads: Heads, done: int) -> None:
    """Let torch compute the output of all texts but the first `done`."""
    shared = heads.key.shape[1] != heads.query.shape[1]
    query, key, value = heads.query[done:], heads.key[done:], heads.value[done:]
    mixed = scaled_dot_product_attention(
        query, key, value, scale=heads.scale, is_causal=heads.causal, enable_gqa=shared
    )
    heads.output[done:] = mixed.transpose(1, 2)
