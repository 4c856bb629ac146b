"""The two metrics: Cover counts every hit, mnCover those that masks let count."""

from __future__ import annotations

from typing import Literal, get_args

from mncover.errors import SettingsError

Metric = Literal["cover", "mncover"]
COVER: Metric = "cover"
MNCOVER: Metric = "mncover"
NAMES: dict[Metric, str] = {"cover": "Cover", "mncover": "mnCover"}
METRICS: tuple[Metric, ...] = get_args(Metric)


def check_metric(metric: str, masked: bool) -> Metric:
    """Return the metric of a name; refuse an unknown one, and mnCover where there are no masks."""
    for known in METRICS:
        if metric == known:
            break
    else:
        raise SettingsError(f"the metric must be {' or '.join(METRICS)}, got {metric!r}.")
    if known == MNCOVER and not masked:
        raise SettingsError("mnCover needs masks, and there are none (`mncover run --masks`).")
    return known
