"""Where texts lie inside a model: the mean state of a layer, while the model answers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.engine import elsewhere
from mncover.engine.engine import Engine
from mncover.engine.measure import Advance, Piece, measure_piece
from mncover.engine.signatures import Pool, PoolReader
from mncover.errors import SettingsError
from mncover.types import Text


class States(NamedTuple):
    """What came of some texts, `part` of all that were given."""

    part: slice
    states: NDArray[np.float16]  # [texts, width]; NaN for a text without tokens
    probabilities: NDArray[np.float32]


@dataclass(frozen=True)
class Space:
    """The mean states of a layer of the model, or of an encoder that is run beside it."""

    engine: Engine
    layer: int
    encoder: Engine | None = None

    @classmethod
    def layer_of(cls, engine: Engine, asked: str = "middle") -> Space:
        """Return the space that is asked for: middle, last, or the number of a layer."""
        last = sum(site.kind == "hidden" for site in engine.layout.sites) - 1
        named = {"middle": last // 2, "last": last} | {str(n): n for n in range(last + 1)}
        if asked not in named:
            raise SettingsError(
                f"there is no space {asked!r}: give middle, last, a layer from 0 to {last}, or the "
                "folder of an encoder."
            )
        return cls(engine, named[asked])

    @classmethod
    def of_encoder(cls, engine: Engine, encoder: Engine) -> Space:
        """Return the space of an encoder: the mean of its last layer, as sentence encoders do."""
        return cls(engine, cls.layer_of(encoder, "last").layer, encoder)

    @property
    def name(self) -> str:
        """What people read."""
        if self.encoder is not None:
            return f"encoder {self.encoder.subject.name}"
        return f"layer {self.layer}, mean over tokens"

    def read(self, what: str, texts: Sequence[Text]) -> Iterator[States]:
        """Run texts piece by piece, `what` being said of it; no more than a piece is held."""
        done = 0
        with self.engine.bar(what, len(texts)) as advance:
            for states, found in self._each(texts, advance):
                part = slice(done, done + len(found))
                done = part.stop
                if self.encoder is not None:
                    states = _encoded(self.encoder, self.layer, texts[part])
                yield States(part, states, found)

    def _each(
        self, texts: Sequence[Text], advance: Advance
    ) -> Iterator[tuple[NDArray[np.float16], NDArray[np.float32]]]:
        """Yield the states and class probabilities of texts, piece by piece."""
        engine = self.engine
        if engine.crew is not None:
            layer = self.layer if self.encoder is None else 0
            yield from elsewhere.states(engine.crew, engine, texts, layer, advance)
            return
        with engine.pieces(texts) as pieces:
            for piece in pieces:
                yield self.of_piece(piece, advance)

    def of_piece(
        self, piece: Piece, advance: Advance
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """Run texts; return their mean states in the model, and the class probabilities."""
        layer = self.layer if self.encoder is None else 0
        reader = _reader(self.engine, layer, len(piece.first))
        found = measure_piece(self.engine.taps, piece, reader, self.engine.batch_size, advance)
        return reader.found[0][piece.which], found

    def states(self, what: str, texts: Sequence[Text]) -> NDArray[np.float16]:
        """Return the states of texts that are few enough to be held."""
        return np.concatenate([found.states for found in self.read(what, texts)])


def _encoded(encoder: Engine, layer: int, texts: Sequence[Text]) -> NDArray[np.float16]:
    alone = Space(encoder, layer)
    with encoder.pieces(texts) as pieces:
        parts = []
        for piece in pieces:
            reader = _reader(alone.engine, layer, len(piece.first))
            measure_piece(encoder.taps, piece, reader, encoder.batch_size, lambda n: None)
            parts.append(reader.found[0][piece.which])
    return np.concatenate(parts)


def _reader(engine: Engine, layer: int, texts: int) -> PoolReader:
    site = next(s for s in engine.layout.sites if s.kind == "hidden" and s.layer == layer)

    def mean(states: Tensor) -> Tensor:
        return states.mean(dim=1, dtype=torch.float32)

    pool = Pool(layer, site.columns, mean)
    return PoolReader(None, [pool], texts, [site.columns], lambda part, states: states)
