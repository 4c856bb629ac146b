"""Read the sites of any Hugging Face model while it runs.

transformers declares which modules produce `hidden_states` and `attentions`. Hooks on them hand
every tensor over at once, so that one layer's values exist at a time. They are used only if, for a
short text, they see exactly what the model returns as outputs. Otherwise those outputs are read,
which costs the memory of all layers of a batch but is always right. `probe.py` decides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mncover.data.layout import STATISTICS, Kind, Layout, Site
from mncover.engine.attention import FUSED, NotCoveredError, reading
from mncover.engine.kernels.base import Heads
from mncover.engine.subject import Subject
from mncover.errors import ModelError
from mncover.types import SITES, Settings


class Tap(NamedTuple):
    """A module that yields a site each time it is called, and where in its output that is."""

    module: nn.Module
    kind: Kind
    at: int


def declared_taps(traced: Any) -> tuple[tuple[Tap, ...], nn.Module | None]:
    """Collect the modules that transformers declares, and the model that owns the layers."""
    taps: list[Tap] = []
    owner: nn.Module | None = None
    for model, name, module in _owned_modules(traced, traced, ""):
        for kind, spec in _specs(model):
            if _matches(spec, name, module):
                taps.append(Tap(module, kind, getattr(spec, "index", 0)))
                owner = model if kind == "hidden" else owner
    return tuple(taps), owner


def _owned_modules(
    owner: nn.Module, module: nn.Module, name: str
) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Yield every module with the innermost model around it: each model declares its own."""
    for child_name, child in module.named_children():
        inner = child if hasattr(child, "_can_record_outputs") else owner
        yield from _owned_modules(inner, child, f"{name}.{child_name}")
    yield owner, name, module


@dataclass(frozen=True, slots=True)
class _Spec:
    """What a bare class or name in a declaration means."""

    target_class: type[nn.Module] | None
    class_name: str | None
    index: int
    layer_name: str | None = None


def _specs(model: Any) -> Iterator[tuple[Kind, Any]]:
    declared = getattr(model, "_can_record_outputs", None) or {}
    kinds: dict[str, Kind] = {"hidden_states": "hidden", "attentions": "attention"}
    for key, kind in kinds.items():
        specs = declared.get(key, [])
        for spec in specs if isinstance(specs, list) else [specs]:
            if hasattr(spec, "target_class"):
                yield kind, spec
            else:
                index = 0 if kind == "hidden" else 1
                named = isinstance(spec, str)
                yield kind, _Spec(None if named else spec, spec if named else None, index)


def _matches(spec: Any, name: str, module: nn.Module) -> bool:
    by_class = spec.target_class is not None and isinstance(module, spec.target_class)
    by_name = spec.class_name is not None and name.endswith(spec.class_name)
    if not (by_class or by_name):
        return False
    return spec.layer_name is None or f".{spec.layer_name.strip('.')}." in f"{name}."


class LayerHeads(NamedTuple):
    """How many heads a layer's attention has: none if what the model yields is no weights."""

    layer: int
    n: int


Key = tuple[Kind, int]
Read = Callable[[Kind, int, Any], None]  # with a tensor, or the `Heads` that it is computed from
Forward = Callable[[dict[str, Tensor], Read], Any]


@dataclass(frozen=True, slots=True)
class Taps:
    """How the sites of a subject are read; made by `find_taps` in `probe.py`.

    `final` is the module whose `last_hidden_state` stands for the last layer's output, where
    a model puts a last norm behind its layers. `modules` is empty if outputs are read instead.
    With `fused`, attention is computed by whoever reads it (`fused.py`), and otherwise by the
    model, perhaps for a reason. A model without attention weights runs as it always does.
    """

    subject: Subject
    width: tuple[int, ...]  # of the hidden states of each layer
    heads: tuple[LayerHeads, ...]  # of every attention that the model yields, in its order
    causal: bool
    modules: tuple[Tap, ...] = ()
    final: nn.Module | None = None
    fused: bool = False
    eager_because: str = ""
    attention: str | None = "eager"  # how the model computes it; None: as it does anyway
    without_because: str = ""  # why no attention can be read

    @property
    def n_hidden(self) -> int:
        """How many layers have hidden states, what enters the first one included."""
        return len(self.width)

    @property
    def note(self) -> str:
        """What a reader of the numbers must know of the sites; mostly nothing."""
        name, layers = type(self.subject.model).__name__, self.n_hidden - 1
        found = len([one for one in self.heads if one.n])
        if self.without_because:
            return f"{name} is measured on hidden states alone: {self.without_because}."
        if 0 < found < layers:
            return f"{name} has attention weights in {found} of its {layers} layers."
        return ""

    @property
    def way(self) -> Literal["hooks", "outputs"]:
        """How the sites are read."""
        return "hooks" if self.modules else "outputs"

    def layout(self, max_length: int, pooled: bool = False) -> Layout:
        """Return the sites for texts of at most `max_length` tokens, or of any length."""
        rows, to = (1, len(STATISTICS)) if pooled else (max_length, max_length)
        hidden = [Site("hidden", i, 1, rows, e) for i, e in enumerate(self.width)]
        attention = [Site("attention", at, n, rows, to) for at, n in self.heads if n]
        return Layout((*hidden, *attention), self.causal)

    @contextmanager
    def open(self, attention: str | None = None) -> Iterator[Forward]:
        """Yield a function that runs one batch and calls `read` for every site of it.

        It may be called by several threads at a time. The model is switched to eager attention,
        fused attention, or what is asked for, and to evaluation mode inside the block. All hooks
        are gone when it ends, however it ends.
        """
        with self.subject.measuring(attention or (FUSED if self.fused else self.attention)):
            if not self.modules:
                with hooks_restored(self.subject.model):
                    yield self._read_outputs
                return
            last_hidden = self.n_hidden - 1 if self.final else None
            counter = _Counter(self.heads, last_hidden)
            hooks = [(tap.module, counter.hook(tap)) for tap in self.modules]
            if self.final is not None:
                hooks.append((self.final, counter.final_hook))
            with ExitStack() as undo:
                for module, hook in hooks:
                    undo.callback(module.register_forward_hook(hook).remove)
                yield partial(self._run_hooked, counter)

    @torch.inference_mode()
    def _run_hooked(self, counter: _Counter, inputs: dict[str, Tensor], read: Read) -> Any:
        counter.begin(read)
        with reading(counter.take) if self.fused else nullcontext():
            output = self.subject.call(self.subject.runner, inputs)
        self._check_count(counter.hidden, counter.attention)
        counter.begin(_ignore)  # whatever runs behind the batch is not read
        return output

    @torch.inference_mode()
    def _read_outputs(self, inputs: dict[str, Tensor], read: Read) -> Any:
        output = with_states(self.subject, inputs, bool(self.heads))
        hidden, attention = states_of(output)
        self._check_count(len(hidden), len(attention))
        for layer, values in enumerate(hidden):
            read("hidden", layer, values)
        for (layer, n), values in zip(self.heads, attention, strict=True):
            if n:
                read("attention", layer, values)
        return output

    def _check_count(self, hidden: int, attention: int) -> None:
        expected = len(self.width), len(self.heads)
        if (hidden, attention) != expected:
            raise ModelError(
                f"{type(self.subject.model).__name__} yielded {hidden} hidden states and "
                f"{attention} attentions, expected {expected[0]} and {expected[1]}."
            )


