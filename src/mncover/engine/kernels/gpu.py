"""Kernels for a GPU: Triton programs that read a batch once and write almost nothing.

Where a Triton program does not cover something (more than 64 cells, another coding than bins),
torch operations do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.base import Group
from mncover.criteria.binned import BINS
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine.kernels.base import Block, Bounds, Heads, Order, Target, no_cell
from mncover.engine.kernels.plain_torch import TorchKernels
from mncover.engine.kernels.tiles import WHOLE_LENGTH, stages_for, tile_for
from mncover.engine.kernels.triton_attention import attend, row_totals
from mncover.engine.kernels.triton_bins import ENCODE, HIT, WIDEN
from mncover.engine.kernels.triton_masks import look_up
from mncover.engine.kernels.triton_values import read_values

if TYPE_CHECKING:
    from mncover.engine.masking import MaskTable

MOST_CELLS = 64  # as many as an integer has bits
BLOCK = 256  # neurons of a program that reads values
READERS = 32  # such programs for each multiprocessor

MOST_SITES = 8  # whose values a program can take, one after the other
WAITING_BYTES = 2**28  # of hidden states that may wait for those of the next layers
NO_TARGET = Target(None)
KINDS = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}

Grid = tuple[int, int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """What is done with the values of a batch, whatever the site."""

    mode: int
    bounds: Bounds
    rows: Tensor
    cells: int = 1
    targets: Sequence[Target] = ()
    order: Order | None = None

    @property
    def flags(self) -> tuple[int, bool, bool, bool, int]:
        """The constants of a program."""
        masked, ordered = len(self.targets) > 1, self.order is not None
        return self.mode, masked, ordered, self.cells > 32, ties_of(self.cells)

    @property
    def arrays(self) -> tuple[Tensor | None, ...]:
        """The arrays that a program changes and looks things up in."""
        first = self.targets[0] if self.targets else NO_TARGET
        second = self.targets[1] if len(self.targets) > 1 else NO_TARGET
        maps_of = (first.bits, second.bits, first.old, second.old, first.first, second.first)
        return (*self.bounds, *maps_of, self.rows, *(self.order or (None, None)))

    def does(
        self, mode: int, bounds: Bounds, rows: Tensor, cells: int, targets: Any, order: Any
    ) -> bool:
        """Return whether this is what is asked for, of the same batch."""
        return (
            self.rows is rows
            and self.targets is targets
            and self.bounds is bounds
            and self.order is order
            and self.mode == mode
            and self.cells == cells
        )


class Launch(NamedTuple):
    """How the attention of a batch's layers is launched: all but what differs between layers."""

    key: Any
    grid: Grid
    rest: tuple[Any, ...]
    constants: tuple[Any, ...]
    options: dict[str, int]
    kind: Any
    ready: Any = None  # the compiled program on this grid; `rest` has all it takes then


