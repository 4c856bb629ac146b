"""What goes to workers and comes back: plain data, named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.maps import Bits
from mncover.data.table import Signatures
from mncover.types import Text


class Stretch(NamedTuple):
    """Texts to be recorded in order, with their contexts; the first `done` of them are already."""

    texts: Sequence[Text]
    contexts: Sequence[str]
    done: int = 0


class Cases(NamedTuple):
    """Cases whose hits are wanted for one criterion."""

    cases: Sequence[Sequence[Text]]
    criterion: str


class InLayer(NamedTuple):
    """Texts whose mean states in a layer are wanted."""

    texts: Sequence[Text]
    layer: int


class Hit(NamedTuple):
    """What came of texts whose order does not matter: answers, and maps by criterion."""

    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    signatures: Signatures
    maps: dict[str, Bits]


def texts_of(asked: Any) -> list[Text]:
    """Return the texts that a worker is asked about."""
    if isinstance(asked, Cases):
        return [text for case in asked.cases for text in case]
    if isinstance(asked, Stretch):
        return list(asked.texts[asked.done :])
    return list(asked[0] if isinstance(asked, tuple) else asked)
