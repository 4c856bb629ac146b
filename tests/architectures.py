"""Tiny random models of the architectures that transformers offers, and how each is read.

`python -m tests.architectures` prints the table in docs/architectures.md; with `--write` it
rewrites it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as hf
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from tests import tiny

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architectures.md"
LARGEST = 7_000_000  # parameters of a model that is tiny

# Set on every configuration that has an attribute of the name.
SIZES: dict[str, Any] = {
    "vocab_size": len(tiny.VOCABULARY),
    "vocab_size_per_layer_input": len(tiny.VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_decoder_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rotary_dim": 4,
    "hidden_size_global": 32,
    "cross_attn_k": 1,
    "intermediate_size": 32,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "ffn_dim": 32,
    "dff": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "mamba_d_ssm": 64,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_num_heads": 8,
    "mamba_head_dim": 8,
    "ssm_state_size": 8,
    "state_size": 8,
    "n_groups": 1,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}

# What else an architecture needs to be so small, or to be causal at all.
MIXED = {"layer_types": ["linear_attention", "full_attention"]}
MORE: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {**MIXED, "num_expert_group": 1, "topk_group": 1},
    "axk1": {"n_group": 1, "topk_group": 1},
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64, "patching_mode": "static"},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 32, "hidden_size": 32},
    },
    "dots1": {"n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "gemma3n_text": {
        "intermediate_size": [32, 32],
        "layer_types": ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 0,
        "activation_sparsity_pattern": [0.0, 0.0],
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "flaubert": {"n_words": len(tiny.VOCABULARY), "pad_index": 0},
    "fnet": {"use_tpu_fourier_optimizations": False},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_head": 8, "d_inner": 32},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2},
    "kimi_linear": {**MIXED, "linear_num_heads": 4, "linear_head_dim": 8},
    "longformer": {"attention_window": 8, "sep_token_id": 3},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32},
    "modernbert": {"local_attention": 4, "global_attn_every_n_layers": 2},
    "nystromformer": {"segment_means_seq_len": 64, "num_landmarks": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": {
        "ffn_hidden_size": 32,
        "expert_ffn_hidden_size": 16,
        "zero_expert_num": 2,
        "moe_topk": 2,
    },
    "mamba2": {"num_heads": 8},
    "qwen3_5_moe_text": MIXED,
    "qwen3_5_text": MIXED,
    "qwen3_next": MIXED,
    "qwen4_exp_text": {
        "layer_types": ["linear_attention", "indexed_attention"],
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "reformer": {"axial_pos_shape": (8, 8), "axial_pos_embds_dim": (16, 16)},
    "roc_bert": {"shape_vocab_size": 64, "pronunciation_vocab_size": 64},
    "squeezebert": {"embedding_size": 32},
    "t5": {"decoder_start_token_id": 0, "d_kv": 8, "d_ff": 32},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "layers_block_type": ["mamba", "hybrid", "hybrid"],
    },
    "zamba2": {"num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    "zaya": {"num_experts_per_tok": 1},
}

# Which of the causal ones are not so: no such model runs on a text alone, or so small.
LEFT_OUT = {
    "gemma3n": "needs the package timm for its images; its text model is `gemma3n_text`",
    "gemma4_assistant": "reads the states of another model",
    "gemma4_unified_assistant": "reads the states of another model",
    "musicgen": "reads audio codes",
    "musicgen_melody": "reads audio codes",
}
NOT_CAUSAL = {"cpmant": "reads a prompt in both directions"}
# Several hidden states for each token.
REFUSED = ("deepseek_v4", "gemma3n_text", "hy_v4")


def causal_names() -> list[str]:
    """Return the types of all models that transformers lists as causal language models."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def small_config(kind: type[Any], **more: Any) -> Any:
    """Return a configuration of a class with tiny sizes, those of its parts included."""
    default = kind()
    known = default.to_dict().keys() | kind.attribute_map.keys()
    sizes = SIZES | more
    given = {kind.attribute_map.get(k, k): v for k, v in sizes.items() if k in known}
    if "kv_lora_rank" in known:  # its keys have as many heads as its queries
        given["num_key_value_heads"] = SIZES["num_attention_heads"]
    for name in kind.sub_configs:
        part = getattr(default, name, None)
        if isinstance(part, hf.PretrainedConfig):
            given[name] = small_config(type(part), **more)
    return kind(**{**given, **MORE.get(kind.model_type, {})})


