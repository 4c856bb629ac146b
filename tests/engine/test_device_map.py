"""A model that is spread over devices gives what it gives on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from mncover import Coverage
from mncover.engine import loading
from mncover.errors import MissingExtraError, SettingsError
from tests import tiny
from tests.folders import write_material

# Half of it waits on disk, so weights move about while it runs, as between GPUs.
PLACES = {
    "bert.embeddings": "cpu",
    "bert.encoder.layer.0": "cpu",
    "bert.encoder.layer.1": "disk",
    "bert.pooler": "cpu",
    "classifier": "cpu",
}


def measured(*model: Any, **options: Any) -> Coverage:
    cov = Coverage(*model, max_length=12, **options).calibrate(tiny.texts(20), cache=False)
    return cov.update(tiny.texts(30, seed=2), gains=True)


def test_a_spread_model_covers_the_same_and_is_the_same_model(tmp_path: Path) -> None:
    folder = write_material(tmp_path).model
    alone = measured(str(folder))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, device_map=PLACES, offload_folder=str(tmp_path / "offload")
    )
    assert len(set(model.hf_device_map.values())) == 2
    spread = measured(model, transformers.AutoTokenizer.from_pretrained(folder))
    asked = measured(str(folder), device_map="auto")
    for cov in (spread, asked):
        assert cov.engine.model_fingerprint == alone.engine.model_fingerprint
        assert np.array_equal(cov.data.total("cover"), alone.data.total("cover"))
        assert np.array_equal(cov.data.table.probabilities, alone.data.table.probabilities)


def test_maps_that_cannot_be_used_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(write_material(tmp_path).model)
    with pytest.raises(SettingsError, match="must be one of auto, balanced"):
        Coverage(folder, device_map="everywhere")
    with pytest.raises(SettingsError, match="not both"):
        Coverage(folder, device_map="auto", device="cpu")
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[spread\]'"):
        Coverage(folder, device_map="auto")
