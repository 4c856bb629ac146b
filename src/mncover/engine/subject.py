"""The subject: the model under test with its tokenizer, ready to be run on texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mncover.engine.batches import Encoding, workers_on
from mncover.errors import ModelError
from mncover.types import Text, well_formed

PROBE_TEXT = "one two three, four five six."
MIN_TOKENS = 32  # below 12 tokens on one machine, 16 on another, MKL was seen to round otherwise


class Subject:
    """A Hugging Face model with its tokenizer, ready to be run on texts.

    `runner` is the module that is called for each batch: the whole model if it classifies
    texts, otherwise only the part below its head, whose output nobody needs. `traced` is the
    module whose sites are read: in an encoder-decoder its encoder.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str | None = None) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "config"):
            raise ModelError(f"`model` must be a Hugging Face model, got {type(model).__name__}.")
        if not callable(tokenizer):
            raise ModelError(
                f"`tokenizer` must be a Hugging Face tokenizer, got {type(tokenizer).__name__}."
            )
        self.model: Any = model
        self.tokenizer = tokenizer
        self.name = name or str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
        self.traced = _traced_module(model)
        self._takes_use_cache: dict[Any, bool] = {}
        with self.measuring(), torch.inference_mode():
            self.n_labels = self._count_labels()
        self.runner = model if self.n_labels else self.traced

    @property
    def device(self) -> torch.device:
        """The device the model is on."""
        return torch.device(next(self.model.parameters()).device)

    @property
    def dtype(self) -> Any:
        """The type of the model's weights."""
        return next(p.dtype for p in self.model.parameters() if p.is_floating_point())

    @property
    def labels(self) -> list[str]:
        """The names of the classes, in the order of the probabilities; none without a head."""
        names = getattr(self.model.config, "id2label", None) or {}
        return [str(names.get(i, f"LABEL_{i}")) for i in range(self.n_labels)]

    @cached_property
    def input_names(self) -> list[str]:
        """The tokenizer's outputs that the model takes, apart from the attention mask.

        Batches have no padding, so a mask would be all ones, which is every model's default.
        """
        accepted = inspect.signature(self.model.forward).parameters
        names = self.tokenizer.model_input_names
        return [n for n in names if n == "input_ids" or (n in accepted and n != "attention_mask")]

    @cached_property
    def single_rows(self) -> bool:
        """Whether the model refuses batches: decoders that classify need a padding token."""
        decoder = not getattr(self.model.config, "is_encoder_decoder", False)
        return bool(self.n_labels) and decoder and self._text_config.pad_token_id is None

    @property
    def workers(self) -> int:
        """How many batches may run at a time.

        One, if the model is spread over devices, whose hooks move weights about, or if it has
        positions that it computes anew according to the length of what it sees.
        """
        spread = len(set(getattr(self.model, "hf_device_map", {}).values())) > 1
        rope = str(getattr(self._text_config, "rope_parameters", ""))
        changing = "'dynamic'" in rope or "'longrope'" in rope
        return 1 if spread or changing else workers_on(self.device)

    @property
    def _text_config(self) -> Any:
        config = self.model.config
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    def check_length(self, max_length: int) -> None:
        """Refuse a `max_length` that the model's positions cannot hold."""
        limit = getattr(self.tokenizer, "model_max_length", None) or max_length
        positions = getattr(self.model.config, "max_position_embeddings", None)
        limit = min(limit, positions) if positions and positions > 0 else limit
        tables = self.padded_position_tables()
        limit = min([limit, *(t.num_embeddings - (t.padding_idx or 0) - 1 for t in tables)])
        if max_length > limit:
            raise ModelError(
                f"`max_length` is {max_length}, but the model takes at most {limit} tokens."
            )

    def padded_position_tables(self) -> Iterator[nn.Embedding]:
        """Yield tables of positions whose first rows, up to `padding_idx`, are for padding."""
        for module in self.traced.modules():
            table = getattr(module, "position_embeddings", None)
            if isinstance(table, nn.Embedding) and table.padding_idx is not None:
                yield table

    def encode(self, texts: Sequence[Text], max_length: int) -> list[Encoding]:
        """Tokenise the texts with special tokens, cutting those longer than `max_length`."""
        if not texts:
            return []
        encodings = [Encoding(inputs, False) for inputs in self._tokenize(texts)]
        long = [i for i, encoding in enumerate(encodings) if encoding.length > max_length]
        if long:
            cut = self._tokenize([texts[i] for i in long], truncation=True, max_length=max_length)
            for i, inputs in zip(long, cut, strict=True):
                encodings[i] = Encoding(inputs, True)
                if encodings[i].length > max_length:  # special tokens are never cut
                    raise ModelError(
                        f"`max_length` is {max_length}, too short for this tokenizer: its special "
                        f"tokens alone make a text {encodings[i].length} tokens long."
                    )
        return encodings

    def _tokenize(self, texts: Sequence[Text], **options: Any) -> list[dict[str, list[int]]]:
        first = [well_formed(text if isinstance(text, str) else text[0]) for text in texts]
        pairs = [isinstance(text, tuple) for text in texts]
        if any(pairs) and not all(pairs):  # the tokenizer takes one kind at a time
            singles = iter(self._tokenize([t for t in texts if isinstance(t, str)], **options))
            doubles = iter(self._tokenize([t for t in texts if isinstance(t, tuple)], **options))
            return [next(doubles) if pair else next(singles) for pair in pairs]
        second = [well_formed(text[1]) for text in texts] if pairs[0] else None
        found = self.tokenizer(first, second, verbose=False, **options)
        names = [name for name in self.input_names if name in found]
        return [{name: found[name][i] for name in names} for i in range(len(texts))]

    def inputs(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """Put equally long texts into the tensors that the model takes.

        A batch of very few tokens is filled up with copies, in rows behind the first
        `len(encodings)`: for the smallest matrices the CPU's libraries switch to routines that
        round differently, and a text's activations must not depend on its batch.
        """
        rows = list(encodings)
        if not self.single_rows:
            rows *= -(-MIN_TOKENS // (len(rows) * rows[0].length))
        return self.tensors(rows)

    def tensors(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """Put equally long texts, and nothing else, into the tensors that the model takes."""
        return {
            name: torch.tensor([row.inputs[name] for row in encodings], device=self.device)
            for name in encodings[0].inputs
        }

    def padded(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """Put texts of any lengths into tensors, filled up to the longest, with a mask."""
        longest = max(encoding.length for encoding in encodings)
        rows = [one.inputs | {"attention_mask": [1] * one.length} for one in encodings]
        fill = {"input_ids": self.tokenizer.pad_token_id or 0}

        def table(name: str) -> list[list[int]]:
            return [row[name] + [fill.get(name, 0)] * (longest - len(row[name])) for row in rows]

        return {name: torch.tensor(table(name), device=self.device) for name in rows[0]}

    def probe_inputs(self) -> dict[str, Tensor]:
        """Return a short text as a batch of one, to learn how the model answers."""
        encoding = self.encode([PROBE_TEXT], max_length=16)[0]
        if encoding.length < 2:
            raise ModelError(f"the tokenizer turns {PROBE_TEXT!r} into fewer than two tokens.")
        return self.tensors([encoding])

    def call(self, module: Any, inputs: dict[str, Tensor], **options: Any) -> Any:
        """Run a module of the model; no cache of keys and values is kept."""
        if module not in self._takes_use_cache:  # asked for every batch, so remembered
            accepted = inspect.signature(module.forward).parameters
            self._takes_use_cache[module] = "use_cache" in accepted
        if self._takes_use_cache[module]:
            options["use_cache"] = False
        return module(**inputs, return_dict=True, **options)

    @property
    def _multi_label(self) -> bool:
        return getattr(self.model.config, "problem_type", "") == "multi_label_classification"

    def probabilities(self, output: Any) -> Tensor | None:
        """Return the class probabilities [texts, labels] of a batch, or None without a head.

        A model with one output is a regressor: its value is returned as it is.
        """
        if not self.n_labels:
            return None
        logits: Tensor = output.logits.float()
        if self.n_labels == 1:
            return logits
        return logits.sigmoid() if self._multi_label else logits.softmax(-1)

    def predictions(self, probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the most probable class of each text; -1 where there is none.

        There is none for a text that was not run, a regressor, or a multi-label model, whose
        classes do not exclude each other.
        """
        if self.n_labels < 2 or self._multi_label:
            return np.full(len(probabilities), -1, dtype=np.int64)
        run = ~np.isnan(probabilities).any(axis=1)
        return np.where(run, np.nan_to_num(probabilities).argmax(axis=1), -1)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the model into evaluation mode, and back afterwards."""
        with ExitStack() as undo:
            for module in [m for m in self.model.modules() if m.training]:
                undo.callback(setattr, module, "training", True)
                module.training = False
            yield

    @contextmanager
    def measuring(self, attention: str = "eager") -> Iterator[None]:
        """Put the model into the state it is measured in, and put it back afterwards.

        Evaluation mode, and eager attention: other implementations, but for our own, never hold
        the attention weights that are to be read.
        """
        with self.evaluating(), ExitStack() as undo:
            before = getattr(self.model.config, "_attn_implementation", "eager")
            if before != attention:
                undo.callback(self.model.set_attn_implementation, before)
                self.model.set_attn_implementation(attention)
            yield

    def _count_labels(self) -> int:
        try:
            output = self.call(self.model, self.probe_inputs())
        except (ValueError, TypeError) as error:
            if self.traced is self.model:
                raise ModelError(f"{type(self.model).__name__} cannot be run: {error}") from error
            return 0  # such as an encoder-decoder that wants a target text: no classifier
        logits = getattr(output, "logits", None)
        return int(logits.shape[1]) if logits is not None and logits.dim() == 2 else 0


def _traced_module(model: Any) -> Any:
    if getattr(model.config, "is_encoder_decoder", False):
        return model.get_encoder()
    return getattr(model, "base_model", model)
