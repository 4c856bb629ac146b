"""Read the pickle of a CheckList suite without executing anything in it.

A pickle is a program that can name any function and call it. This reader allows only the names
listed below, and each stands for something inert: functions become marks, arrays tuples of plain
values, objects bags of attributes. Any other name is refused, and nothing is imported.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mncover.data.limits import DEPTH
from mncover.errors import LimitError, TextError
from mncover.types import brief


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


_DTYPE = re.compile(r"[UiufbO]\d{0,9}")  # NumPy calls the type of objects O8


class _Dtype:
    """Stands for a NumPy type: `U5`, `i8` and the like."""

    __slots__ = ("code",)

    def __init__(self, code: str = "", *rest: object) -> None:
        if not isinstance(code, str) or not _DTYPE.fullmatch(code):
            raise Refused(f"an array of type {brief(code)}")
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
        plain = kind.code[0] == "O" and isinstance(content, list)
        self.values = tuple(content) if plain else _decoded(kind, content)


def _decoded(kind: _Dtype, content: object) -> tuple[Any, ...]:
    if not isinstance(content, bytes) or kind.code[0] == "O":
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
    **{(module, name): found for module in _NUMPY for name, found in _OF_NUMPY.items()},
    ("numpy", "ndarray"): MARK,
    ("numpy", "dtype"): _Dtype,
}


_Base: Any = pickle._Unpickler
_NODES = 1000  # of a key of a dictionary: tuples may hold the same tuple ten times over, and so on


class _Reader(_Base):  # type: ignore[misc]
    """Runs a pickle in Python, one step after the other, to look before each that may do harm.

    The unpickler in C makes room for whatever number a pickle gives an object, and computes hashes
    of keys however deeply they are nested, which ends the interpreter.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Base.dispatch)

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        # Copying the values of arrays and objects again and again must not outgrow the file.
        self.left = 50 * len(content) + 2**20
        self.depth = DEPTH.value

    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None:
            raise Refused(f"{module}.{name}")
        return found

    def persistent_load(self, pid: object) -> Any:
        raise Refused("an object stored elsewhere")

    def check_keys(self, keys: Iterable[object]) -> None:
        """Refuse keys whose hash would take long, or nest too deeply."""
        for key in keys:
            if isinstance(key, tuple | frozenset):
                self._check_key(key)

    def _check_key(self, key: object) -> None:
        level, nodes = [key], 0
        for _ in range(self.depth):
            nodes += len(level)
            held = (one for one in level if isinstance(one, tuple | frozenset))
            level = [inner for one in held for inner in one][:_NODES]
            if not level:
                return
            if nodes > _NODES:
                raise Refused("a key of more than a thousand parts")
        DEPTH.check(self.depth + 1, "levels of a key in the pickle")

    def spend(self, *copied: object) -> None:
        """Count what is copied into an object or passed to a function."""
        self.left -= sum(len(one) for one in copied if isinstance(one, list | dict | bytes | tuple))
        if self.left < 0:
            raise Refused("the same values many times over")


def _guarded(opcode: bytes, look: Callable[[Any], None]) -> None:
    """Look at the stack before an instruction is followed."""
    follow = _Base.dispatch[opcode[0]]

    def step(reader: Any) -> None:
        look(reader)
        follow(reader)

    _Reader.dispatch[opcode[0]] = step


def _spend_state(reader: Any) -> None:
    state = reader.stack[-1]
    reader.spend(state, state[-1] if isinstance(state, tuple) and state else None)


def _refused(reader: Any) -> None:
    raise Refused("something that no suite has")


_guarded(pickle.SETITEM, lambda reader: reader.check_keys(reader.stack[-2:-1]))
_guarded(pickle.SETITEMS, lambda reader: reader.check_keys(reader.stack[::2]))
_guarded(pickle.DICT, lambda reader: reader.check_keys(reader.stack[::2]))
for _code in (pickle.ADDITEMS, pickle.FROZENSET):
    _guarded(_code, lambda reader: reader.check_keys(reader.stack))
_guarded(pickle.REDUCE, lambda reader: reader.spend(reader.stack[-1]))
_guarded(pickle.BUILD, _spend_state)
# They make room for as many bytes as they are told, or name what others have registered.
for _code in (pickle.BYTEARRAY8, pickle.EXT1, pickle.EXT2, pickle.EXT4):
    _guarded(_code, _refused)


def load_inert(content: bytes) -> SuiteBag:
    """Return a pickled suite as plain values, bags and marks.

    Raises `TextError` if the pickle is damaged or names anything not known to be harmless.
    """
    try:
        found = _Reader(content).load()
    except LimitError:
        raise
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
