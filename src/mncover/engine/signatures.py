"""Pool the states of each text while the model runs: what signatures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.data.layout import Kind, Layout
from mncover.data.signatures import MAX_STATE, SignatureSpace
from mncover.engine.batches import Batch, Rows
from mncover.engine.kernels.base import Heads
from mncover.engine.readers import Reader
from mncover.engine.taps import Read


class Pool(NamedTuple):
    """A layer, and how the states [texts, T, width] of its tokens become one vector per text."""

    layer: int
    width: int
    of: Callable[[Tensor], Tensor]


def pools_of(layout: Layout) -> tuple[Pool, ...]:
    """Return where the parts of a signature come from.

    The token is the first one, which classifiers like to read. Under causal attention the first
    token sees no other, so there it is the last one.
    """
    widths = [site.columns for site in layout.sites if site.kind == "hidden"]
    last = len(widths) - 1
    at = -1 if layout.causal else 0

    def mean(states: Tensor) -> Tensor:
        return states.mean(dim=1, dtype=torch.float32)

    def token(states: Tensor) -> Tensor:
        return states[:, at].to(torch.float32, copy=True)  # a view would keep all the states

    middle = last // 2
    return (
        Pool(middle, widths[middle], mean),
        Pool(last, widths[last], mean),
        Pool(last, widths[last], token),
    )


# What is kept of a part's pooled states [texts, width].
Keep = Callable[[int, Tensor], Tensor]


class PoolReader:
    """Hands every site to another reader, if there is one, and keeps the pooled states."""

    def __init__(
        self,
        inner: Reader | None,
        pools: Sequence[Pool],
        texts: int,
        sizes: Sequence[int],
        keep: Keep,
        wanted: NDArray[np.int64] | None = None,
    ) -> None:
        self.inner, self.pools, self.keep = inner, pools[: len(sizes)], keep
        self.texts = texts
        self._layers = {pool.layer for pool in self.pools}
        kept = np.arange(texts) if wanted is None else np.unique(wanted)
        self._place = np.full(texts, -1)
        self._place[kept] = np.arange(len(kept))
        self._found = [np.full((len(kept), size), np.nan, dtype=np.float16) for size in sizes]
        self._waiting: list[list[tuple[Rows, Tensor]]] = [[] for _ in sizes]

    @classmethod
    def raw(
        cls, inner: Reader | None, layout: Layout, texts: int, wanted: NDArray[np.int64]
    ) -> PoolReader:
        """Return a reader that keeps pooled states as they are, of those texts that are wanted."""
        pools = pools_of(layout)
        sizes = [pool.width for pool in pools]
        return cls(inner, pools, texts, sizes, lambda part, states: states, wanted)

    @classmethod
    def projected(
        cls, inner: Reader | None, layout: Layout, texts: int, projections: Sequence[Projection]
    ) -> PoolReader:
        """Return a reader that keeps signatures; without projections they have no numbers."""

        def keep(part: int, states: Tensor) -> Tensor:
            mean, components = projections[part]
            # In double precision, so that a text's signature does not depend on its batch.
            return (states.double() - mean) @ components

        return cls(
            inner, pools_of(layout), texts, [p.components.shape[1] for p in projections], keep
        )

    def begin(self, batch: Batch) -> Read:
        """Take a batch."""
        read = None if self.inner is None else self.inner.begin(batch)
        return partial(self._read, batch.rows, read)

    def end(self) -> None:
        """Finish the inner reader."""
        if self.inner is not None:
            self.inner.end()

    def _read(self, rows: Rows, read: Read | None, kind: Kind, layer: int, tensor: Any) -> None:
        if read is not None:
            read(kind, layer, tensor)  # which refuses what is not finite
        elif isinstance(tensor, Heads):
            tensor.fill()  # nobody else computes what attention gives
        if kind == "hidden" and layer in self._layers:
            self._pool(rows, layer, tensor)

    def _pool(self, rows: Rows, layer: int, tensor: Tensor) -> None:
        for part, pool in enumerate(self.pools):
            if layer == pool.layer:
                states = pool.of(tensor[: len(rows)])
                if states.is_cpu:
                    self._put(part, rows, states)
                else:  # to be fetched at the end: a GPU would have to finish each batch first
                    self._waiting[part].append((rows, states))

    def _put(self, part: int, rows: Rows, states: Tensor) -> None:
        places = self._place[rows]
        if (places < 0).any():
            mine = np.flatnonzero(places >= 0)
            places, states = places[mine], states[torch.from_numpy(mine).to(states.device)]
        bounded = self.keep(part, states).clamp(-MAX_STATE, MAX_STATE)
        self._found[part][places] = bounded.half().cpu().numpy()

    @property
    def found(self) -> list[NDArray[np.float16]]:
        """For each part a row for each text that is wanted; NaN for one that was not run."""
        for part, waiting in enumerate(self._waiting):
            if waiting:
                rows, states = zip(*waiting, strict=True)
                self._put(part, np.concatenate(rows), torch.cat(states))
                waiting.clear()
        return self._found

    @property
    def signatures(self) -> NDArray[np.float16]:
        """What was kept, the parts of a text one after the other."""
        nothing = np.empty((self.texts, 0), dtype=np.float16)
        return np.concatenate([nothing, *self.found], axis=1)


class Projection(NamedTuple):
    """The projection of one part, on the subject's device."""

    mean: Tensor  # [width]
    components: Tensor  # [width, dimensions]


def projections_on(space: SignatureSpace, device: torch.device) -> tuple[Projection, ...]:
    """Put a space's projections on a device."""
    return tuple(
        Projection(
            torch.as_tensor(mean, dtype=torch.float64, device=device),
            torch.as_tensor(components.T.copy(), dtype=torch.float64, device=device),
        )
        for mean, components in zip(space.means, space.components, strict=True)
    )
