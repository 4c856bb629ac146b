"""A short form of `make soak`: a few passes in one process open no more files each time."""

from __future__ import annotations

import gc
import math
import sys
from pathlib import Path

import pytest

from mncover.engine import loading
from mncover.engine.loading import load_subject
from tests.folders import write_material
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


def blocks_of_loading(folder: Path, times: int) -> float:
    """Return how many of the interpreter's blocks each load of a model leaves behind."""
    for _ in range(10):  # whatever is cached is cached now
        load_subject(str(folder))
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        load_subject(str(folder))
    gc.collect()
    return (sys.getallocatedblocks() - before) / times


def test_loading_a_small_model_again_and_again_leaves_nothing_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_material(tmp_path)
    whole = blocks_of_loading(tmp_path / "model", 20)
    # Mapped, each of 41 tensors leaves two numbers. If it no longer does, `READ_WHOLE` can go.
    monkeypatch.setattr(loading, "READ_WHOLE", 0)
    assert blocks_of_loading(tmp_path / "model", 20) > whole + 41


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
