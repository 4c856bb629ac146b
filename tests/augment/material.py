"""Small resources for transformations, and texts to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import transformers as hf
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from mncover.engine.loading import quiet_loading
from tests.tiny import SPECIAL, WORDS

SYNSETS = {
    "noun": [["film", "movie", "motion_picture"], ["story", "tale"], ["dog", "hound"], ["star"]],
    "verb": [["watch", "observe"], ["love", "enjoy"], ["stop", "halt"], ["see", "behold"]],
    "adj": [["funny", "comic"], ["bad", "awful(p)", "Bad"], ["great", "outstanding"]],
    "adv": [["quickly", "rapidly"]],
}
VECTORS = {
    **{"film": [1.0, 0.0, 0.0], "movie": [0.9, 0.1, 0.0], "story": [0.7, 0.7, 0.0]},
    **{"awful": [0.0, 0.0, 1.0], "bad": [0.0, 0.1, 1.0], "the": [1.0, 0.0, 0.1]},
    **{"films": [1.0, 0.1, 0.0], "funny": [-1.0, 0.0, 0.0], "comic": [-1.0, 0.2, 0.0]},
}
ORDINARY = [
    *("film", "films", "movie", "story", "bad", "funny", "great", "dog", "quickly", "watched"),
    *("the", "a", "an", "of", "and", "not", "Film", "BAD", "well-made", "director", "strange"),
]
LISTED = ["Anna", "Peter", "Paris", "France", "1500", "7", "three", "it is", "isn't", "does n't"]
MARKUP = [
    *("https://example.org/film", "me@film.com", "@film", "#badfilm", "<br />", "&amp;"),
    *("[MASK]", "<mask>", "{film}", "\U0001f600", "www.film.com/1500", "&#39;", "<|end|>"),
]

SEEDS = st.integers(0, 10**6)
PARTICLES = st.lists(st.sampled_from(ORDINARY + LISTED + MARKUP), min_size=1, max_size=12)
PLAIN = st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=12)


def write_wordnet(folder: Path, synsets: Mapping[str, Sequence[Sequence[str]]] = SYNSETS) -> Path:
    """Write a dictionary in the format of wndb(5); the first words of a list come first."""
    folder.mkdir(parents=True)
    for part, groups in synsets.items():
        content, senses = "  1 a header line\n", dict[str, list[int]]()
        for group in groups:
            offset = len(content)
            listed = " ".join(f"{word} 0" for word in group)
            content += f"{offset:08d} 03 {part[0]} {len(group):02x} {listed} 000 | what it means\n"
            for word in group:
                senses.setdefault(word.partition("(")[0].lower(), []).append(offset)
        lines = [
            f"{word} {part[0]} {len(found)} 1 @ {len(found)} {len(found)} "
            + " ".join(f"{offset:08d}" for offset in found)
            for word, found in sorted(senses.items())
        ]
        (folder / f"data.{part}").write_text(content)
        (folder / f"index.{part}").write_text("\n".join(["  1 a header line", *lines]) + "\n")
    (folder / "verb.exc").write_text("saw see\nseen see\n")
    (folder / "noun.exc").write_text("")
    return folder


def write_vectors(path: Path) -> Path:
    rows = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    path.write_text("\n".join(rows) + "\n")
    return path


def write_masked_lm(folder: Path) -> Path:
    """Write a tiny random BertForMaskedLM with a tokenizer of whole words."""
    words = [*SPECIAL, "[MASK]", *dict.fromkeys([*WORDS, *ORDINARY[:10], "##ing", "comic"])]
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=backend, **named)
    tokenizer.model_max_length = 24
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = hf.BertConfig(
        vocab_size=len(words), intermediate_size=32, max_position_embeddings=26, **sizes
    )
    model = hf.BertForMaskedLM(config)
    with quiet_loading(), torch.no_grad():
        for weight in (w for w in model.parameters() if w.dim() > 1):
            weight.copy_(torch.randn(weight.shape))  # wild, so that every position is another
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def changed_places(before: str, after: str) -> list[int]:
    """Return which of the words, split at spaces, differ; both must have as many."""
    pairs = zip(before.split(" "), after.split(" "), strict=True)
    return [i for i, (old, new) in enumerate(pairs) if old != new]
