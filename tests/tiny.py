"""Tiny random models of many architectures, and a tokenizer for them; nothing is downloaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SENTENCE = (
    "the a film food is was not very good bad awful great but never and plot actor i you we "
    "liked hated it slow fast service room clean dirty no yes , . ! ?"
)
WORDS = SENTENCE.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = {word: number for number, word in enumerate(SPECIAL + WORDS)}


def tokenizer(special_tokens: bool = True) -> Any:
    """Return a tokenizer of whole words; without special tokens it is like a decoder's."""
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    names: dict[str, str] = {"unk_token": "[UNK]"}
    if special_tokens:
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
        names |= {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    made = hf.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    made.model_max_length = 64
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return made


def texts(n: int, seed: int = 0, longest: int = 12, pairs: bool = False) -> list[Any]:
    """Return random texts of 1 to `longest` words, or pairs of them."""
    rng = random.Random(seed)

    def one() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, longest)))

    return [(one(), one()) for _ in range(n)] if pairs else [one() for _ in range(n)]


def wild(model: Any, seed: int = 0) -> Any:
    """Give a model large random weights, so that its attention is far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.4)
            elif "bias" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return model.eval()


_SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 70,
    "pad_token_id": 0,
    "num_labels": 3,
}


def bert(**more: Any) -> Any:
    return hf.BertForSequenceClassification(hf.BertConfig(**{**_SIZES, **more}))


def roberta() -> Any:
    config = hf.RobertaConfig(**_SIZES, type_vocab_size=2, bos_token_id=2, eos_token_id=3)
    return hf.RobertaForSequenceClassification(config)


def distilbert() -> Any:
    config = hf.DistilBertConfig(
        vocab_size=len(VOCABULARY), dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=2
    )
    return hf.DistilBertForSequenceClassification(config)


def albert() -> Any:
    config = hf.AlbertConfig(**{**_SIZES, "num_hidden_layers": 3}, embedding_size=8)
    return hf.AlbertForSequenceClassification(config)


def electra() -> Any:
    config = hf.ElectraConfig(**_SIZES, embedding_size=8)
    return hf.ElectraForSequenceClassification(config)


def mpnet() -> Any:
    return hf.MPNetForSequenceClassification(hf.MPNetConfig(**_SIZES, bos_token_id=2))


def deberta() -> Any:
    config = hf.DebertaV2Config(
        **_SIZES, relative_attention=True, pos_att_type=["c2p", "p2c"], type_vocab_size=2
    )
    return hf.DebertaV2ForSequenceClassification(config)


def modernbert() -> Any:
    config = hf.ModernBertConfig(
        **{**_SIZES, "num_hidden_layers": 3},
        local_attention=4,
        global_attn_every_n_layers=3,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
    )
    return hf.ModernBertForSequenceClassification(config)


def bert_encoder() -> Any:
    return hf.BertModel(hf.BertConfig(**_SIZES))


def gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=len(VOCABULARY), n_embd=16, n_layer=2, n_head=2, n_positions=70
    )
    return hf.GPT2LMHeadModel(config)


def llama() -> Any:
    config = hf.LlamaConfig(**{**_SIZES, "num_attention_heads": 4}, num_key_value_heads=2)
    return hf.LlamaForCausalLM(config)


def qwen3() -> Any:
    config = hf.Qwen3Config(**_SIZES, num_key_value_heads=1, head_dim=8)
    return hf.Qwen3ForCausalLM(config)


def llama_classifier() -> Any:
    config = hf.LlamaConfig(**_SIZES, num_key_value_heads=2)
    return hf.LlamaForSequenceClassification(config)


_T5 = {"vocab_size": len(VOCABULARY), "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2}
_T5 |= {"num_heads": 2, "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}


def t5_encoder() -> Any:
    return hf.T5EncoderModel(hf.T5Config(**_T5))


def t5_generator() -> Any:
    return hf.T5ForConditionalGeneration(hf.T5Config(**_T5))


def bart_classifier() -> Any:
    config = hf.BartConfig(
        vocab_size=len(VOCABULARY),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=70,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        num_labels=3,
    )
    return hf.BartForSequenceClassification(config)


DECODERS = ("gpt2", "llama", "qwen3", "llama_classifier")
BUILDERS: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        bert,
        roberta,
        distilbert,
        albert,
        electra,
        mpnet,
        deberta,
        modernbert,
        bert_encoder,
        gpt2,
        llama,
        qwen3,
        llama_classifier,
        t5_encoder,
        t5_generator,
        bart_classifier,
    )
}


def make(name: str, seed: int = 0) -> tuple[Any, Any]:
    """Return a tiny random model of an architecture, and a tokenizer that fits it."""
    torch.manual_seed(seed)
    return wild(BUILDERS[name](), seed), tokenizer(special_tokens=name not in DECODERS)
