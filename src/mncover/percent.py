"""Shares as people read them."""

from __future__ import annotations


def display_percent(share: float, digits: int = 2) -> str:
    """Return a share as a percentage that reads 0 or 100 only if it is exactly that.

    >>> display_percent(0.5), display_percent(0.999999), display_percent(0.0000001)
    ('50.00', '99.99', '0.01')
    """
    least = 10**-digits
    percent = share * 100
    if 0 < percent < least:
        percent = least
    elif 100 - least < percent < 100:
        percent = 100 - least
    return f"{percent:.{digits}f}"
