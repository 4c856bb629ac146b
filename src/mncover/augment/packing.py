"""Texts of different lengths in one row, so that a few texts make a full batch.

Nothing in a transformer but its attention looks at more than one position. So texts may follow
each other in one row if every text is told its own positions and attends to itself alone. The
second is done here: for each group of equally long texts the model's own eager attention is
called. A text's states are then bit for bit those of a batch without company; before a model is
run in this way, that is checked on a few texts, and if it does not hold, it is not used.

What comes behind the layers, such as a classifier, would see one text where there are many: a pack
gives no predictions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from mncover.engine.batches import Encoding
from mncover.engine.parallel import side_by_side
from mncover.engine.subject import MIN_TOKENS, PROBE_TEXT, Subject
from mncover.engine.taps import Forward, Key, Read, Taps

States = dict[Key, Tensor]
Shapes = list[tuple[int, int]]

PACKED = "mncover_packed"
# Half as long, and so on, is tried until packs agree: a model with a window agrees within it.
SHORTEST_REACH = 8


@dataclass(frozen=True, slots=True)
class Pack:
    """Groups of equally long texts, one behind the other in one row: how many, and how long."""

    groups: tuple[tuple[int, int], ...]
    causal: bool

    def cut(self, values: Tensor, dim: int) -> Iterator[Tensor]:
        """Yield the values of each group, whose dimension of positions becomes [texts, T]."""
        start = 0
        for n, length in self.groups:
            part = values.narrow(dim, start, n * length)
            yield part.view(*part.shape[:dim], n, length, *part.shape[dim + 1 :])
            start += n * length


_running: ContextVar[Pack] = ContextVar("mncover_pack")


@dataclass(frozen=True, slots=True)
class Packing:
    """How a subject's texts are packed; made by `find_packing`.

    `reach` is the longest text that may be in a pack, `first` the number of a text's first
    position.
    """

    taps: Taps
    reach: int
    first: int

    def inputs(self, groups: Sequence[Sequence[Encoding]]) -> dict[str, Tensor]:
        """Put groups of equally long texts into one row."""
        texts = [text for group in groups for text in group]
        rows = {name: [i for t in texts for i in t.inputs[name]] for name in texts[0].inputs}
        rows["position_ids"] = [self.first + i for text in texts for i in range(text.length)]
        device = self.taps.subject.device
        return {name: torch.tensor([row], device=device) for name, row in rows.items()}

    def run(
        self, forward: Forward, groups: Sequence[Sequence[Encoding]], reads: list[Read]
    ) -> None:
        """Run groups of equally long texts in one row; each has its own reader.

        A row of very few tokens is filled up with copies, for the reason that `Subject.inputs` has.
        """
        shapes = [(len(group), group[0].length) for group in groups]
        copies = -(-MIN_TOKENS // sum(n * length for n, length in shapes))
        pack = Pack(tuple(shapes * copies), self.taps.causal)

        def read(kind: Any, layer: int, values: Any) -> None:
            parts = values if kind == "attention" else (p[0] for p in pack.cut(values, 1))
            for one, part in zip(reads, parts, strict=False):  # behind them are copies
                one(kind, layer, part)

        token = _running.set(pack)
        try:
            forward(self.inputs([*groups] * copies), read)
        finally:
            _running.reset(token)


def find_packing(taps: Taps, max_length: int) -> Packing | None:
    """Return how texts can be packed so that nothing changes, or None if they cannot.

    On a GPU, and where several threads share a batch, they are not: rounding may then depend on
    the size of a matrix, and a few texts that agree prove nothing.
    """
    subject = taps.subject
    shared = subject.lanes == 1 and torch.get_num_threads() > 1
    takes = inspect.signature(subject.runner.forward).parameters
    if taps.way != "hooks" or "position_ids" not in takes or subject.device.type != "cpu" or shared:
        return None
    text = subject.encode([" ".join([PROBE_TEXT] * max_length)], max_length)[0]
    packing = Packing(taps, text.length, _first_position(subject))
    while packing.reach >= SHORTEST_REACH:
        if _agrees(packing, text):
            return packing
        packing = Packing(taps, packing.reach // 2, packing.first)
    return None


def _probes(reach: int) -> list[Shapes]:
    """Return the packs that are tried: of many lengths, of two, short ones, equal ones."""
    lengths = [reach, reach // 2 + 1, reach // 4 + 1, 9, 6, 3]
    ones = [(1, length) for length in dict.fromkeys(lengths) if length <= reach]
    return [ones, [ones[0], ones[-1]], ones[-2:], [(3, 5), (2, 4), (1, 3)]]


def _start_of(text: Encoding, n: int) -> Encoding:
    return Encoding({name: ids[:n] for name, ids in text.inputs.items()}, True)


def _first_position(subject: Subject) -> int:
    """Return 0, or what comes behind the rows that a table of positions keeps for padding."""
    return next(((table.padding_idx or 0) + 1 for table in subject.padded_position_tables()), 0)


def _agrees(packing: Packing, text: Encoding) -> bool:
    """Return whether texts in packs have bit for bit the states that each of them has alone."""
    probes = _probes(packing.reach)
    lengths = {length for shapes in probes for _, length in shapes}
    alone = _seen_alone(packing.taps, {length: _start_of(text, length) for length in lengths})

    def run(shapes: Shapes) -> bool:
        seen: list[States] = [{} for _ in shapes]
        groups = [[_start_of(text, length)] * n for n, length in shapes]
        packing.run(forward, groups, [_keep(states) for states in seen])
        return all(_equal(s, alone[length]) for s, (_, length) in zip(seen, shapes, strict=True))

    try:
        with packing.taps.open(PACKED) as forward, side_by_side(packing.taps.subject.lanes) as each:
            return all(each(run, probes))
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False


def _seen_alone(taps: Taps, texts: dict[int, Encoding]) -> dict[int, States]:
    """Return the states of texts of some lengths, each in a batch of its own."""

    def run(text: Encoding) -> States:
        seen: States = {}
        forward(taps.subject.inputs([text]), _keep(seen))
        return seen

    with taps.open() as forward, side_by_side(taps.subject.lanes) as each:
        return dict(zip(texts, each(run, texts.values()), strict=True))


def _equal(one: States, other: States) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def _keep(seen: States) -> Read:
    return lambda kind, layer, values: seen.update({(kind, layer): values[:1].clone()})


def packs(lengths: Sequence[int], most_texts: int, most_tokens: int, n: int) -> list[list[int]]:
    """Return lists of indices of texts that run in one row, the longest first; `n` at a time.

    Packs have about equally many tokens, on an average `most_tokens` at most, and there are so
    many that none runs alone, unless all are small. Texts of no tokens are left out.

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
    return [
        rows[start : start + most_texts]
        for rows in found
        for start in range(0, len(rows), most_texts)
    ]


