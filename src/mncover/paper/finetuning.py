"""Train a classifier from a base model: all its weights, and a new head.

This makes the targets that Table 4 compares. It is not a general trainer: no checkpoints, no
validation, one device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from mncover.engine.batches import Tokens
from mncover.engine.loading import load_config, load_subject
from mncover.engine.measure import class_probabilities
from mncover.engine.subject import Subject
from mncover.errors import ModelError, SettingsError, TextError
from mncover.types import Text, counted

Advance = Callable[[int], None]

CLIP = 1.0  # the norm to which gradients are clipped
CHUNK = 50  # batches whose texts are sorted by length together: enough for little padding


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Texts and the number of each one's class."""

    texts: tuple[Text, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        n, labels = len(self.texts), len(self.labels)
        if n != labels:
            raise TextError(f"got {counted(n, 'text')} but {counted(labels, 'label')}.")

    def __add__(self, other: TrainingSet) -> TrainingSet:
        return TrainingSet(self.texts + other.texts, self.labels + other.labels)

    def check(self, n_labels: int) -> None:
        """Refuse a label that is not among `n_labels` classes."""
        for index, label in enumerate(self.labels):
            if not 0 <= label < n_labels:
                raise TextError(f"text {index}: the label {label} is not from 0 to {n_labels - 1}.")


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How a classifier is trained.

    `warmup` is the share of all steps in which the learning rate rises. More texts mean more
    steps, unless `steps` is given, which then replaces `epochs`. `equal_steps` is for experiments
    that compare training sets of different sizes: all get as many steps as the largest needs, so
    that a gain is not merely that of longer training. `fine_tune` itself ignores it.
    """

    epochs: int = 3
    learning_rate: float = 1e-4  # for small bases and short training; large ones want less
    batch_size: int = 32
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_length: int = 128
    steps: int | None = None
    equal_steps: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_length", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"`{name}` must be at least 1, got {value}.")
        if self.learning_rate <= 0 or self.weight_decay < 0 or not 0 <= self.warmup <= 1:
            raise SettingsError(
                "`learning_rate` must be above 0, `weight_decay` not below, `warmup` from 0 to 1."
            )

    def steps_over(self, n: int) -> int:
        """Return how many steps training on `n` texts takes."""
        return self.steps or self.epochs * -(-n // self.batch_size)

    def pace(self, step: int, steps: int) -> float:
        """Return what share of the learning rate a step has, the first being step 0.

        >>> [round(FineTuning(warmup=0.4).pace(step, 5), 2) for step in range(5)]
        [0.33, 0.67, 1.0, 0.67, 0.33]
        """
        rising = math.floor(self.warmup * steps)
        return min((step + 1) / (rising + 1), (steps - step) / max(1, steps - rising))


def fine_tune(
    base: str,
    train: TrainingSet,
    n_labels: int,
    settings: FineTuning,
    seed: int,
    device: str | None = None,
    advance: Advance = lambda n: None,
) -> Subject:
    """Return a classifier of `n_labels` classes, trained on the texts from a base model.

    The head is new, even if the base has one. The seed decides head, order of texts and dropout;
    the caller's random state is left alone. On a CPU, equal seeds give equal weights. `advance`
    is told of every step.
    """
    train.check(n_labels)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        subject = _untrained(base, n_labels, device)
        subject.check_length(settings.max_length)
        _train(subject, train, settings, seed, advance)
    return subject


def accuracy(
    subject: Subject, test: TrainingSet, max_length: int = 128, batch_size: int = 32
) -> NDArray[np.bool_]:
    """Return for each text whether it is classified correctly."""
    test.check(subject.n_labels)
    tokens = subject.encode(test.texts, max_length)
    found = subject.predictions(class_probabilities(subject, tokens, batch_size))
    return np.asarray(found == np.array(test.labels, np.int64), dtype=bool)


def _untrained(base: str, n_labels: int, device: str | None) -> Subject:
    """Return a classifier with the weights of the base below a random head."""
    import transformers

    found = load_subject(base, dtype="float32")
    pad = found.tokenizer.pad_token_id
    if pad is None:
        raise ModelError(f"{base}: the tokenizer has no padding token, which batches need.")
    config = load_config(base)
    config.num_labels, config.problem_type = n_labels, "single_label_classification"
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = pad
    auto = transformers.AutoModelForSequenceClassification
    try:
        model = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except ValueError as error:
        raise ModelError(f"{base}: there is no classifier of this architecture.") from error
    below = getattr(found.model, "base_model", found.model)
    if type(below) is not type(model.base_model):
        raise ModelError(f"{base}: its weights do not fit below a {type(model).__name__}.")
    # Not strict: one of the two may have a pooler that the other lacks.
    model.base_model.load_state_dict(below.state_dict(), strict=False)
    try:
        return Subject(model.to(torch.device(device or "cpu")), found.tokenizer, base)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used.") from error


def _encoded(subject: Subject, texts: Sequence[Text], max_length: int) -> Tokens:
    tokens = subject.encode(texts, max_length)
    if not len(tokens):
        raise TextError("there are no texts to train on.")
    for index in np.flatnonzero(tokens.lengths == 0):
        raise TextError(f"text {index} has no tokens: nothing can be learnt from it.")
    return tokens


def _train(
    subject: Subject, train: TrainingSet, settings: FineTuning, seed: int, advance: Advance
) -> None:
    tokens = _encoded(subject, train.texts, settings.max_length)
    targets = torch.tensor(train.labels, device=subject.device)
    model, steps = subject.model, settings.steps_over(len(tokens))
    optimizer = _optimizer(model, settings)
    rows_of = batches(tokens.lengths.tolist(), settings.batch_size, seed)
    model.train()
    for step, rows in zip(range(steps), rows_of, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * settings.pace(step, steps)
        inputs = subject.padded(tokens.take(rows))
        with torch.autocast("cuda", torch.bfloat16, enabled=subject.device.type == "cuda"):
            answer = subject.call(model, inputs).logits
        loss = cross_entropy(answer.float(), targets[rows])
        if not torch.isfinite(loss):
            raise ModelError(f"training diverged in step {step + 1}: try a smaller rate.")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        advance(1)
    model.eval()


def _optimizer(model: nn.Module, settings: FineTuning) -> torch.optim.Optimizer:
    """Return AdamW without weight decay for vectors: biases and scales of normalisation."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def batches(lengths: Sequence[int], batch_size: int, seed: int) -> Iterator[list[int]]:
    """Yield the rows of each step, endlessly: every text once, then all again in a new order.

    Texts are sorted by length within chunks of the shuffled texts, so batches are random but
    need little padding.
    """
    size = CHUNK * batch_size
    for epoch in itertools.count():
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(lengths)).tolist()
        chunks = [order[start : start + size] for start in range(0, len(order), size)]
        ready = [row for chunk in chunks for row in sorted(chunk, key=lengths.__getitem__)]
        made = [ready[start : start + batch_size] for start in range(0, len(ready), batch_size)]
        for place in random.permutation(len(made)).tolist():
            yield made[place]
