"""Tiny random causal language models of many architectures, and a plain way to ask them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers as hf

from tests import tiny

CHAT = "{% for m in messages %}you : {{ m['content'] }} . {% endfor %}"
CHAT += "{% if add_generation_prompt %}i : {% endif %}"
_SIZES = {
    "vocab_size": len(tiny.VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 32,
    "max_position_embeddings": 90,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
_FEW = {k: v for k, v in _SIZES.items() if k == "vocab_size" or k.endswith("token_id")}

BUILDERS: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_SIZES)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**_SIZES)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**_SIZES, head_dim=8)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_SIZES, head_dim=8, sliding_window=6)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_SIZES, sliding_window=6)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**_SIZES)),
    "mixtral": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**_SIZES, num_local_experts=2, num_experts_per_tok=1)
    ),
    "bloom": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(**_FEW, hidden_size=16, n_layer=2, n_head=2)
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(**_FEW, n_embd=16, n_layer=2, n_head=2, n_positions=90)
    ),
}


def make(name: str, seed: int = 0) -> tuple[Any, Any]:
    """Return a tiny causal language model and a tokenizer with a chat template."""
    torch.manual_seed(seed)
    tokenizer = tiny.tokenizer(special_tokens=False)
    tokenizer.chat_template = CHAT
    tokenizer.model_max_length = 90
    return tiny.wild(BUILDERS[name](), seed), tokenizer


@torch.inference_mode()
def log_probability(model: Any, prompt: Sequence[int], choice: Sequence[int]) -> tuple[float, int]:
    """Return the log-probability of tokens behind a prompt, by a plain pass, and their number."""
    whole = torch.tensor([[*prompt, *choice]])
    chances = model(input_ids=whole).logits[0].log_softmax(-1)
    return sum(float(chances[len(prompt) + i - 1, t]) for i, t in enumerate(choice)), len(choice)
