"""Run the command line with `python -m mncover`."""

from __future__ import annotations

import sys

from mncover.cli import main

if __name__ == "__main__":
    sys.exit(main())