def groups_of(rows: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Cut the indices of a pack, sorted by length, where the length changes."""
    found: list[list[int]] = []
    for row in rows:
        if found and lengths[found[-1][0]] == lengths[row]:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, list[Tensor]]:
    """Let each group of the pack that runs attend to itself, by the model's own function."""
    pack = _running.get()
    eager = sys.modules[type(module).__module__].eager_attention_forward
    outputs, weights = [], []
    states = zip(*(pack.cut(states, 2) for states in (query, key, value)), strict=True)
    for (n, length), parts in zip(pack.groups, states, strict=True):
        own = [_with_copies(part[0].permute(1, 2, 0, 3)) for part in parts]
        mask = _causal_mask(length, query) if pack.causal else None
        output, weight = eager(module, *own, mask, **options)
        outputs.append(output[:n].flatten(0, 1))
        weights.append(weight)
    return torch.cat(outputs).unsqueeze(0), weights


def _with_copies(states: Tensor) -> Tensor:
    """Return states [n, T, heads, width] as attention takes them, few ones with copies.

    Copies, and the order in memory that they would have in a batch of their own, for the reason
    that `Subject.inputs` has.
    """
    copies = -(-MIN_TOKENS // (states.shape[0] * states.shape[1]))
    return (states.repeat(copies, 1, 1, 1) if copies > 1 else states).transpose(1, 2)


def _causal_mask(length: int, like: Tensor) -> Tensor:
    least = torch.finfo(like.dtype).min
    return torch.full((1, 1, length, length), least, dtype=like.dtype, device=like.device).triu(1)


AttentionInterface.register(PACKED, _attention)
