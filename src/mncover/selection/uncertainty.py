"""How uncertain a model was about a text, from its class probabilities: rivals of coverage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def entropy(probabilities: Array) -> Array:
    """Return the entropy of each row in nats: 0 if sure, log of the number of classes if not.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    found: Array = -(probabilities * logs).sum(axis=-1) + 0.0
    return found


def deep_gini(probabilities: Array) -> Array:
    """Return 1 less the sum of squares of each row (DeepGini; Feng et al., ISSTA 2020).

    >>> deep_gini(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 0.5]
    """
    found: Array = 1 - (probabilities**2).sum(axis=-1)
    return found


def margin(probabilities: Array) -> Array:
    """Return 1 less the distance between the two most probable classes of each row.

    >>> margin(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    p = np.sort(probabilities, axis=-1)
    found: Array = 1 - (p[..., -1] - p[..., -2])
    return found
