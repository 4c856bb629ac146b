"""What an engine does with a piece of texts, whichever process it is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.data.table import Signatures
from mncover.engine.asked import Hit
from mncover.engine.first_hits import FirstHits, kernels_in_order
from mncover.engine.kernels.base import Array, Target
from mncover.engine.measure import Advance, Piece, measure_piece
from mncover.engine.readers import HitReader
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine


def answer(
    engine: Engine, piece: Piece, advance: Advance
) -> tuple[NDArray[np.float32], Signatures]:
    """Return the class probabilities and signatures of texts; nothing is counted."""
    reader = engine.signing(len(piece.first))
    found = measure_piece(engine.taps, piece, reader, engine.batch_size, advance)
    return found, reader.signatures[piece.which]


def hit(engine: Engine, piece: Piece, maps: Mapping[str, Array], advance: Advance) -> Hit:
    """Add the hits of texts to maps, which are not part of what is returned."""
    targets = {name: Target(bits) for name, bits in maps.items()}
    reader = engine.sign(HitReader(engine.setups.each, targets), len(piece.first))
    found = measure_piece(engine.taps, piece, reader, engine.batch_size, advance)
    sizes = piece.tokens.lengths, piece.tokens.truncated
    return Hit(*sizes, found, reader.signatures[piece.which], {})


def first_gains(
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    bits: Array,
    criterion: str,
    advance: Advance,
) -> NDArray[np.float64] | None:
    """Add cases to a map; return what each adds, or None if kernels have no loops for that."""
    setups = engine.setups.alone(criterion)
    kernels = kernels_in_order(setups)
    if kernels is None:
        return None
    names = engine.group(criterion).names
    hits = FirstHits.over(setups, kernels, dict.fromkeys(names, bits))
    numbers = np.repeat(np.arange(len(cases)), [len(case) for case in cases])
    done = 0
    with engine.pieces([text for case in cases for text in case]) as each:
        for piece in each:
            # Of a text that comes again in a piece, only the first is run.
            mine = numbers[done : done + len(piece.texts)][piece.first]
            reader = hits.reader(mine, np.zeros_like(mine))
            measure_piece(engine.taps, piece, reader, engine.batch_size, advance)
            done += len(piece.texts)
    bits |= hits.targets[criterion].bits[0]
    return engine.gain(criterion, *hits.new(criterion, len(cases)))
