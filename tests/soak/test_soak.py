"""A short form of `make soak`: a few passes in one process open no more files each time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.soak import harness
from tests.soak.harness import Sample, passes, slope, summary


def test_passes_leave_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNCOVER_CACHE_DIR", str(tmp_path / "cache"))  # the passes set it, too
    samples: list[Sample] = []
    for sample in passes(tmp_path, math.inf):
        samples.append(sample)
        if len(samples) == 4:
            break
    assert len({one.files for one in samples[1:]}) == 1, samples  # the first opens what stays
    assert all(one.megabytes > 10 for one in samples)


def test_a_command_that_fails_ends_the_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "COMMANDS", (("report", "none.mncover"),))
    with pytest.raises(RuntimeError, match=r"report ended with 1: .*none\.mncover"):
        next(passes(tmp_path, 1))


def test_a_slope_is_found_with_its_interval() -> None:
    hours = [number / 100 for number in range(200)]
    noise = [0.5 if number % 2 else -0.5 for number in range(200)]
    found = slope(hours, [100 + 3 * hour + one for hour, one in zip(hours, noise, strict=True)])
    assert abs(found.per_hour - 3) <= found.within < 1
    assert str(slope(hours, [7.0] * 200)) == "+0.000 ± 0.000"
    leaking = [Sample(hour, 500 + 60 * hour, 6 + int(10 * hour)) for hour in hours]
    said = summary(leaking, 1 / 6)
    assert "after the first 10: memory 510 to 619 MB, +60.000 ± 0.000 MB an hour" in said
    assert "open files 7 to 25, +9.9" in said
