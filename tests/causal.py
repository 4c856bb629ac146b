"""A tiny random model of every causal architecture that transformers offers."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from tests import tiny

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
    "is_decoder": True,
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
    "big_bird": {"attention_type": "original_full"},
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
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2},
    "kimi_linear": {**MIXED, "linear_num_heads": 4, "linear_head_dim": 8},
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
    "xlm": {"causal": True},
    "xlnet": {"attn_type": "uni"},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "layers_block_type": ["mamba", "hybrid", "hybrid"],
    },
    "zamba2": {"num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    "zaya": {"num_experts_per_tok": 1},
}

# Which cannot be run on a text alone, or not so small, and why.
LEFT_OUT: dict[str, str] = {}


def names() -> list[str]:
    """Return the types of all models that transformers lists as causal language models."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def small_config(kind: type[Any]) -> Any:
    """Return a configuration of a class with tiny sizes, those of its parts included."""
    default = kind()
    known = default.to_dict().keys() | kind.attribute_map.keys()
    given = {kind.attribute_map.get(k, k): v for k, v in SIZES.items() if k in known}
    if "kv_lora_rank" in known:  # its keys have as many heads as its queries
        given["num_key_value_heads"] = SIZES["num_attention_heads"]
    for name in kind.sub_configs:
        part = getattr(default, name, None)
        if isinstance(part, hf.PretrainedConfig):
            given[name] = small_config(type(part))
    return kind(**{**given, **MORE.get(kind.model_type, {})})


def make(name: str) -> tuple[Any, Any]:
    """Return a tiny causal language model of an architecture, and a tokenizer that fits it."""
    config = small_config(type(hf.AutoConfig.for_model(name)))
    with torch.device("meta"):
        size = sum(p.numel() for p in hf.AutoModelForCausalLM.from_config(config).parameters())
    if size > 7e6:
        raise ValueError(f"{size:,} parameters")
    torch.manual_seed(0)
    return tiny.wild(hf.AutoModelForCausalLM.from_config(config)), tiny.tokenizer(False)
