"""Uncertainty of a measured share."""

from __future__ import annotations

import math

Z95 = 1.959964


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's score method.

    >>> [round(x, 4) for x in wilson(95, 100)]
    [0.8882, 0.9785]
    """
    if n == 0:
        return 0.0, 1.0
    p, z = hits / n, Z95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
