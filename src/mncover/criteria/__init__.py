"""What counts as covered: a registry of criteria. A new one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Sequence

from mncover.criteria.active import NC, TKNC
from mncover.criteria.base import Criterion
from mncover.criteria.binned import COVER, MNCOVER
from mncover.criteria.boundary import KMNC, NBC, SNAC
from mncover.criteria.pairs import PAIRS
from mncover.criteria.surprise import DSC, LSC, MDSC
from mncover.errors import SettingsError
from mncover.types import suggestion

CRITERIA: dict[str, Criterion] = {
    one.name: one for one in (COVER, MNCOVER, KMNC, NBC, SNAC, NC, TKNC, PAIRS, LSC, DSC, MDSC)
}


def known_criterion(name: str) -> Criterion:
    """Return a criterion by its name, perhaps with a number behind it: `tknc:3`."""
    family, colon, number = name.partition(":")
    if family not in CRITERIA:
        names = list(CRITERIA)
        raise SettingsError(f"there is no criterion {name!r}; {suggestion(family, names)}")
    criterion = CRITERIA[family]
    if not colon:
        return criterion
    if criterion.parameter is None:
        raise SettingsError(f"{criterion.title} takes no number, so {name!r} says too much.")
    return criterion.parameter.at(family, number)


def chosen_criteria(names: Sequence[str] | None, masks: bool) -> tuple[Criterion, ...]:
    """Return the criteria of some names, or the usual ones: Cover, and with masks mnCover.

    A masked criterion brings the one along that it shares its coding with.
    """
    if names is None:
        return (COVER, MNCOVER) if masks else (COVER,)
    found: dict[str, Criterion] = {}
    for name in names:
        criterion = known_criterion(name)
        if criterion.masked:
            if not masks:
                raise SettingsError(f"{criterion.title} needs masks: give a file with --masks.")
            companion = _companion(criterion)
            found.setdefault(companion.name, companion)
        found.setdefault(criterion.name, criterion)
    if not found:
        raise SettingsError(f"give at least one criterion of {', '.join(CRITERIA)}.")
    if masks and not any(criterion.masked for criterion in found.values()):
        raise SettingsError("no chosen criterion uses the masks: add mncover, or drop --masks.")
    return tuple(found.values())


def _companion(masked: Criterion) -> Criterion:
    same = (c for c in CRITERIA.values() if c.coding is masked.coding and c.view == masked.view)
    return next(c for c in same if not c.masked)
