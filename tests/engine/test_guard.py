"""A model's folder is data: whatever it names, nothing of it is run and nobody is asked."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mncover.cli import main
from mncover.engine.guard import no_code_of_its_own
from mncover.engine.loading import class_names, load_subject
from mncover.errors import ModelError
from tests.folders import write_material

EVIL = """
from pathlib import Path
Path(__file__).touch()
Path({mark!r}).write_text("ran")
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
class Evil(BertForSequenceClassification): pass
class EvilConfig(BertConfig): model_type = "evil"
class EvilTokenizer(PreTrainedTokenizerFast): pass
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_material(tmp_path_factory.mktemp("model")).model


class Folder:
    """A model's folder with code in it, and the file that the code would write."""

    def __init__(self, path: Path, mark: Path) -> None:
        self.path, self.mark = path, mark

    def edit(self, name: str, **values: Any) -> None:
        file = self.path / name
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**known, **values}))


@pytest.fixture
def folder(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # whoever is asked agrees
    path, mark = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(model, path)
    (path / "evil.py").write_text(EVIL.format(mark=str(mark)))
    return Folder(path, mark)


def architecture(folder: Folder) -> None:
    folder.edit(
        "config.json", architectures=["AutoModelForCTC"], auto_map={"AutoModelForCTC": "evil.Evil"}
    )


def base_class(folder: Folder) -> None:
    folder.edit("config.json", architectures=["Evil"], auto_map={"AutoModel": "evil.Evil"})


def unknown_kind(folder: Folder) -> None:
    folder.edit(
        "config.json",
        model_type="evil",
        architectures=["Evil"],
        auto_map={"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.Evil"},
    )


def part_of_a_pair(folder: Folder) -> None:
    part = {**json.loads((folder.path / "config.json").read_text())}
    part |= {"auto_map": {"AutoModel": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}}
    part |= {"model_type": "bert", "is_decoder": True}
    whole: dict[str, Any] = {
        "model_type": "encoder-decoder",
        "architectures": ["EncoderDecoderModel"],
    }
    whole |= {"encoder": part, "decoder": part, "is_encoder_decoder": True}
    (folder.path / "config.json").write_text(json.dumps(whole))


def tokenizer(folder: Folder) -> None:
    kinds = ["evil.EvilTokenizer", "evil.EvilTokenizer"]
    auto_map = {"AutoTokenizer": kinds}
    folder.edit("tokenizer_config.json", tokenizer_class="EvilTokenizer", auto_map=auto_map)


def kernel(folder: Folder) -> None:
    folder.edit("config.json", attn_implementation="strangers/kernel")


def no_architecture(folder: Folder) -> None:
    folder.edit("config.json", architectures=["pipeline"])


def wrong_architectures(folder: Folder) -> None:
    folder.edit("config.json", architectures=[{"a": 1}])


class _Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.write_text, (self.mark, "ran"))


def pickled_weights(folder: Folder) -> None:
    (folder.path / "model.safetensors").unlink()
    with (folder.path / "pytorch_model.bin").open("wb") as file:
        pickle.dump(_Runs(folder.mark), file)


def honest_pickle(folder: Folder) -> None:
    """Weights in a pickle are refused even if nothing is wrong with them."""
    (folder.path / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(2)}, folder.path / "pytorch_model.bin")


REFUSED = (
    architecture,
    unknown_kind,
    no_architecture,
    wrong_architectures,
    pickled_weights,
    honest_pickle,
)


@pytest.mark.parametrize("harm", REFUSED, ids=lambda harm: harm.__name__)
def test_a_model_with_code_is_refused_in_one_line(
    folder: Folder, harm: Callable[[Folder], None], capsys: pytest.CaptureFixture[str]
) -> None:
    harm(folder)
    with pytest.raises(ModelError) as caught:
        load_subject(str(folder.path))
    assert "\n" not in str(caught.value)
    assert main(["debug", "model", str(folder.path)]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert not folder.mark.exists()


def sentence_transformer(folder: Folder) -> None:
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]
    (folder.path / "modules.json").write_text(json.dumps(modules))
    folder.edit("config_sentence_transformers.json", auto_map={"AutoModel": "evil.Evil"})


HARMLESS = (base_class, tokenizer, kernel, sentence_transformer, part_of_a_pair)


@pytest.mark.parametrize("harm", HARMLESS, ids=lambda harm: harm.__name__)
def test_code_beside_a_known_model_is_never_looked_at(
    folder: Folder, harm: Callable[[Folder], None]
) -> None:
    harm(folder)
    subject = load_subject(str(folder.path))
    assert subject.model.config._attn_implementation == "eager"
    class_names(str(folder.path))
    assert not folder.mark.exists()


def too_many_layers(folder: Folder) -> None:
    folder.edit("config.json", num_hidden_layers=2**31 - 1)


def damaged_template(folder: Folder) -> None:
    file = folder.path / "tokenizer.json"
    file.write_text(file.read_text().replace('"id":"[SEP]"', '"id":"[SXP]"', 1))
    file.write_text(file.read_text().replace('"id": "[SEP]"', '"id": "[SXP]"', 1))


DAMAGED = [(too_many_layers, "MNCOVER_MAX_LAYERS"), (damaged_template, "tokenizer")]


@pytest.mark.parametrize(("harm", "message"), DAMAGED, ids=["layers", "tokenizer"])
def test_a_damaged_folder_is_refused(
    folder: Folder, harm: Callable[[Folder], None], message: str
) -> None:
    harm(folder)
    with pytest.raises(ModelError, match=message):
        load_subject(str(folder.path))


def test_the_guard_takes_its_patches_back() -> None:
    from transformers import dynamic_module_utils as dynamic

    before = dynamic.get_class_in_module, dynamic.TIME_OUT_REMOTE_CODE
    with pytest.raises(KeyError), no_code_of_its_own(), no_code_of_its_own():
        raise KeyError
    assert (dynamic.get_class_in_module, dynamic.TIME_OUT_REMOTE_CODE) == before
