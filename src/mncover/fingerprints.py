"""Digests that tell one model or tokenizer from another."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

# What says where a model came from or how it is held, but not what it computes.
VOLATILE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


def fingerprint_model(model: Any) -> str:
    """Return a digest of a model: its class, its configuration, and all bytes of its weights."""
    config = {k: v for k, v in model.config.to_dict().items() if k not in VOLATILE}
    about = json.dumps([type(model).__name__, config], sort_keys=True, default=str)
    digest = hashlib.sha256(about.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().contiguous().cpu().flatten()
        if flat.numel():
            digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


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
