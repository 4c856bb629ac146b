"""The subject: the model under test with its tokenizer, ready to be run on texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mncover.data.prompting import Prompting
from mncover.engine.batches import Tokens, ahead, batch_limits, staged, workers_on
from mncover.engine.choices import Choices, require_causal
from mncover.engine.generate import Answerer
from mncover.engine.prompts import Prompter
from mncover.engine.switching import attending, evaluating
from mncover.engine.tokenizing import called, columns, set_to_cut, well_formed_text
from mncover.errors import ModelError
from mncover.types import Text

PROBE_TEXT = "one two three, four five six."
CHUNK = 8192  # texts that are tokenised at once: what the tokenizer returns is large
MIN_TOKENS = 32  # below 12 tokens on one machine, 16 on another, MKL was seen to round otherwise


class Subject:
    """A Hugging Face model with its tokenizer, ready to be run on texts.

    `runner` is the module that is called for each batch: the whole model if it classifies
    texts, otherwise only the part below its head, whose output nobody needs. `traced` is the
    module whose sites are read: in an encoder-decoder its encoder. With `prompting`, texts become
    prompts, and a language model with `choices` classifies.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str | None = None,
        prompting: Prompting | None = None,
    ) -> None:
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
        self.prompting = prompting or Prompting()
        self.prompter: Prompter | None = None
        self.choices: Choices | None = None
        self.answerer: Answerer | None = None
        self.most_tokens: int | None = None  # in a batch, where another process cuts them
        self._takes: dict[Any, frozenset[str]] = {}
        self._tokenizing = Lock()  # a fast tokenizer refuses to be changed while it works
        with self.measuring(), torch.inference_mode():
            self.n_labels = self._count_labels()
            if not self.prompting.plain:
                self._prepare_prompts()
        self.runner = model if self.n_labels else self.traced

    def _prepare_prompts(self) -> None:
        asks = bool(self.prompting.choices or self.prompting.generate)
        if asks:
            require_causal(self.model, self.labels)
        names = ["input_ids"] if asks else self.input_names
        self.prompter = Prompter(self.tokenizer, self.prompting, names)
        self.prompting = replace(self.prompting, chat_digest=self.prompter.digest)
        if self.prompting.generate:
            self.answerer = Answerer(self.model, self.tokenizer, self.prompting)
        if self.prompting.choices:
            self.choices = Choices(self.prompter, self.prompter.example(PROBE_TEXT))
            probe = {"input_ids": self.probe_inputs()["input_ids"]}
            self.choices.try_cache(self._ask, probe, self.dtype)
            self.n_labels = len(self.choices.names)

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
        if self.choices is not None:
            return list(self.choices.names)
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
    def _backend(self) -> Any:
        """The Rust tokenizer behind the tokenizer, if calling the latter does nothing else.

        Asked itself it is several times as fast.
        """
        from transformers import PreTrainedTokenizerFast as Plain

        mine = type(self.tokenizer)
        plain = issubclass(mine, Plain) and not hasattr(mine, "_switch_to_input_mode")
        for name in ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding"):
            plain = plain and getattr(mine, name, None) is getattr(Plain, name, None)
        return self.tokenizer.backend_tokenizer if plain else None

    @cached_property
    def single_rows(self) -> bool:
        """Whether the model refuses batches: decoders that classify need a padding token."""
        decoder = not getattr(self.model.config, "is_encoder_decoder", False)
        classifies = bool(self.n_labels) and self.choices is None
        return classifies and decoder and self._text_config.pad_token_id is None

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
        more = 0 if self.choices is None else self.choices.longest
        if self.answerer is not None:
            more = self.answerer.beyond(max_length)
        if max_length + more > limit:
            behind = f" and what follows a prompt has up to {more} more" if more else ""
            raise ModelError(
                f"`max_length` is {max_length}{behind}, but the model takes at most {limit} tokens."
            )

    def padded_position_tables(self) -> Iterator[nn.Embedding]:
        """Yield tables of positions whose first rows, up to `padding_idx`, are for padding."""
        for module in self.traced.modules():
            table = getattr(module, "position_embeddings", None)
            if isinstance(table, nn.Embedding) and table.padding_idx is not None:
                yield table

    def encode(self, texts: Sequence[Text], max_length: int) -> Tokens:
        """Tokenise the texts, or their prompts, cutting those longer than `max_length`."""
        if self.prompter is not None and texts:
            prompts = self.prompter.encode(texts, self._prompt_length(max_length))
            return prompts if self.answerer is None else self.answerer.read_of(prompts, self)
        return self.tokenise(texts, max_length)

    def _prompt_length(self, max_length: int) -> int:
        both = self.prompting.read == "both"
        return max_length - self.prompting.generate if both else max_length

    def answers(self, texts: Sequence[Text], max_length: int) -> tuple[str, ...]:
        """Return what the model says to texts; nothing if it is not asked to answer."""
        if self.answerer is None or self.prompter is None or not texts:
            return ()
        prompts = self.prompter.encode(texts, self._prompt_length(max_length))
        return tuple(map(self.answerer.text, self.answerer.answers(prompts, self)))

    def tokenise(self, texts: Sequence[Text], max_length: int) -> Tokens:
        """Tokenise the texts with special tokens, cutting those longer than `max_length`."""
        if not texts:
            return Tokens.of({"input_ids": []}, [], [])
        parts = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
        with ahead(len(parts)) as each:
            tokens = Tokens.joined(list(each(partial(self._tokenize, max_length), parts)))
        longest = tokens.lengths[tokens.lengths > max_length]
        if len(longest):  # special tokens are never cut
            raise ModelError(
                f"`max_length` is {max_length}, too short for this tokenizer: its special "
                f"tokens alone make a text {longest[0]} tokens long."
            )
        return tokens

    def _tokenize(self, max_length: int, texts: Sequence[Text]) -> Tokens:
        each = [well_formed_text(text) for text in texts]
        if self._backend is None:
            with self._tokenizing:
                return called(self.tokenizer, self.input_names, each, max_length)
        with self._tokenizing, set_to_cut(self._backend, self.tokenizer, max_length):
            try:
                found = self._backend.encode_batch_fast(each)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # Rust's, which is no Exception
                    raise
                raise ModelError(f"{self.name}: its tokenizer is damaged ({error}).") from error
        return columns(found, self.input_names)

    def filled(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fill a batch of very few tokens up with copies, in rows behind its own.

        For the smallest matrices the CPU's libraries switch to routines that round differently,
        and a text's activations must not depend on its batch.
        """
        copies = -(-MIN_TOKENS // inputs["input_ids"].numel())
        if copies == 1 or self.single_rows or self.device.type != "cpu":
            return inputs
        return {name: values.repeat(copies, 1) for name, values in inputs.items()}

    def inputs(self, tokens: Tokens) -> dict[str, Tensor]:
        """Put equally long texts into the tensors that the model takes, with copies behind them."""
        return self.filled(self.tensors(tokens))

    def tensors(self, tokens: Tokens) -> dict[str, Tensor]:
        """Put equally long texts, and nothing else, into the tensors that the model takes."""
        [(_, inputs)] = staged(tokens, [np.arange(len(tokens))], self.device)
        return inputs

    def padded(self, tokens: Tokens) -> dict[str, Tensor]:
        """Put texts of any lengths into tensors, filled up to the longest, with a mask."""
        real = np.arange(tokens.lengths.max()) < tokens.lengths[:, None]
        fill = {"input_ids": self.tokenizer.pad_token_id or 0}
        tables = {"attention_mask": real.astype(np.int64)}
        for name, values in tokens.inputs.items():
            tables[name] = np.full(real.shape, fill.get(name, 0), dtype=np.int64)
            tables[name][real] = values
        return {name: torch.from_numpy(table).to(self.device) for name, table in tables.items()}

    def limits(self, batch_size: int | None) -> tuple[int, int]:
        """Return how many texts and how many tokens a batch may have."""
        size = 1 if self.single_rows else batch_size
        texts, tokens = batch_limits(self.device, self.workers, size)
        return texts, self.most_tokens or tokens

    def probe_inputs(self) -> dict[str, Tensor]:
        """Return a short text as a batch of one, to learn how the model answers."""
        tokens = self.tokenise([PROBE_TEXT], max_length=16)
        if tokens.lengths[0] < 2:
            raise ModelError(f"the tokenizer turns {PROBE_TEXT!r} into fewer than two tokens.")
        return self.tensors(tokens)

    @contextmanager
    def trying(self, inputs: dict[str, Tensor]) -> Iterator[None]:
        """Refuse a model that cannot be run on what it is given inside the block."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError, KeyError, AttributeError) as error:
            length = inputs["input_ids"].shape[1]
            what = f"{type(self.model).__name__} cannot be run on a text of {length} tokens"
            raise ModelError(f"{what}: {_first_line(error)}.") from error

    def call(self, module: Any, inputs: dict[str, Tensor], **options: Any) -> Any:
        """Run a module of the model; a cache is kept only where choices are scored on top of it."""
        if module not in self._takes:  # asked for every batch, so remembered
            self._takes[module] = frozenset(inspect.signature(module.forward).parameters)
        kept = self.choices is not None and self.choices.cached
        usual: dict[str, Any] = {"use_cache": kept}
        if self.choices is not None:
            usual["logits_to_keep"] = 1
        wanted = {**usual, **options}
        left_out = usual.keys() - self._takes[module]
        known = {name: value for name, value in wanted.items() if name not in left_out}
        return module(**inputs, return_dict=True, **known)

    def _ask(self, inputs: dict[str, Tensor], **options: Any) -> Any:
        return self.call(self.model, inputs, **options)

    @property
    def _multi_label(self) -> bool:
        return getattr(self.model.config, "problem_type", "") == "multi_label_classification"

    def probabilities(self, output: Any, inputs: dict[str, Tensor]) -> Tensor | None:
        """Return the class probabilities [texts, labels] of a batch, or None without a head.

        `inputs` are the batch without what fills it up. A model with one output is a regressor: its
        value is returned as it is.
        """
        if not self.n_labels:
            return None
        if self.choices is not None:
            return self.choices.probabilities(output, inputs, self._ask)
        logits: Tensor = output.logits.float()
        if self.n_labels == 1:
            return logits
        return logits.sigmoid() if self._multi_label else logits.softmax(-1)

    def predictions(self, probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the most probable class of each text; -1 where there is none.

        There is none for a text that was not run, a regressor, or a multi-label model, whose
        classes do not exclude each other.
        """
        if self.n_labels < 2 or (self._multi_label and self.choices is None):
            return np.full(len(probabilities), -1, dtype=np.int64)
        run = ~np.isnan(probabilities).any(axis=1)
        return np.where(run, np.nan_to_num(probabilities).argmax(axis=1), -1)

    @contextmanager
    def measuring(self, attention: str | None = "eager") -> Iterator[None]:
        """Put the model into the state it is measured in, and put it back afterwards.

        Evaluation mode, and eager attention: other implementations, but for our own, never hold
        the attention weights that are to be read. None leaves attention as it is.
        """
        with evaluating(self.model), attending(self.model, attention):
            yield

    def _count_labels(self) -> int:
        inputs = self.probe_inputs()
        try:
            with self.trying(inputs):
                output = self.call(self.model, inputs)
        except (ValueError, TypeError) as error:
            if self.traced is self.model:
                raise ModelError(f"{type(self.model).__name__} cannot be run: {error}") from error
            return 0  # such as an encoder-decoder that wants a target text: no classifier
        logits = getattr(output, "logits", None)
        return int(logits.shape[1]) if logits is not None and logits.dim() == 2 else 0


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _traced_module(model: Any) -> Any:
    if getattr(model.config, "is_encoder_decoder", False):
        return model.get_encoder()
    return getattr(model, "base_model", model)
