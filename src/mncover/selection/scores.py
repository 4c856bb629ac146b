"""What cases can be chosen by, the largest first: a registry of scores. No torch here.

A new score is a function of the cases and a seed, and a line in the registry. The gain of a case
is that of all its texts together, its uncertainty that of the most uncertain text. What takes more
than a data file, such as another model's answers, is computed beforehand and given with the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mncover.criteria import CRITERIA
from mncover.data.gains import gain_share, gains, touched_neurons
from mncover.errors import SettingsError
from mncover.selection import inside
from mncover.selection.cases import Cases
from mncover.selection.diverse import cells_of
from mncover.selection.pool import pool_of
from mncover.selection.uncertainty import deep_gini, entropy, margin
from mncover.suites.judging import FAILS

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """A score of cases; `lacks` says what the data lacks for it, "" if nothing."""

    summary: str
    compute: Callable[[Cases, int], Array]
    lacks: Callable[[Cases], str] = lambda cases: ""


# What data may lack.


def _no_gains(criterion: str | None, cases: Cases) -> str:
    identity = cases.data.identity
    name = criterion or identity.main.name
    if name in identity.names and cases.data.table.ordered(name):
        return ""
    title = CRITERIA[name].title if name in CRITERIA else name
    lacks = f"the data does not say what each text added to {title}"
    masks = " --masks FILE" if name == "mncover" else ""
    return f"{lacks}: run the suite with `mncover run`{masks}."


def _no_classes(method: str, cases: Cases) -> str:
    several = cases.data.table.probabilities.shape[1] > 1
    return "" if several else f"{method} needs a model with classes, and this one has none."


def _not_given(method: str, needs: str, cases: Cases) -> str:
    return "" if method in cases.given else f"{method} needs {needs}."


# Scores of cases.


def _gain(criterion: str | None, cases: Cases, seed: int = 0) -> Array:
    return cases.sums(gains(cases.data, criterion or cases.data.identity.main.name))


def _novelty(cases: Cases, seed: int = 0) -> Array:
    identity = cases.data.identity
    touched = cases.sums(touched_neurons(identity, cases.data.table["length"]))
    one = float(gain_share(identity.main.layout, identity.settings, identity.main.cells, 1, 0))
    return _gain(None, cases) / one / np.maximum(touched, 1)


def _uncertainty(measure: Callable[[Array], Array], cases: Cases, seed: int = 0) -> Array:
    probabilities = cases.data.table.probabilities.astype(np.float64)
    return cases.largest(np.nan_to_num(measure(probabilities), nan=0.0))


def _diverse(cases: Cases, seed: int) -> Array:
    space = cases.data.space
    assert space is not None  # as `lacks` made sure
    pool = pool_of(cases.data.table, cases.rows)
    order = cells_of(pool.inside, space).order(pool.weights)
    scores = np.empty(len(cases))
    scores[order] = np.arange(len(cases), 0, -1)
    return scores


def _failing(cases: Cases, seed: int) -> Array:
    failed: Array = (cases.verdicts == FAILS).astype(np.float64)
    return failed + _uncertainty(entropy, cases) / 1e3


def _random(cases: Cases, seed: int) -> Array:
    return np.random.default_rng(seed).permutation(len(cases)).astype(np.float64)


def _gains_of(criterion: str, summary: str) -> Score:
    return Score(summary, partial(_gain, criterion), partial(_no_gains, criterion))


def _uncertain(method: str, measure: Callable[[Array], Array], summary: str) -> Score:
    return Score(summary, partial(_uncertainty, measure), partial(_no_classes, method))


def _given(method: str, needs: str, summary: str) -> Score:
    return Score(summary, lambda cases, _: cases.given[method], partial(_not_given, method, needs))


SCORES: dict[str, Score] = {
    "gain": _gains_of("cover", "what the case added to Cover in the order of the run"),
    "mngain": _gains_of("mncover", "what it added to mnCover"),
    "novelty": Score(
        "its gain per neuron touched, so that long texts have no advantage",
        _novelty,
        partial(_no_gains, None),
    ),
    "entropy": _uncertain("entropy", entropy, "how uncertain the model was: entropy"),
    "deep_gini": _uncertain("deep_gini", deep_gini, "how uncertain the model was: DeepGini"),
    "margin": _uncertain(
        "margin", margin, "how uncertain the model was: distance of the two most probable classes"
    ),
    "diverse": Score(
        "what is new inside the model, times how uncertain it was; one case after the other",
        _diverse,
        inside.no_signatures,
    ),
    "neighbours": Score(
        "how many of the nearest training texts have another class than the answer",
        inside.neighbours,
        inside.no_neighbours,
    ),
    "surprise": Score(
        "how far away the nearest training texts are", inside.surprise, inside.no_signatures
    ),
    "second": _given(
        "second",
        "another model's data file of the same texts: --other FILE",
        "how little another model believes the answer",
    ),
    "fitted": _given(
        "fitted",
        "labelled texts that it is fitted to: --fit FILE",
        "how likely the answer is wrong, by a combination of scores",
    ),
    "length": Score(
        "how many tokens it has", lambda cases, _: cases.sums(cases.data.table["length"])
    ),
    "failing": Score(
        "the cases that failed, then the most uncertain", _failing, partial(_no_classes, "failing")
    ),
    "random": Score("chance, by a seed", _random),
}
# The criterion that each score of gains is about.
GAINS = {"gain": "cover", "mngain": "mncover"}


def gain_score(criterion: str) -> str:
    """Return the name of the score that is the gain in a criterion."""
    return next((score for score, of in GAINS.items() if of == criterion), f"gain-{criterion}")


def known_scores(cases: Cases) -> dict[str, Score]:
    """Return the scores there are for some cases; every other criterion adds one."""
    others = [name for name in cases.data.identity.names if name not in GAINS.values()]
    return SCORES | {gain_score(n): _gains_of(n, f"what it added to {n}") for n in others}


def available(cases: Cases) -> list[str]:
    """Return the names of the scores that the data has everything for."""
    return [name for name, score in known_scores(cases).items() if not score.lacks(cases)]


def score_cases(cases: Cases, name: str, seed: int = 0) -> Array:
    """Return the score of each case; refuse one for which the data lacks something."""
    known = known_scores(cases)
    if name not in known:
        raise SettingsError(f"cases are chosen by {', '.join(known)}; got {name!r}.")
    lacks = known[name].lacks(cases)
    if lacks:
        raise SettingsError(lacks)
    return known[name].compute(cases, seed)
