"""What a run of a small suite says of a whole test: an estimate with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """The failure rate of a whole test, estimated from the cases of it that were run.

    `rate`, `low` and `high` are shares of the judged cases; `rate` is None, and the interval
    everything, if no case that was run is judged, or if `missing` cases that were drawn have not
    been run. `earlier` is the rate in the first of the
    earlier runs, all cases of which are known. The name of the estimate for all tests is empty.
    """

    test: str
    cases: int
    run: int
    judged: int
    failing: int
    rate: float | None
    low: float
    high: float
    earlier: float | None
    missing: int = 0

    @property
    def whole(self) -> bool:
        """Whether every case was run, so that nothing is left to estimate."""
        return self.run == self.cases

    @property
    def change(self) -> str:
        """`worse` or `better` than the earlier run where the interval excludes its rate."""
        if self.rate is None or self.earlier is None:
            return ""
        return "worse" if self.earlier < self.low else "better" if self.earlier > self.high else ""
