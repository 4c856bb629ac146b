"""What counts as covered: a registry of criteria. A new one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Sequence

from mncover.criteria.base import Criterion
from mncover.criteria.binned import COVER, MNCOVER
from mncover.errors import SettingsError

CRITERIA: dict[str, Criterion] = {COVER.name: COVER, MNCOVER.name: MNCOVER}


def chosen_criteria(names: Sequence[str] | None, masks: bool) -> tuple[Criterion, ...]:
    """Return the criteria of some names, or the usual ones: Cover, and with masks mnCover.

    A masked criterion brings the one along that it shares its coding with.
    """
    if names is None:
        return (COVER, MNCOVER) if masks else (COVER,)
    found: dict[str, Criterion] = {}
    for name in names:
        if name not in CRITERIA:
            raise SettingsError(f"there is no criterion {name!r}; there are {', '.join(CRITERIA)}.")
        criterion = CRITERIA[name]
        if criterion.masked:
            if not masks:
                raise SettingsError(f"{criterion.title} needs masks: give a file with --masks.")
            companion = _companion(criterion)
            found.setdefault(companion.name, companion)
        found.setdefault(name, criterion)
    if not found:
        raise SettingsError(f"give at least one criterion of {', '.join(CRITERIA)}.")
    if masks and not any(criterion.masked for criterion in found.values()):
        raise SettingsError("no chosen criterion uses the masks: add mncover, or drop --masks.")
    return tuple(found.values())


def _companion(masked: Criterion) -> Criterion:
    same = (c for c in CRITERIA.values() if c.coding is masked.coding and c.view == masked.view)
    return next(c for c in same if not c.masked)
