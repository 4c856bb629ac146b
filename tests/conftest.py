"""Fixtures for all tests: no network, a cache of their own, and the material beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first example may compile a kernel; how long things take is for benchmarks to say.
settings.register_profile("mncover", deadline=None)
settings.load_profile("mncover")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # as many workers as cores: one thread for each
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
# Before torch is imported: MKL then rounds a matrix product alike wherever its operands lie in
# memory, so that exact equality can be asked of tiny models, whose rows are badly aligned.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# The programs for a GPU run in Triton's interpreter, without one.
os.environ["TRITON_INTERPRET"] = "1"

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test's calibrations apart from the user's."""
    monkeypatch.setenv("MNCOVER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and data beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the models and data in {SHARED}, which is not there")
    return SHARED