def make(name: str, causal: bool = True) -> tuple[Any, Any]:
    """Return a tiny language model or classifier of an architecture, and a tokenizer for it."""
    factory = hf.AutoModelForCausalLM if causal else hf.AutoModelForSequenceClassification
    ways: dict[str, Any] = {"is_decoder": causal, "causal": causal}
    if name == "xlnet":
        ways["attn_type"] = "uni" if causal else "bi"
    config = small_config(type(hf.AutoConfig.for_model(name)), **ways)
    with torch.device("meta"):
        size = sum(p.numel() for p in factory.from_config(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{name} has {size:,} parameters, which is not tiny")
    torch.manual_seed(0)
    return tiny.wild(factory.from_config(config)), tiny.tokenizer(special_tokens=not causal)


class Row(NamedTuple):
    """How a tiny model is read: its layers with attention weights, and why not in all."""

    causal: bool
    layers: tuple[int, ...] = (1, 2)
    because: str = ""
    refused: bool = False
    remark: str = ""  # for the page alone


CAUSAL, BOTH = Row(causal=True), Row(causal=False)
NO_WEIGHTS = "it returns no attention weights"
NO_PAIRS = "what it returns as attention is not a weight for each pair of tokens"
HALF = Row(True, (2,), "has attention weights in 1 of its 2 layers")

TABLE = {
    "bart": BOTH._replace(remark="the encoder"),
    "big_bird": BOTH._replace(
        remark="with full attention, to which transformers switches it at the first short text"
    ),
    "bloom": CAUSAL,
    "convbert": BOTH._replace(remark="the attention half of its heads"),
    "deberta-v2": BOTH,
    "falcon": CAUSAL,
    "flaubert": BOTH,
    "funnel": Row(
        False, (), "not every layer has one hidden state for each token", True, "it pools tokens"
    ),
    "gemma2": CAUSAL,
    "gemma3": CAUSAL,
    "gpt_neox": CAUSAL,
    "gptj": CAUSAL,
    "longformer": Row(False, (), NO_PAIRS, remark="attention is a window around each token"),
    "mamba": Row(True, (), NO_WEIGHTS),
    "mistral": CAUSAL,
    "mixtral": CAUSAL,
    "mobilebert": BOTH,
    "modernbert": BOTH,
    "nystromformer": Row(
        False, (), "cannot be run on a text of 10 tokens", True, "it takes texts of one length only"
    ),
    "phi3": CAUSAL,
    "qwen2": CAUSAL,
    "qwen3": CAUSAL,
    "rembert": BOTH,
    "roformer": BOTH,
    "squeezebert": Row(False, (), NO_PAIRS, remark="it returns scores before softmax"),
    "t5": BOTH._replace(remark="the encoder"),
    "xlnet": BOTH,
    # Without attention weights, or with them in some layers.
    "bamba": HALF,
    "falcon_h1": CAUSAL._replace(remark="attention beside a state space in every layer"),
    "falcon_mamba": Row(True, (), NO_WEIGHTS),
    "fnet": Row(False, (), NO_WEIGHTS),
    "jamba": HALF,
    "lfm2": HALF,
    "mamba2": Row(True, (), NO_WEIGHTS),
    "minimax": Row(True, (1,), "has attention weights in 1 of its 2 layers"),
    "nemotron_h": Row(True, (3,), "has attention weights in 1 of its 4 layers"),
    "qwen3_next": HALF,
    "recurrent_gemma": HALF,
    "rwkv": Row(True, (), NO_PAIRS, remark="no attention between tokens"),
    "xlstm": Row(True, (), NO_WEIGHTS),
    "zamba": Row(True, (2, 3), "has attention weights in 2 of its 3 layers"),
    "zamba2": HALF,
}


def page_table() -> str:
    """Return the table of the page."""
    lines = ["| architecture | read | causal | remark |", "|---|---|---|---|"]
    for name, row in sorted(TABLE.items()):
        lines.append(f"| {name} | {_reads(row)} | {'yes' if row.causal else 'no'} | {row.remark} |")
    return "\n".join(lines) + "\n"


def _reads(row: Row) -> str:
    if row.refused:
        return "refused"
    if not row.layers:
        return "hidden states alone"
    some = "attention of some layers" if row.because else "attention"
    return f"hidden states, {some}"


def page_with_table() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(r"^\| architecture \| read .*?\n(?!\|)", page_table(), text, flags=re.M | re.S)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page_with_table(), encoding="utf-8")
    else:
        print(page_table(), end="")
