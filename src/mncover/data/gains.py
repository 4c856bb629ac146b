"""What each text added in the order of its run: gains, and the new share of what it touched."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.identity import Identity
from mncover.data.layout import Layout
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.types import Settings


def novelty(data: CoverageData) -> NDArray[np.float64]:
    """Return, for each text, how much of what it made the model do was new, 0 to 1.

    That is, of the neurons it touched, the share in which it hit a cell that no text before it
    in its run had hit, by the main criterion, the two kinds weighted as in it. Unlike the gain it
    does not grow with the text's length. NaN where the order of the run was not kept.
    """
    table = data.table
    hidden, attention = table.new[data.identity.main.name]
    new = hidden + data.identity.settings.attention_weight * attention
    # A text without tokens touches nothing: nothing of it was new.
    shares = new / np.maximum(touched_neurons(data.identity, table["length"]), 1.0)
    return np.where(hidden == UNKNOWN, np.nan, shares)


def touched_neurons(identity: Identity, lengths: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many neurons of the main criterion a text of each length touches, weighted."""
    layout, weight = identity.main.layout, identity.settings.attention_weight
    distinct, which = np.unique(lengths, return_inverse=True)
    touched = layout.touched_neurons
    found = [touched("hidden", n) + weight * touched("attention", n) for n in distinct.tolist()]
    return np.array(found, dtype=np.float64)[which]


def gains(data: CoverageData, criterion: str, rows: Any = slice(None)) -> NDArray[np.float64]:
    """Return what each text added to a criterion; NaN where the order was not kept."""
    new, identity = data.table.new[criterion][:, rows], data.identity
    measured = identity.criterion(criterion)
    shares = gain_share(measured.layout, identity.settings, measured.cells, *new)
    return np.where(new[0] == UNKNOWN, np.nan, shares)


def gain_share(
    layout: Layout, settings: Settings, cells: int, new_hidden: Any, new_attention: Any
) -> Any:
    """Return newly hit cells, numbers or arrays of them, as a share of all cells."""
    totals = {"hidden": 0, "attention": 0}
    for site in layout.sites:
        totals[site.kind] += layout.neurons(site) * cells
    weight = settings.attention_weight
    new = np.asarray(new_hidden) + weight * np.asarray(new_attention)
    return new / (totals["hidden"] + weight * totals["attention"])
