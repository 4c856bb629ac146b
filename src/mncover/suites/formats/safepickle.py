"""Read the pickle of a CheckList suite without executing anything in it.

A pickle is a program that can name any function and call it. This reader allows only the names
listed below, and each stands for something inert: functions become marks, arrays tuples of plain
values, objects bags of attributes. Any other name is refused, and nothing is imported.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from mncover.errors import TextError


class Mark:
    """Stands for a function, a type or a cell. It cannot be called."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


MARK = Mark()


class Bag:
    """Stands for an object; `values` has its attributes as the pickle gives them."""

    __slots__ = ("values",)

    values: dict[str, Any]

    def __new__(cls) -> Bag:
        """Start empty here: unpickling does not call `__init__`."""
        made = super().__new__(cls)
        made.values = {}
        return made

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise Refused("an object whose state is not a dictionary")
        self.values = dict(state)


class SuiteBag(Bag):
    """Stands for `checklist.test_suite.TestSuite`."""


# Stand for the three types of test.
MFT, INV, DIR = (type(name, (Bag,), {}) for name in ("MFT", "INV", "DIR"))


class _Function:
    """A function that a pickle may call but not modify."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: object, **options: object) -> Any:
        return self.call(*arguments, **options)

    def __setstate__(self, state: object) -> None:
        raise Refused("a state for a function")


class Refused(Exception):
    """The pickle asks for something that is not allowed."""


@dataclass(slots=True)
class _Module:
    """Stands for a module that is not imported."""

    name: str


class _Dtype:
    """Stands for a NumPy type: `U5`, `i8` and the like."""

    __slots__ = ("code",)

    def __init__(self, code: str = "", *rest: object) -> None:
        if not isinstance(code, str) or code[:1] not in "UiufbO":
            raise Refused(f"an array of type {code!r}")
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Check the byte order, the only detail of a type that matters here."""
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", "|", "="):
            raise Refused("an array with an unsupported byte order")


class _Array:
    """Stands for a NumPy array; `values` is a flat tuple of plain values."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: tuple[Any, ...] = ()

    def __setstate__(self, state: object) -> None:
        """Decode the content; the shape is ignored."""
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], _Dtype):
            raise Refused("an array in an unknown format")
        _, _, kind, _, content = state
        self.values = tuple(content) if kind.code == "O" else _decoded(kind, content)


def _decoded(kind: _Dtype, content: object) -> tuple[Any, ...]:
    if not isinstance(content, bytes) or kind.code == "O":
        raise Refused("an array whose content is not bytes")
    try:
        return tuple(np.frombuffer(content, dtype=np.dtype("<" + kind.code)).tolist())
    except (TypeError, ValueError) as error:
        raise Refused(f"an array that cannot be read ({error})") from None


def _scalar(kind: object, content: object = b"") -> Any:
    if not isinstance(kind, _Dtype):
        raise Refused("a number of unknown type")
    values = _decoded(kind, content)
    if len(values) != 1:
        raise Refused("a scalar with several values")
    return values[0]


_NUMPY = ("numpy.core._multiarray_umath", "numpy.core.multiarray", "numpy._core.multiarray")
_OF_NUMPY = {"scalar": _Function(_scalar), "_reconstruct": _Function(lambda *_: _Array())}


def _get_attr(owner: object = None, name: object = None) -> Any:
    """Return one of the two functions that build arrays; anything else is a mark."""
    if isinstance(owner, _Module) and owner.name in _NUMPY and isinstance(name, str):
        return _OF_NUMPY.get(name, MARK)
    return MARK


_DICTIONARY = _Function(lambda *_: {})
_INERT = _Function(lambda *_, **options: MARK)
# dill calls the type of code objects to make one; it only names other types.
_LOAD_TYPE = _Function(lambda name=None: _INERT if name == "CodeType" else MARK)

# Everything a pickle may name. CheckList's functions become marks.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("checklist.test_suite", "TestSuite"): SuiteBag,
    ("checklist.test_types", "MFT"): MFT,
    ("checklist.test_types", "INV"): INV,
    ("checklist.test_types", "DIR"): DIR,
    ("checklist.expect", "Expect"): MARK,
    ("checklist.expect", "iter_with_optional"): MARK,
    ("collections", "OrderedDict"): _DICTIONARY,
    ("collections", "defaultdict"): _DICTIONARY,
    ("dill._dill", "_create_function"): _INERT,
    ("dill._dill", "_create_cell"): _INERT,
    ("dill._dill", "_load_type"): _LOAD_TYPE,
    ("dill._dill", "_import_module"): _Function(lambda name=None, *_: _Module(str(name))),
    ("dill._dill", "_get_attr"): _Function(_get_attr),
    ("numpy", "ndarray"): MARK,
    ("numpy", "dtype"): _Dtype,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None:
            raise Refused(f"{module}.{name}")
        return found

    def persistent_load(self, pid: object) -> Any:
        raise Refused("an object stored elsewhere")


def load_inert(file: BinaryIO) -> SuiteBag:
    """Return a pickled suite as plain values, bags and marks.

    Raises `TextError` if the pickle is damaged or names anything not known to be harmless.
    """
    try:
        found = _Reader(file).load()
    except Refused as error:
        raise TextError(f"refused, because the pickle names {error}.") from None
    except RecursionError:
        raise TextError("refused, because the pickle is nested too deeply.") from None
    except Exception as error:  # damaged bytes make the unpickler raise almost anything
        why = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise TextError(f"not a CheckList suite, or damaged ({why}).") from None
    if not isinstance(found, SuiteBag):
        raise TextError("the pickle holds no CheckList suite.")
    return found
