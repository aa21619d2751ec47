"""ONNX models that were saved for one size of picture, made to take any.

A file is a protobuf message (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto): fields of a number and a value, whose
own fields are messages again. Shapes are freed in the few that state those of inputs and outputs; all else stays as it is.
OpenCV would take any size too, but of CenterFace its answer depends on the sizes that it has seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pools.errors import InputError

# Numbers of fields, from a model to the shape of an input or output.
_GRAPH, _INPUT, _OUTPUT, _TYPE, _TENSOR, _SHAPE = 7, 11, 12, 2, 1, 2
_DIMENSION, _NAMED = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Field = tuple[int, int, bytes, bytes]  # number, kind, value, and all with the number before it


def freed(model: bytes, *, where: str) -> bytes:
    """The model with inputs of any height, width and number, and outputs of whatever shape. Raises InputError for no model."""
    try:
        model = _changed(model, (_GRAPH, _INPUT, _TYPE, _TENSOR, _SHAPE), _any_sizes)
        return _changed(model, (_GRAPH, _OUTPUT, _TYPE, _TENSOR), _without_shape)
    except (IndexError, ValueError) as e:
        raise InputError("cannot be read", where=where, expected="a model in ONNX") from e


def _changed(message: bytes, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """A message in which the messages at the end of a path of fields are changed."""
    if not path:
        return change(message)
    fields = []
    for number, kind, value, whole in _fields(message):
        found = number == path[0] and kind == _BYTES
        fields.append(_field(number, _changed(value, path[1:], change)) if found else whole)
    return b"".join(fields)


def _any_sizes(shape: bytes) -> bytes:
    """A shape whose dimensions have names instead of numbers, all but the channels."""
    dimensions = [whole for *_, whole in _fields(shape)]
    named = [_field(_DIMENSION, _field(_NAMED, f"size_{i}".encode())) for i in range(len(dimensions))]
    return b"".join(whole if i == 1 else name for i, (whole, name) in enumerate(zip(dimensions, named, strict=True)))


def _without_shape(tensor: bytes) -> bytes:
    return b"".join(whole for number, _, _, whole in _fields(tensor) if number != _SHAPE)


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            _, end = _varint(message, at)
        elif kind == _BYTES:
            length, at = _varint(message, at)
            end = at + length
        elif kind in (_FIXED32, _FIXED64):
            end = at + (4 if kind == _FIXED32 else 8)
        else:
            raise ValueError(f"a field of kind {kind}")
        if end > len(message):
            raise ValueError("a field that is cut")
        yield key >> 3, kind, message[at:end], message[start:end]
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where the next field begins."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _field(number: int, value: bytes) -> bytes:
    return _written(number << 3 | _BYTES) + _written(len(value)) + value


def _written(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