class TritonKernels(TorchKernels):
    """Bins by Triton programs; maps have at least 32 bits per neuron, as atomics want them."""

    name = "triton"

    def __init__(self, layout: Layout, device: torch.device) -> None:
        super().__init__(layout, device)
        self._about = {
            (site.kind, site.layer): (place, span.start, site.shape)
            for place, (site, span) in enumerate(layout.spans())
        }
        self._slots = layout.slots
        self._compiled: dict[Any, Any] = {}
        self._waiting: list[Block] = []
        self._job: Job | None = None  # of those that wait
        self._last: Job | None = None
        self._plan: Launch | None = None
        self._none = torch.empty(1, dtype=torch.int32, device=device)
        self._nowhere = self._none.data_ptr()
        on_gpu = device.type == "cuda"
        self._ptx = on_gpu and torch.version.hip is None
        self._processors = (
            torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 1
        )

    def to_device(self, array: NDArray[Any]) -> Tensor:
        return super().to_device(array.astype(np.uint32) if array.dtype == np.uint16 else array)

    def bits_to_numpy(self, bits: Tensor, cells: int) -> maps.Bits:
        self.flush()
        kind = maps.int_type(cells)
        found = bits.cpu().numpy()
        return found.astype(kind) if kind.itemsize < found.itemsize else found.view(kind)

    def fuses(self, groups: Sequence[Group]) -> bool:
        return all(self._covers(group) for group in groups)

    def values(self, tensor: Tensor) -> Tensor:
        kept = tensor.detach()
        return (kept if kept.dtype in KINDS else kept.float()).contiguous()

    def keep(self, part: Tensor, site: Site) -> Tensor:
        return part.contiguous()

    def look_up(self, table: MaskTable, ids: Tensor) -> tuple[Tensor, Tensor]:
        texts, length = ids.shape
        known, ids = len(table.pairs.keys), ids.contiguous()
        tokens = torch.empty((texts, length), dtype=torch.uint8, device=self.device)
        pairs = torch.empty((texts, length, length), dtype=torch.uint8, device=self.device)
        given = (ids, table.flags, table.pairs.keys, table.keep_pairs, tokens, pairs)
        sizes = (length, table.pairs.vocabulary, known, known.bit_length(), int(table.unseen))
        grid = (texts, -(-length * length // BLOCK), 1)
        self._run(look_up, grid, (*given, *sizes), (table.by_words, BLOCK), {"num_warps": 4})
        return tokens, pairs

    def to_numpy(self, array: Tensor) -> NDArray[Any]:
        self.flush()
        return super().to_numpy(array)

    def fault(self) -> tuple[Site, int] | None:
        self.flush()
        self._last = self._plan = None
        return super().fault()

    def widen(self, block: Block, bounds: Bounds) -> bool:
        self._launch(self._job_of(WIDEN.value, bounds, block), block)
        return True

    def hit(
        self,
        group: Group,
        block: Block,
        bounds: Bounds,
        targets: Sequence[Target],
        order: Order | None = None,
    ) -> bool:
        if not self._covers(group):
            return super().hit(group, self._plain(block), bounds, targets, order)
        job = self._job_of(HIT.value, bounds, block, group.cells, targets, order)
        self._launch(job, block)
        return True

    def encode(self, group: Group, block: Block, bounds: Bounds, codes: Tensor) -> bool:
        if not self._covers(group):
            return super().encode(group, self._plain(block), bounds, codes)
        self._launch(self._job_of(ENCODE.value, bounds, block, group.cells), block, codes)
        return True

    def _job_of(
        self,
        mode: int,
        bounds: Bounds,
        block: Block,
        cells: int = 1,
        targets: Sequence[Target] = (),
        order: Order | None = None,
    ) -> Job:
        """Return the job of the site before, if it is the same, or a new one."""
        last = self._last
        if last is None or not last.does(mode, bounds, block.rows, cells, targets, order):
            last = self._last = Job(mode, bounds, block.rows, cells, targets, order)
        return last

    def _covers(self, group: Group) -> bool:
        """Return whether programs count a group: its cells are bits, and slots have 31 bits."""
        return group.coding is BINS and group.cells <= MOST_CELLS and self._slots < 2**31

    def _plain(self, block: Block) -> Block:
        """Return a block as torch operations take it."""
        keep = None if block.keep is None else super().keep(block.keep, block.site)
        return block._replace(values=block.values.float(), keep=keep)

    def _launch(self, job: Job, block: Block, codes: Tensor | None = None) -> None:
        """Launch a program for a site, or let hidden states wait for those of the next layers."""
        if isinstance(block.values, Heads):
            self._attend(job, block, codes)
            return
        if self._waiting and not self._goes_with(job, block):
            self.flush()
        self._job = job
        self._waiting.append(block)
        waits = block.site.kind == "hidden" and codes is None
        enough = len(self._waiting) * block.values.nbytes > WAITING_BYTES
        if not waits or enough or len(self._waiting) == MOST_SITES:
            self.flush(codes)

    def _goes_with(self, job: Job, block: Block) -> bool:
        """Return whether a block is of the layer after the last one that waits."""
        last = self._waiting[-1]
        if job is not self._job or block.values.dtype != last.values.dtype:
            return False
        place, _, shape = self._at(block.site)
        before, _, like = self._at(last.site)
        return place == before + 1 and shape == like

    def flush(self, codes: Tensor | None = None) -> None:
        """Launch the program that reads the values of the sites that wait."""
        blocks, self._waiting = self._waiting, []
        if not blocks:
            return
        job, block = self._job, blocks[0]
        assert job is not None
        site, length, values = block.site, block.length, block.values
        columns, texts = site.touched_columns(length), len(values)
        per_group = length * columns
        neurons = site.groups * per_group
        parts = -(-neurons // BLOCK)
        part = self._texts_per_program(texts, parts * len(blocks), READERS)
        place, start, _ = self._at(site)
        sizes = (place, texts, neurons, per_group, columns, site.columns)
        strides = (site.rows * site.columns, site.slots, start, self._slots)
        per_keep = columns if site.kind == "hidden" else 1
        rest = (job.cells, part, per_keep, no_cell(job.cells))
        addresses = [one.values.data_ptr() for one in blocks]
        aligned = neurons % 16 == 0 and all(one % 16 == 0 for one in addresses)
        addresses += addresses[:1] * (MOST_SITES - len(blocks))
        self._run(
            read_values,
            (parts, -(-texts // part), len(blocks)),
            (*addresses, block.keep, codes, *job.arrays, self._faults, *sizes, *strides, *rest),
            (*job.flags, self._ptx, aligned, KINDS[values.dtype], BLOCK),
            {"num_warps": 4},
        )
        self._job = None

    def _attend(self, job: Job, block: Block, codes: Tensor | None) -> None:
        """Launch the program that computes attention and reads its weights."""
        site, heads = block.site, block.values
        whole, texts = block.length <= WHOLE_LENGTH, len(block.rows)
        tops, totals = (None, None) if whole else self._row_totals(heads, block.length)
        states, others = (*heads[:3], heads.output), (tops, totals, block.keep, codes)
        addresses = [one.data_ptr() for one in states]
        plan = self._planned(job, block.length, heads, tuple([one % 16 for one in addresses]))
        place, start, _ = self._at(site)
        if plan.ready is None:
            given = (*states, *others, place, start, *plan.rest)
            self._run(attend, plan.grid, given, plan.constants, plan.options, plan.kind)
        else:
            plan.ready(*addresses, *self._addresses(others), place, start, *plan.rest)
        # Long texts, and the copies behind a small batch, which nobody reads.
        done = texts if whole else 0
        if done < len(heads.query):
            heads.fill(done)

    def _planned(self, job: Job, length: int, heads: Heads, odd: Any) -> Launch:
        """Return how attention is launched: as for the layer before, if that was alike."""
        query, key, value = heads[:3]
        strides = query.stride(), key.stride(), value.stride()
        alike = (job, length, heads.scale, heads.causal, query.dtype, query.shape, strides, odd)
        if self._plan is None or self._plan.key != alike or self._plan.ready is None:
            self._plan = self._launch_of(alike, job, length, heads)
        return self._plan

    def _launch_of(self, alike: Any, job: Job, length: int, heads: Heads) -> Launch:
        """Work out how attention is launched."""
        whole, tile = length <= WHOLE_LENGTH, tile_for(length)
        texts, (_, n, _, width) = len(job.rows), heads.query.shape
        tiles = -(-length // tile.rows) * -(-length // tile.columns)
        part = self._texts_per_program(texts, n * tiles, tile.programs)
        strides = [s for states in heads[:3] for s in states.stride()[:3]]
        step = 16 if all(s % 16 == 0 for s in strides) else 1
        site = next(site for site in self.layout.sites if site.kind == "attention")
        sizes = (texts, n, n // heads.key.shape[1], length, heads.scale)
        where = (site.columns, site.rows * site.columns, self._slots)
        numbers = (*(s // step for s in strides), *sizes, *where)
        rest = (*job.arrays, self._faults, *numbers, job.cells, part, no_cell(job.cells))
        shape = (heads.causal, whole, _precision(), step, *tile[:2], width, _padded(width))
        constants = (*job.flags, self._ptx, *shape)
        stages = stages_for(tile, _padded(width), heads.query.element_size())
        options = {"num_warps": tile.warps, "num_stages": stages, "maxnreg": tile.registers}
        grid, kind = (-(-texts // part), n, tiles), (heads.query.dtype, alike[-1])
        plan = Launch(alike, grid, rest, constants, options, kind)
        compiled = self._compiled.get((attend, constants, kind))
        if compiled is None:
            return plan
        return plan._replace(rest=(*self._addresses(rest), *constants), ready=compiled[grid])

    def _texts_per_program(self, texts: int, programs: int, wanted: int) -> int:
        """Return how many texts a program takes, if there are some programs for each text.

        `wanted` is how many programs each multiprocessor should get.
        """
        return max(1, -(-texts * programs // (self._processors * wanted)), -(-texts // 65535))

    def _at(self, site: Site) -> tuple[int, int, tuple[int, int, int]]:
        """Return a site's place among all, its first slot and its shape; kept, as time matters."""
        return self._about[site.kind, site.layer]

    def _row_totals(self, heads: Heads, length: int) -> tuple[Tensor, Tensor]:
        """Return the largest score of each row of attention, and the sum of its exponentials."""
        texts, n, _, width = heads.query.shape
        tops = torch.empty((texts, n, length), dtype=torch.float32, device=self.device)
        totals = torch.empty_like(tops)
        strides = [s for states in heads[:2] for s in states.stride()[:3]]
        step = 16 if all(s % 16 == 0 for s in strides) else 1
        steps, sizes = [s // step for s in strides], (n, n // heads.key.shape[1], length)
        self._run(
            row_totals,
            (-(-length // 64), texts, n),
            (*heads[:2], tops, totals, *steps, *sizes, heads.scale),
            (heads.causal, _precision(), step, 64, 64, width, _padded(width)),
            {"num_warps": 4},
            (heads.query.dtype, *(one.data_ptr() % 16 == 0 for one in heads[:2])),
        )
        return tops, totals

    def _run(
        self, program: Any, grid: Grid, given: Any, constants: Any, options: Any, kind: Any = None
    ) -> None:
        """Launch a program that was compiled for these constants, or compile it first.

        Finding it ourselves, and giving addresses, takes a third of the time that Triton takes to
        look at all arguments; a small model's layer takes no longer than that.
        """
        key = (program, constants, kind)
        compiled = self._compiled.get(key)
        if compiled is None:
            given = [self._none if one is None else one for one in given]
            self._compiled[key] = program[grid](*given, *constants, **options)
            return
        compiled[grid](*self._addresses(given), *constants)

    def _addresses(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Return where tensors are; other things as they are."""
        nowhere = self._nowhere
        return tuple(
            [
                nowhere if one is None else one.data_ptr() if isinstance(one, Tensor) else one
                for one in given
            ]
        )


@cache
def ties_of(cells: int) -> int:
    """Return a bit for each edge between bins, set if a value exactly on it falls below it.

    It should be in the bin above, but rounding a division and a product may say otherwise.
    """
    return sum(1 << edge for edge in range(1, cells) if edge / cells * cells < edge)


def _padded(width: int) -> int:
    """Return the power of two, 16 or more, that holds a head's dimensions."""
    return max(16, 1 << (width - 1).bit_length())


def _precision() -> str:
    """Return how single-precision products round: as the user told torch."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
