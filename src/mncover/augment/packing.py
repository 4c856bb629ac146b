"""Pack texts of different lengths into one row, so that a few texts fill a batch.

In a transformer only attention looks at more than one position. So texts may follow each other in
one row if each gets its own positions, and the model's own eager attention is called for each group
of equally long texts. Their states are then bit for bit those of an ordinary batch, which is
checked on a few texts: a model that fails is never packed. What follows the layers, such as a
classifier, would see one text where there are several: packs give no predictions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AttentionInterface

from mncover.engine.batches import Batch, Tokens, batch_limits, parallel, staged
from mncover.engine.measure import errors_named, measure
from mncover.engine.subject import MIN_TOKENS, PROBE_TEXT
from mncover.engine.taps import Forward, Key, Read, Taps
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.data.layout import Kind
    from mncover.engine.readers import Reader

States = dict[Key, Tensor]
Shapes = list[tuple[int, int]]

PACKED = "mncover_packed"
# The reach is halved down to this until packs agree: a model with a window agrees within it.
SHORTEST_REACH = 8


@dataclass(frozen=True, slots=True)
class Pack:
    """Groups of equally long texts that follow each other in one row: their sizes and lengths."""

    groups: tuple[tuple[int, int], ...]
    causal: bool

    def cut(self, values: Tensor, dim: int) -> Iterator[Tensor]:
        """Yield the values of each group; the dimension of positions becomes [texts, T]."""
        start = 0
        for n, length in self.groups:
            part = values.narrow(dim, start, n * length)
            yield part.view(*part.shape[:dim], n, length, *part.shape[dim + 1 :])
            start += n * length


_running: ContextVar[Pack] = ContextVar("mncover_pack")


@dataclass(frozen=True, slots=True)
class Packing:
    """How to pack a subject's texts; made by `find_packing`.

    `reach` is the length of the longest text that may be packed, `first` the number of a text's
    first position.
    """

    taps: Taps
    reach: int
    first: int

    def measure(
        self,
        taps: Taps,
        texts: Sequence[Text],
        tokens: Tokens,
        reader: Reader,
        batch_size: int | None,
        advance: Callable[[int], None],
    ) -> NDArray[np.float32]:
        """Run every text once, as the engine's `measure` does, but the short ones in packs.

        Packed texts have no class probabilities: theirs are NaN.
        """
        subject, n = taps.subject, taps.subject.workers
        short = tokens.lengths <= self.reach
        lengths = np.where(short, tokens.lengths, 0).tolist()

        def run(rows: list[int]) -> list[int]:
            groups = [np.array(group) for group in groups_of(rows, lengths)]
            reads = [reader.begin(batch) for batch, _ in staged(tokens, groups, subject.device)]
            self.run(forward, [tokens.take(group) for group in groups], reads)
            return rows

        limits = batch_limits(subject.device, n, batch_size)
        with errors_named(texts), taps.open(PACKED) as forward, parallel(n) as run_all:
            for rows in run_all(run, packs(lengths, *limits, n)):
                advance(len(rows))
        return measure(taps, texts, tokens.emptied(short), reader, batch_size, advance)

    def run(self, forward: Forward, groups: list[Tokens], reads: list[Read]) -> None:
        """Run groups of equally long texts in one row, each with its own reader.

        A row of very few tokens is repeated, for the reason given in `Subject.inputs`.
        """
        shapes = [(len(group), int(group.lengths[0])) for group in groups]
        copies = -(-MIN_TOKENS // sum(n * length for n, length in shapes))
        pack = Pack(tuple(shapes * copies), self.taps.causal)

        def read(kind: Any, layer: int, values: Any) -> None:
            parts = values if kind == "attention" else (p[0] for p in pack.cut(values, 1))
            for one, part in zip(reads, parts, strict=False):  # copies follow them
                one(kind, layer, part)

        texts = Tokens.joined(groups * copies)
        places = np.arange(texts.lengths.sum()) - np.repeat(texts.offsets, texts.lengths)
        rows = {**texts.inputs, "position_ids": self.first + places}
        inputs = {name: torch.from_numpy(row[None].astype(np.int64)) for name, row in rows.items()}
        token = _running.set(pack)
        try:
            forward({name: row.to(self.taps.subject.device) for name, row in inputs.items()}, read)
        finally:
            _running.reset(token)


def find_packing(taps: Taps, max_length: int) -> Packing | None:
    """Return how to pack texts without changing anything, or None if that is impossible.

    On a GPU, and where several threads share a batch, rounding may depend on the size of a matrix:
    a few texts that agree prove nothing, so nothing is packed.
    """
    subject = taps.subject
    # The readers of packs take attention weights, and a pack has no prompts before what is read.
    if taps.fused or not taps.heads or subject.prompting.read == "answer":
        return None
    shared = subject.workers == 1 and torch.get_num_threads() > 1
    takes = inspect.signature(subject.runner.forward).parameters
    if taps.way != "hooks" or "position_ids" not in takes or subject.device.type != "cpu" or shared:
        return None
    # A position table may reserve its first rows for padding.
    first = next(((t.padding_idx or 0) + 1 for t in subject.padded_position_tables()), 0)
    text = subject.tokenise([" ".join([PROBE_TEXT] * max_length)], max_length)
    packing = Packing(taps, int(text.lengths[0]), first)
    while packing.reach >= SHORTEST_REACH and not _agrees(packing, text):
        packing = replace(packing, reach=packing.reach // 2)
    return packing if packing.reach >= SHORTEST_REACH else None


def _probes(reach: int) -> list[Shapes]:
    """Return the packs to try: of many lengths, of two, of short texts, of equal texts."""
    lengths = [reach, reach // 2 + 1, reach // 4 + 1, 9, 6, 3]
    ones = [(1, length) for length in dict.fromkeys(lengths) if length <= reach]
    return [ones, [ones[0], ones[-1]], ones[-2:], [(3, 5), (2, 4), (1, 3)]]


def _agrees(packing: Packing, text: Tokens) -> bool:
    """Return whether texts have bit for bit the same states in packs as alone."""
    taps, probes = packing.taps, _probes(packing.reach)
    lengths = {length for shapes in probes for _, length in shapes}

    def start_of(text: Tokens, n: int) -> Tokens:
        inputs = {name: ids[:n] for name, ids in text.inputs.items()}
        return Tokens(inputs, np.array([n]), text.truncated)

    def run_alone(one: Tokens) -> States:
        seen: States = {}
        forward(taps.subject.inputs(one), _keep(seen))
        return seen

    def run_packed(shapes: Shapes) -> bool:
        seen: list[States] = [{} for _ in shapes]
        groups = [texts[length].take([0] * n) for n, length in shapes]
        packing.run(forward, groups, list(map(_keep, seen)))
        return all(_equal(s, alone[length]) for s, (_, length) in zip(seen, shapes, strict=True))

    texts = {n: start_of(text, n) for n in lengths}
    with taps.open() as forward, parallel(taps.subject.workers) as each:
        alone = dict(zip(texts, each(run_alone, texts.values()), strict=True))
    try:
        with taps.open(PACKED) as forward, parallel(taps.subject.workers) as each:
            return all(each(run_packed, probes))
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False


def _equal(one: States, other: States) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def _keep(seen: States) -> Read:
    return lambda kind, layer, values: seen.update({(kind, layer): values[:1].clone()})


def packs(lengths: Sequence[int], most_texts: int, most_tokens: int, n: int) -> list[list[int]]:
    """Return packs of text indices, longest texts first, of which `n` run at a time.

    Packs have about the same number of tokens, at most `most_tokens` on average, and their number
    is a multiple of `n` unless there are few tokens in all. Texts without tokens are left out.

    >>> packs([3, 90, 4, 0, 88, 3], 32, 352, 2)
    [[1], [4, 2, 0, 5]]
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    tokens = sum(lengths)
    parts = max(1, min(n * -(-tokens // (n * most_tokens)), tokens // (2 * MIN_TOKENS)))
    found: list[list[int]] = [[] for _ in range(parts)]
    before = 0
    for index in order:
        found[int((before + lengths[index] / 2) * parts / tokens)].append(index)
        before += lengths[index]
    return [rows[i : i + most_texts] for rows in found for i in range(0, len(rows), most_texts)]


def groups_of(rows: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Split the indices of a pack, which are sorted by length, where the length changes."""
    return [list(group) for _, group in groupby(rows, key=lengths.__getitem__)]


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, list[Tensor]]:
    """Let each group of the running pack attend to itself, by the model's own function."""
    pack = _running.get()
    eager = sys.modules[type(module).__module__].eager_attention_forward
    outputs, weights, least = [], [], torch.finfo(query.dtype).min
    states = zip(*(pack.cut(states, 2) for states in (query, key, value)), strict=True)
    for (n, length), parts in zip(pack.groups, states, strict=True):
        own = [_with_copies(part[0].permute(1, 2, 0, 3)) for part in parts]
        mask = query.new_full((1, 1, length, length), least).triu(1) if pack.causal else None
        output, weight = eager(module, *own, mask, **options)
        outputs.append(output[:n].flatten(0, 1))
        weights.append(weight)
    return torch.cat(outputs).unsqueeze(0), weights


def _with_copies(states: Tensor) -> Tensor:
    """Return states [n, T, heads, width] as attention takes them, repeated if they are few.

    They get the memory layout of a batch of their own, for the reason given in `Subject.inputs`.
    """
    copies = -(-MIN_TOKENS // (states.shape[0] * states.shape[1]))
    return (states.repeat(copies, 1, 1, 1) if copies > 1 else states).transpose(1, 2)


AttentionInterface.register(PACKED, _attention)


@dataclass(frozen=True, slots=True)
class MeanReader:
    """Passes everything on to another reader, and keeps the means of the last hidden states.

    They are normalised to length one: what `Embedder` returns, but without padding.
    """

    reader: Reader
    last: int
    means: dict[int, NDArray[np.float32]]

    def begin(self, batch: Batch) -> Read:
        """Take a batch; return what reads its sites."""
        pass_on, rows = self.reader.begin(batch), batch.rows.tolist()

        def read(kind: Kind, layer: int, tensor: Tensor) -> None:
            pass_on(kind, layer, tensor)
            if (kind, layer) == ("hidden", self.last):
                means = normalize(tensor[: len(rows)].float().mean(1), dim=-1)
                self.means.update(zip(rows, means.cpu().numpy(), strict=True))

        return read

    def end(self) -> None:
        """Finish the inner reader."""
        self.reader.end()
