"""How the attention of a head is cut into tiles, one for each program.

The sizes were the fastest of some thirty on an H200, for texts of 12, 28, 44 and 100 tokens.
"""

from __future__ import annotations

from typing import NamedTuple

WHOLE_LENGTH = 128  # up to here a program holds whole rows of attention


class Tile(NamedTuple):
    """How much of a head's attention a program takes, and what it gets of a multiprocessor."""

    rows: int
    columns: int
    warps: int  # threads / 32
    registers: int  # of a thread at most
    programs: int  # for each multiprocessor


def tile_for(length: int) -> Tile:
    """Return the tile for texts of some length; a dot product wants 16 rows or more.

    No more programs than run at a time are wanted, as each writes what it found: hence the limits
    on registers.
    """
    if length <= 16:
        return Tile(16, 16, 2, 255, 4)
    if length <= 32:
        return Tile(16, 32, 4, 128, 4)
    if length <= 64:
        return Tile(16, 64, 4, 168, 3)
    return Tile(16, 128, 8, 128, 6) if length <= WHOLE_LENGTH else Tile(64, 64, 8, 255, 8)


def stages_for(tile: Tile, width: int, item: int) -> int:
    """Return how many steps loading is ahead by, plus 1: the states must leave space for others."""
    return 3 if tile.columns * width * item <= 2**13 else 2
