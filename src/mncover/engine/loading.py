"""Load a model and its tokenizer, never executing what they bring; tell them from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from mncover.data.places import check_model_folder
from mncover.data.prompting import Prompting
from mncover.engine.guard import OWN_CODE, check_layers, model_class, no_code_of_its_own
from mncover.engine.subject import Subject
from mncover.engine.wrapped import adapters_of, unwrapped
from mncover.errors import MissingExtraError, ModelError, SettingsError

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
DTYPES = ("auto", "float32", "float16", "bfloat16")
READ_WHOLE = 32 * 2**20  # bytes of weights


def load_subject(
    model: Any,
    tokenizer: Any = None,
    device: str | None = None,
    dtype: str = "auto",
    prompting: Prompting | None = None,
    device_map: str | None = None,
) -> Subject:
    """Return a subject from Hugging Face objects, or from a folder or hub name.

    Weights are read from safetensors only, and remote code is never run. `tokenizer` defaults
    to the one in the model's folder. Pipelines, sentence encoders and adapters are unwrapped. With
    `device_map`, which accelerate takes, layers go to several devices.
    """
    if not isinstance(model, str | Path):
        model, tokenizer = unwrapped(model, tokenizer)
        if tokenizer is None:
            raise ModelError("give the tokenizer too: a loaded model does not bring its own.")
        return Subject(model, load_tokenizer(tokenizer), prompting=prompting)
    name = str(model)
    if device_map is not None and device is not None:
        raise SettingsError("give `device` or `device_map`, not both.")
    loaded = _model(name, dtype, device_map)
    if device is not None:
        with _one_line(f"device {device!r} cannot be used"):
            loaded = loaded.to(torch.device(device))
    known = load_tokenizer(name if tokenizer is None else tokenizer)
    with _one_line(f"{name}: cannot be run"):
        return Subject(loaded, known, name, prompting)


def class_names(name: str) -> list[str]:
    """Return the names of the classes of a classifier in a folder or on the hub, in their order.

    Only its configuration is read.
    """
    check_model_folder(name)
    with _one_line(f"{name}: cannot be loaded"):
        config = load_config(name)
        return [str(config.id2label[i]) for i in sorted(config.id2label)]


def load_config(name: str | Path) -> Any:
    """Return a model's configuration; code that it names is not run.

    Attention is eager, not what the file says, which may be a program on the hub.
    """
    import transformers

    safely = {"trust_remote_code": False, "attn_implementation": "eager"}
    with no_code_of_its_own():
        return transformers.AutoConfig.from_pretrained(str(name), **safely)


def _model(name: str, dtype: str, device_map: str | None = None) -> Any:
    check_model_folder(name)
    spread = {} if device_map is None else {"device_map": _device_map(device_map)}
    if dtype not in DTYPES:
        raise ModelError(f"`dtype` must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    with quiet_loading(), _one_line(f"{name}: cannot be loaded"), no_code_of_its_own():
        config = load_config(name)
        check_layers(config)
        return (
            model_class(config)
            .from_pretrained(
                name,
                config=config,
                dtype=dtype,
                attn_implementation="eager",
                use_safetensors=True,
                trust_remote_code=False,
                **(spread or _at_once(Path(name))),
            )
            .eval()
        )


def _at_once(folder: Path) -> dict[str, Any]:
    """Ask for small weights to be read whole instead of mapped.

    safetensors loses 64 bytes for every mapped tensor that it hands out, which adds up in a
    process that loads a model again and again.
    """
    from transformers import PreTrainedModel

    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    known = "disable_mmap" in signature(PreTrainedModel.from_pretrained).parameters  # 5.10
    return {"disable_mmap": True} if known and 0 < size <= READ_WHOLE else {}


def _device_map(asked: str) -> str:
    """Return how a model is spread over devices, if accelerate is there to do it."""
    if asked not in DEVICE_MAPS:
        known = ", ".join(DEVICE_MAPS)
        raise SettingsError(f"`device_map` must be one of {known}, got {asked!r}.")
    if find_spec("accelerate") is None:
        raise MissingExtraError("`device_map`", "accelerate", "spread")
    return asked


def load_tokenizer(tokenizer: Any) -> Any:
    """Return a tokenizer from a folder or hub name; any other object is one already."""
    if not isinstance(tokenizer, str | Path):
        return tokenizer
    import transformers

    with _one_line(f"{tokenizer}: no tokenizer can be loaded from there"), no_code_of_its_own():
        return transformers.AutoTokenizer.from_pretrained(str(tokenizer), trust_remote_code=False)


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turn a failure into an error of one line: `what`, and the first line of why.

    Whatever is wrong with a folder, transformers, tokenizers, safetensors and torch raise almost
    anything for it.
    """
    try:
        yield
    except (ModelError, SettingsError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        why = (lines[0] if lines else type(error).__name__).rstrip(".")
        if "trust_remote_code" in str(error):  # transformers' advice is to run it
            why = OWN_CODE
        raise ModelError(f"{what} ({why}).") from error


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide transformers' own progress bars while weights are loaded or saved."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


# What says where a model came from or how it is held, but not what it computes.
VOLATILE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


def fingerprint_model(model: Any) -> str:
    """Return a digest of a model: its class, its configuration, and all bytes of its weights.

    Of adapters it also matters which are active, and how strongly.
    """
    config = {k: v for k, v in model.config.to_dict().items() if k not in VOLATILE}
    about = [type(model).__name__, config, *adapters_of(model)]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = _held(model, name, tensor).detach().contiguous().cpu().flatten()
        if flat.numel():
            digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _held(model: Any, name: str, tensor: Any) -> Any:
    """Return a weight where it is: of a model that is spread it may wait in memory or on disk."""
    if not tensor.is_meta:
        return tensor
    owner, _, leaf = name.rpartition(".")
    hook = getattr(model.get_submodule(owner), "_hf_hook", None)
    weights = next(
        (one.weights_map for one in getattr(hook, "hooks", [hook]) if hasattr(one, "weights_map")),
        None,
    )
    if weights is None:
        raise ModelError(f"the weight {name} is not loaded: the model cannot be identified.")
    return weights[leaf]


def fingerprint_tokenizer(tokenizer: Any) -> str:
    """Return a digest of everything that decides which tokens a text becomes.

    A call with truncation or padding leaves its mark on a fast tokenizer; those marks are left
    out, so that the digest does not depend on what was tokenised before.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        state = json.loads(backend.to_str())
        state = {k: v for k, v in state.items() if k not in ("truncation", "padding")}
    else:
        state = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    special = {k: str(v) for k, v in sorted(tokenizer.special_tokens_map.items())}
    text = json.dumps([state, special], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
