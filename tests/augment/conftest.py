"""Resources for transformations: small ones, and the real ones where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mncover.augment.transforms import Resources, Transform, transform
from mncover.errors import MissingResourceError
from tests.augment.material import write_masked_lm, write_vectors, write_wordnet
from tests.folders import assemble

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    folder = tmp_path_factory.mktemp("resources")
    return Resources(
        write_wordnet(folder / "dict"),
        write_vectors(folder / "vectors.txt"),
        str(write_masked_lm(folder / "model")),
    )


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Transform]:
    """Return transformations with WordNet, GloVe and a real model; skip where one is missing."""

    def make(name: str) -> Transform:
        if name != "WordSwapMaskedLM":
            try:
                return transform(name)
            except MissingResourceError as error:
                pytest.skip(str(error))
        if not SHARED.is_dir():
            pytest.skip(f"needs the models in {SHARED}")
        folder = tmp_path_factory.getbasetemp() / "minilm-mlm"
        if not folder.is_dir():
            assemble(SHARED, "minilm-mlm", folder)
        return transform(name, Resources(masked_lm=str(folder)))

    return make
