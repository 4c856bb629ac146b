"""SADL's surprise coverage (Kim, Feldt, Yoo 2019): how surprising texts are to a layer."""

from __future__ import annotations

from mncover.criteria.base import Parameter, View
from mncover.criteria.binned import Binned

SADL = "SADL, Kim et al. 2019"


def _surprise(view: str, what: str, name: str, times: float) -> Binned:
    return Binned(
        name,
        name.upper(),
        f"bins of a text's surprise by {what}, layer by layer",
        view=View(view, times),
        source=SADL,
        parameter=Parameter(
            "the upper bound, in multiples of the calibration texts' largest surprise",
            2,
            0.1,
            1000,
            lambda value, named: _surprise(view, what, named, value),
        ),
    )


LSC = _surprise("likelihood", "likelihood", "lsc", 2)
DSC = _surprise("distance", "distance", "dsc", 2)
MDSC = _surprise("mahalanobis", "Mahalanobis distance", "mdsc", 2)
