"""Arrays out of files that PyTorch has pickled, without unpickling them: a pickle is a program, and nobody's is run here.

The instructions are read one by one. What a pickle would call is written down with its arguments, never called; of what
is written down, only plain arrays and tensors of floats are made out, and anything else is refused.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from filters.vectors import save_array
from pools import store
from pools.errors import InputError

EXPECTED = "an array or a tensor of floats, or a map with one, as torch.save writes it"
_FLOATS = ("f2", "f4", "f8")
_STORAGES = {"HalfStorage": "<f2", "FloatStorage": "<f4", "DoubleStorage": "<f8"}
_RECONSTRUCT = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
_FROM_BUFFER = ("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer")  # from protocol 5 on
_REBUILD = "torch._utils._rebuild_tensor_v2"
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = {"PROTO", "FRAME"}
_MARK = object()


class Files(Protocol):
    """The numbers of tensors, which lie beside the pickle."""

    def __call__(self, key: str) -> bytes: ...


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle names."""

    path: str


@dataclass
class _Called:
    """A call that the pickle asks for, and the state that it gives to the result."""

    what: str
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass
class _Machine:
    """Reads instructions; raises ValueError for one that a file of arrays has no need of."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def read(self, code: bytes) -> Any:
        for instruction, argument, _ in pickletools.genops(code):
            name = instruction.name
            if name == "STOP":
                return self.stack.pop()
            self._do(name, argument)
        raise ValueError("the pickle has no end")

    def _do(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, attribute = argument.split(" ", 1) if name == "GLOBAL" else self._last(2)
            stack.append(_Name(f"{module}.{attribute}"))
        elif name in _TUPLES:
            stack.append(self._last(_TUPLES[name]))
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name == "TUPLE":
            stack.append(self._marked())
        elif name in ("SETITEM", "SETITEMS"):
            pairs = self._last(2) if name == "SETITEM" else self._marked()
            stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = self._last(2)
            stack.append(_Called(called.path, arguments))
        elif name in ("APPEND", "APPENDS"):
            items = self._last(1) if name == "APPEND" else self._marked()
            stack[-1].extend(items)
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].state = state
        elif name == "BINPERSID":
            stack.append(_Called("storage", stack.pop()))
        elif name not in _IGNORED:
            raise ValueError(f"instruction {name}")

    def _last(self, count: int) -> tuple[Any, ...]:
        taken = tuple(self.stack[-count:])
        del self.stack[-count:]
        return taken

    def _marked(self) -> tuple[Any, ...]:
        start = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        taken = tuple(self.stack[start + 1 :])
        del self.stack[start:]
        return taken


def read_array(path: str) -> NDArray[Any]:
    """The one array or tensor of floats in a file of torch.save's, or in a bare pickle. Raises InputError for anything else."""
    content = store.read_bytes(path)
    try:
        if not zipfile.is_zipfile(io.BytesIO(content)):
            return _only(_Machine().read(content), _no_files)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            (index,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
            folder = index.removesuffix("data.pkl")
            if folder + "byteorder" in archive.namelist() and archive.read(folder + "byteorder") != b"little":
                raise ValueError("numbers of a big-endian machine")
            return _only(_Machine().read(archive.read(index)), lambda key: archive.read(f"{folder}data/{key}"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, zipfile.BadZipFile) as e:
        # Of a pickle that is none, or does what one of arrays would not, whatever stands in the way is raised.
        raise InputError(f"not a file of numbers alone: {e}", where=path, expected=EXPECTED) from e


def is_module(path: str) -> bool:
    """Whether a file is a TorchScript archive: a network with its code, as OpenAI published CLIP."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def read_module(path: str) -> dict[str, NDArray[Any]]:
    """The tensors of floats in a TorchScript archive on this machine, by the names of a state dict; its code stays unread.

    Raises InputError for an archive that holds anything but modules of tensors and plain values.
    """
    found: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            (index,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
            folder = index.removesuffix("data.pkl")
            _collect(_Machine().read(archive.read(index)), "", lambda key: archive.read(f"{folder}data/{key}"), found)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, zipfile.BadZipFile) as e:
        raise InputError(f"not a network of tensors alone: {e}", where=path, expected="a TorchScript archive") from e
    return found


def _collect(module: _Called, prefix: str, files: Files, found: dict[str, NDArray[Any]]) -> None:
    for name, value in module.state.items():
        if not isinstance(value, _Called):
            continue
        if value.what == _REBUILD:
            if value.arguments[0].arguments[1].path.removeprefix("torch.") in _STORAGES:
                found[prefix + name] = _tensor(value, files)
        elif isinstance(value.state, Mapping):
            _collect(value, f"{prefix}{name}.", files, found)


def convert(sources: Sequence[str], output: str) -> tuple[tuple[int, ...], str]:
    """Writes the arrays of some files, one behind the other, as a `.npy`; returns its shape and type. Raises InputError."""
    if not output.endswith(".npy"):
        raise InputError(f"{output}", expected="OUTPUT.npy as the last of the files")
    arrays = [read_array(path) for path in sources]
    for path, array in zip(sources, arrays, strict=True):
        if array.ndim != 2 or array.shape[1] != arrays[0].shape[1]:
            raise InputError(
                f"shape {array.shape}, of {sources[0]} {arrays[0].shape}", where=path, expected="rows of one length"
            )
        if not np.isfinite(array).all():
            raise InputError("numbers that are not finite", where=path, expected="finite ones")
    array = np.concatenate(arrays)
    save_array(output, array)
    return array.shape, str(array.dtype)


def _no_files(key: str) -> bytes:
    raise ValueError("a tensor outside of an archive")


def _only(value: Any, files: Files) -> NDArray[Any]:
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ValueError(f"a map of {len(value)} things")
        (value,) = value.values()
    if isinstance(value, _Called) and value.what in _RECONSTRUCT:
        _, shape, kind, by_columns, octets = value.state  # the first is a version
        return _array(octets, kind, shape, "F" if by_columns else "C")
    if isinstance(value, _Called) and value.what in _FROM_BUFFER:
        return _array(*value.arguments)
    if isinstance(value, _Called) and value.what == _REBUILD:
        return _tensor(value, files)
    raise ValueError(f"a call of {value.what}" if isinstance(value, _Called) else f"a {type(value).__name__}")


def _array(octets: Any, kind: _Called, shape: tuple[int, ...], order: Literal["C", "F"]) -> NDArray[Any]:
    """An array of the bytes, the type, the shape and the order that numpy pickles."""
    if kind.what != "numpy.dtype" or kind.arguments[0] not in _FLOATS or kind.state[1] not in ("<", "="):
        raise ValueError(f"numbers of type {kind.arguments[0]!r}")
    if isinstance(octets, _Called):
        # Protocols below 3 have no bytes: they are text in which each character is a byte.
        if octets.what != "_codecs.encode":
            raise ValueError(f"a call of {octets.what}")
        octets = octets.arguments[0].encode("latin-1")
    return np.frombuffer(octets, "<" + kind.arguments[0]).reshape(shape, order=order)


def _tensor(called: _Called, files: Files) -> NDArray[Any]:
    """A tensor: a stretch of a storage with its shape and steps, which must be those of rows one behind the other."""
    storage, offset, shape, steps = called.arguments[:4]
    _, kind, key, _, _ = storage.arguments
    values = np.frombuffer(files(key), _STORAGES[kind.path.removeprefix("torch.")])
    size = math.prod(shape)
    if tuple(steps) != tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))) or not 0 <= offset <= len(values) - size:
        raise ValueError(f"a tensor of shape {shape} in steps of {steps} from {offset} on, of {len(values)} numbers")
    return values[offset : offset + size].reshape(shape)