def _ignore(kind: Kind, layer: int, values: Any) -> None:
    """Read nothing."""


class _Counter(threading.local):
    """Turns the calls of hooks, which come in the order of the layers, into numbered sites.

    Every thread counts for itself.
    """

    def __init__(self, expected: tuple[LayerHeads, ...], last_hidden: int | None) -> None:
        self.read: Read = _ignore
        self.expected = expected
        self.last_hidden = last_hidden
        self.hidden = self.attention = 0

    def begin(self, read: Read) -> None:
        self.read = read
        self.hidden = self.attention = 0

    def hook(self, tap: Tap) -> Callable[..., None]:
        def on_hidden(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if self.hidden == 0:  # what enters the first layer
                self._hidden(args[0])
            if self.hidden != self.last_hidden:
                self._hidden(_part(output, tap.at))

        def on_attention(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            values = _part(output, tap.at)
            if values is not None:
                self.take(values)

        return on_hidden if tap.kind == "hidden" else on_attention

    def take(self, values: Any) -> None:
        """Number the next attention that the model yields."""
        if self.read is _ignore:
            if isinstance(values, Heads):
                values.fill()
            return
        self.attention += 1
        if self.attention > len(self.expected):
            raise NotCoveredError("it also has attention that is no site")
        layer, n = self.expected[self.attention - 1]
        if n:
            self.read("attention", layer, values)
        elif isinstance(values, Heads):
            values.fill()  # nobody else computes what attention gives

    def final_hook(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._hidden(output.last_hidden_state)

    def _hidden(self, values: Tensor) -> None:
        self.hidden += 1
        self.read("hidden", self.hidden - 1, values)


def chosen_taps(taps: Taps, settings: Settings) -> Taps:
    """Return taps of the sites that are wanted.

    Where attention is not read, the model computes it as fast as it can: models that are loaded by
    name have come with eager attention.
    """
    if settings.sites == SITES[0]:
        return taps
    hidden = tuple(tap for tap in taps.modules if tap.kind == "hidden")
    model = taps.subject.model
    slow = getattr(model.config, "_attn_implementation", None) == "eager"
    fast = "sdpa" if slow and getattr(model, "_supports_sdpa", False) else None
    return replace(taps, heads=(), modules=hidden, attention=fast)


def with_states(subject: Subject, inputs: dict[str, Tensor], attention: bool) -> Any:
    """Run a batch and ask for the hidden states, and perhaps for the attention, of all layers."""
    wanted = {"output_hidden_states": True} | ({"output_attentions": True} if attention else {})
    return subject.call(subject.runner, inputs, **wanted)


def _part(output: Any, index: int) -> Any:
    return output[index] if isinstance(output, tuple) else output


def states_of(output: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the hidden states and attentions in a model's output, an encoder's if it has one."""
    found = []
    for name in ("hidden_states", "attentions"):
        states = getattr(output, f"encoder_{name}", None) or getattr(output, name, None) or ()
        found.append(tuple(state for state in states if state is not None))
    return found[0], found[1]


@contextmanager
def hooks_restored(model: nn.Module) -> Iterator[None]:
    """Remove the hooks that transformers leaves on a model when asked for its inner outputs."""
    mark = "_output_capturing_hooks_installed"
    before = [(m, set(m._forward_hooks), mark in m.__dict__) for m in model.modules()]
    try:
        yield
    finally:
        for module, hooks, marked in before:
            for key in set(module._forward_hooks) - hooks:
                del module._forward_hooks[key]
            if not marked:
                module.__dict__.pop(mark, None)
