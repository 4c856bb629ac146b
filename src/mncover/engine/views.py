"""What criteria look at: a registry, by the names that criteria have in their `view`.

A new one is a class and a line.
"""

from __future__ import annotations

from collections.abc import Callable

from mncover.criteria.base import View
from mncover.data.layout import Layout
from mncover.engine.pairs import Pairs
from mncover.engine.sites import AllSites, HiddenSites, Scaled, SiteView, Top
from mncover.engine.surprise import Distance, Likelihood, Mahalanobis, Surprise
from mncover.types import Settings

VIEWS: dict[str, Callable[[View, Layout, Settings], SiteView]] = {
    "all": AllSites,
    "hidden": HiddenSites,
    "scaled": Scaled,
    "top": Top,
    "pairs": Pairs,
    "likelihood": Likelihood,
    "distance": Distance,
    "mahalanobis": Mahalanobis,
}


def view_of(view: View, layout: Layout, settings: Settings) -> SiteView:
    """Return a view over the layout of all sites."""
    return VIEWS[view.name](view, layout, settings)


def needs_references(view: View) -> bool:
    """Return whether a view compares texts with calibration texts."""
    kind = VIEWS[view.name]
    return isinstance(kind, type) and issubclass(kind, Surprise)
