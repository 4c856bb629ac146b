"""Say a model's answers in a suite's classes. No torch here.

Model and suite may number or name their classes differently, and a sentiment model of two
classes may face a suite of three: then what it is undecided about counts as neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.suites.expectations import Answers

# How classes correspond: whatever fits, by name, by number, or two classes to three.
How = Literal["auto", "names", "numbers", "neutral-band"]
WAYS: tuple[How, ...] = get_args(How)


def in_suite_classes(
    probabilities: NDArray[np.floating],
    model_labels: Sequence[str],
    suite_labels: Sequence[str],
    how: How = "auto",
) -> Answers:
    """Return the answers [texts] in the suite's classes; a suite without names has the model's.

    `auto` goes by name if all the model's names are the suite's, by number if both have as many
    classes, and by the neutral band if the model has two and the suite three.
    """
    given = np.asarray(probabilities, dtype=np.float64)
    way = _way(model_labels, suite_labels, how)
    if way == "neutral-band":
        found = neutral_band(given[:, 1])
    elif way == "names":
        places = {name.casefold(): place for place, name in enumerate(suite_labels)}
        found = np.zeros((len(given), len(suite_labels)))
        for column, name in enumerate(model_labels):
            found[:, places[name.casefold()]] = given[:, column]
    else:
        found = given
    # A text that was not run has no probabilities, and so no class.
    unknown = np.isnan(found).any(axis=1)
    return Answers(np.where(unknown, -1, np.nan_to_num(found).argmax(axis=1)), found)


def known_way(how: str) -> How:
    """Return the way of a name; refuse an unknown one."""
    for way in WAYS:
        if how == way:
            return way
    raise SettingsError(f"classes correspond by {', '.join(WAYS)}; got {how!r}.")


def _way(model_labels: Sequence[str], suite_labels: Sequence[str], how: How) -> How:
    known_way(how)
    names = {name.casefold() for name in suite_labels}
    fits: dict[How, bool] = {
        "names": bool(names) and {name.casefold() for name in model_labels} <= names,
        "numbers": not names or len(model_labels) == len(suite_labels),
        "neutral-band": (len(model_labels), len(suite_labels)) == (2, 3),
    }
    # Two of three names would leave the third class without any answer: the band comes first.
    order: tuple[How, ...] = ("neutral-band", "names", "numbers") if how == "auto" else (how,)
    for way in order:
        if fits[way]:
            return way
    raise SettingsError(
        f"the model's classes ({', '.join(model_labels)}) do not fit the suite's "
        f"({', '.join(suite_labels)})" + ("." if how == "auto" else f" by {how}.")
    )


def neutral_band(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return negative, neutral and positive from the probability r of positive, [texts, 3].

    Between a third and two thirds neutral gets 1 - 3 |r - 1/2|, and the rest goes to the side
    that r is on; elsewhere there is no neutral.

    >>> neutral_band(np.array([0.2, 0.5, 0.6])).round(2).tolist()
    [[0.8, 0.0, 0.2], [0.0, 1.0, 0.0], [0.0, 0.7, 0.3]]
    """
    r = np.asarray(positive, dtype=np.float64)
    neutral = 1 - 3 * np.abs(r - 0.5)
    rest = 1 - neutral
    upper = r >= 0.5
    inside = np.stack([np.where(upper, 0.0, rest), neutral, np.where(upper, rest, 0.0)], axis=1)
    outside = np.stack([1 - r, np.zeros_like(r), r], axis=1)
    decided = (r < 1 / 3) | (r > 2 / 3)
    return np.where(decided[:, None], outside, inside)
