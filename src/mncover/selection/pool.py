"""What may be known of cases before anybody judges them: outputs and inside, nothing else.

No expectation, label or test name gets in here, so none can reach a choice that is made from it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Parted
from mncover.data.table import Table
from mncover.errors import MissingExtraError
from mncover.selection.uncertainty import entropy

Floats = NDArray[np.float64]
CLUSTERS = 300
CLUSTER_SAMPLE = 5000  # cases that clusters are found from; the others join the nearest
TINY = 1e-9


@dataclass(frozen=True)
class Pool:
    """One row per case. `outputs` and `inside` are features, `uncertainty` its largest entropy.

    `inside` is in single precision, and has no columns if the data has no signatures.
    """

    outputs: Floats
    inside: NDArray[np.floating]
    uncertainty: Floats

    def __len__(self) -> int:
        return len(self.uncertainty)

    @property
    def weights(self) -> Floats:
        """What new cells are multiplied by; 1 where no case is uncertain, as without classes."""
        return self.uncertainty if self.uncertainty.any() else np.ones(len(self))


def pool_of(table: Table, rows: Parted) -> Pool:
    """Return the pool of cases that have the given rows of a table."""
    flat, sizes, starts = rows.values, rows.sizes, rows.ends[:-1]
    probabilities = np.nan_to_num(table.probabilities[flat].astype(np.float64))
    inside = np.nan_to_num(table.signatures[flat].astype(np.float32))
    uncertain = entropy(probabilities)
    margins, logits = _margins(probabilities), np.log(np.maximum(probabilities, TINY))

    def over(function: np.ufunc, values: Any) -> Any:
        single = len(sizes) == len(flat)  # as in a file of texts, which may be large
        return values if single else function.reduceat(values, starts, axis=0)

    spread = (over(np.maximum, logits) - over(np.minimum, logits)).max(axis=1, initial=0)
    worst, smallest = over(np.maximum, uncertain), over(np.minimum, margins)
    mean = over(np.add, margins) / sizes
    outputs = np.stack([worst, spread, smallest, mean], axis=1)
    return Pool(outputs, over(np.add, inside) / sizes[:, None], worst)


def _margins(probabilities: Floats) -> Floats:
    """Return the distance between the two most probable classes of each row."""
    if probabilities.shape[1] < 2:
        return np.ones(len(probabilities))
    p = np.sort(probabilities, axis=1)
    return np.asarray(p[:, -1] - p[:, -2])


def standardised(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return columns of mean 0 and spread 1; a column of one value becomes 0."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))


def cluster(inside: NDArray[np.floating], seed: int = 0) -> NDArray[np.int64]:
    """Return the number of the cluster that each case is in, by what is inside the model."""
    kmeans = require_sklearn("sklearn.cluster").KMeans
    points = standardised(inside).astype(np.float32, copy=False)
    rng = np.random.default_rng(seed)
    sample = rng.choice(len(points), min(len(points), CLUSTER_SAMPLE), replace=False)
    distinct = len(np.unique(points[sample], axis=0))
    k = max(1, min(CLUSTERS, distinct, len(points) // 5))
    # Random centres: a careful choice of 300 takes much longer, and the clusters only have to
    # spread out what is looked at.
    how = {"init": "random", "n_init": 1, "max_iter": 10, "random_state": seed}
    with warnings.catch_warnings():  # that equal cases leave some clusters empty does no harm
        warnings.simplefilter("ignore", require_sklearn("sklearn.exceptions").ConvergenceWarning)
        model = kmeans(k, **how).fit(points[np.sort(sample)])
    return np.asarray(model.predict(points), dtype=np.int64)


def require_sklearn(module: str) -> Any:
    """Import a module of scikit-learn, or say how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError("finding failures", "scikit-learn", "find") from None
