"""What several tests of choosing cases use."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import pytest

from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.selection.cases import Cases, cases_of
from mncover.suites.rows import Rows
from tests import tiny
from tests.folders import suite_of

TRAIN = tiny.texts(20, seed=9)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """The cases of a suite of tests that a tiny model ran."""
    cov = Coverage(*tiny.make("bert"), max_length=12).calibrate(TRAIN, cache=False)
    rows = Rows.of_suite(Path("suite.jsonl"), suite_of())
    output = tmp_path_factory.mktemp("cases") / "run.mncover"
    return cases_of(cov.run(rows, output).data)


def changed(data: CoverageData, **parts: Any) -> CoverageData:
    """Return data with other parts, such as another table; the original stays as it is."""
    made = copy(data)
    for name, value in parts.items():
        setattr(made, name, value)
    return made
