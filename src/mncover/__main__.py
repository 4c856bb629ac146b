"""Start the command line: `mncover`, or `python -m mncover`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def start() -> int:
    """Run the command line; Ctrl-C before it has begun is one line, and afterwards nothing."""
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignores:
        signal.signal(signal.SIGINT, leave)
    from mncover.cli import main  # takes a moment, in which somebody may think better of it

    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done
    return code


def leave(number: int, frame: FrameType | None) -> None:
    """End the process at once, with a line."""
    os.write(2, b"Interrupted.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(start())
