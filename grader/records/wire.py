"""How values cross from a rank to the judge: as data only.

A frame is one value: a JSON header and the raw bytes of its tensors. Nothing is unpickled, types are exact
(a subclass is refused, so nothing that lies about itself crosses), non-finite floats are explicit, sizes are capped.

    4 bytes  length of the header, big endian
    header   JSON: {"value": ..., "blobs": [length, ...]}
    blobs    one after the other

Inside the header an object with the single key "$…" stands for what JSON lacks:
{"$float": "nan"}, {"$bytes": 0}, {"$tensor": [0, "float64", [2, 3]]}, {"$map": [[key, value], ...]}.
Every blob is named once, in order: a frame whose header names one blob a thousand times would unpack to a thousand
times its size.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grader.model.errors import WireError

if TYPE_CHECKING:
    import torch

MAX_FRAME = 256 * 2**20
"""Largest frame in bytes."""

MAX_HEADER = 32 * 2**20
"""Largest header in bytes. As Python objects it takes up to thirty times as much."""
MAX_DEPTH = 64
MAX_DIMENSIONS = 64
MAX_KEY = 2**53
MAX_BITS = 1000
"""Widest integer: one that a float can hold, so that arithmetic on it never overflows."""
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_REAL = ("float64", "float32", "float16", "bfloat16", "bool")
_WHOLE = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
_KEYS = (str, int, float, bool, bytes, type(None))
DTYPES = frozenset((*_REAL, *_WHOLE, "complex64", "complex128"))


def encode(value: Any) -> bytes:
    """Bytes of one value. Raises WireError where a type may not cross."""
    blobs: list[bytes] = []
    tree = _pack(value, blobs, 0)
    header = json.dumps({"value": tree, "blobs": [len(blob) for blob in blobs]}, allow_nan=False).encode()
    if len(header) > MAX_HEADER:
        raise WireError(f"a value whose plain part takes {len(header)} bytes; {MAX_HEADER} may cross")
    frame = b"".join((struct.pack(">I", len(header)), header, *blobs))
    if len(frame) > MAX_FRAME:
        raise WireError(f"a value of {len(frame)} bytes is larger than the {MAX_FRAME} that may cross")
    return frame


def count(text: bytes) -> int:
    """About how many values a JSON text holds, without reading it."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def cost(frame: bytes) -> int:
    """About how many bytes a frame takes as Python objects, at most, without reading it. A table with one entry takes
    230 of them, and one wide letter makes a whole text four times as large."""
    (length,) = struct.unpack(">I", frame[:4]) if len(frame) >= 4 else (0,)
    header = frame[4 : 4 + length]
    return len(frame) + 8 * len(header) + 128 * count(header)


def decode(frame: bytes | bytearray | memoryview) -> Any:
    """The value of one frame. Raises WireError where the bytes are not one, whatever they are."""
    view = memoryview(frame)
    try:
        return _decoded(view)
    except WireError:
        raise
    except (struct.error, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError) as error:
        # RuntimeError is torch's for a shape that no tensor can have, and Python's for a tree that is too deep.
        raise WireError(f"a malformed frame of {len(view)} bytes: {type(error).__name__}") from None


def _decoded(view: memoryview) -> Any:
    (length,) = struct.unpack_from(">I", view)
    if len(view) > MAX_FRAME or length > MAX_HEADER:
        raise WireError(f"a frame of {len(view)} bytes is larger than what may cross")
    header = json.loads(bytes(view[4 : 4 + length]).decode(), parse_constant=_no_constant)
    blobs = Blobs(list(_cut(view[4 + length :], header["blobs"])))
    value = _unpack(header["value"], blobs, 0)
    blobs.require_all_taken()
    return value


def _no_constant(name: str) -> None:
    raise WireError(f"a frame with a bare {name}")


class Blobs:
    """The raw parts of a frame. Each is taken once, in order."""

    def __init__(self, parts: list[memoryview]) -> None:
        self._parts, self._next = parts, 0

    def take(self, index: Any) -> memoryview:
        if type(index) is not int or index != self._next or index >= len(self._parts):
            raise WireError("a frame that does not name its parts once each, in order")
        self._next += 1
        return self._parts[index]

    def require_all_taken(self) -> None:
        if self._next != len(self._parts):
            raise WireError("a frame with a part that it does not name")


def _cut(view: memoryview, lengths: list[int]) -> Iterator[memoryview]:
    start = 0
    for length in lengths:
        if type(length) is not int or length < 0 or start + length > len(view):
            raise WireError("a frame whose parts are longer than it is")
        yield view[start : start + length]
        start += length
    if start != len(view):
        raise WireError("a frame that is longer than its parts")


def _pack(value: Any, blobs: list[bytes], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise WireError(f"a value nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return _pack_int(value)
    if kind is str:
        return value.encode("utf-8", "replace").decode()
    if kind is float:
        return _pack_float(value)
    if kind in (list, tuple):
        return [_pack(item, blobs, depth + 1) for item in value]
    if kind is dict:
        return _pack_dict(value, blobs, depth)
    if kind is bytes:
        blobs.append(value)
        return {"$bytes": len(blobs) - 1}
    return _pack_tensor(value, blobs)


def _pack_int(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise WireError(f"an integer of {value.bit_length()} bits may not cross")
    return value


def _pack_float(value: float) -> Any:
    if value != value:
        return {"$float": "nan"}
    return value if abs(value) != float("inf") else {"$float": "inf" if value > 0 else "-inf"}


def _pack_dict(value: dict[Any, Any], blobs: list[bytes], depth: int) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {_pack(key, blobs, depth): _pack(item, blobs, depth + 1) for key, item in value.items()}
    return {"$map": [[_pack_key(key, blobs, depth), _pack(item, blobs, depth + 1)] for key, item in value.items()]}


def _pack_key(key: Any, blobs: list[bytes], depth: int) -> Any:
    large = type(key) in (int, float) and abs(key) >= MAX_KEY  # thousands of such can be made to hash alike
    if type(key) not in _KEYS or large:
        raise WireError(f"a dict's key that is a {type(key).__qualname__} may not cross")
    return _pack(key, blobs, depth + 1)


def _pack_tensor(value: Any, blobs: list[bytes]) -> Any:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise WireError(f"a {type(value).__module__}.{type(value).__qualname__} may not cross")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPES or value.layout is not torch.strided:
        raise WireError(f"a tensor of dtype {dtype} and layout {value.layout} may not cross")
    if value.is_meta or value.dim() > MAX_DIMENSIONS or value.numel() * value.element_size() > MAX_FRAME:
        raise WireError(f"a tensor of shape {list(value.shape)} on device {value.device} may not cross")
    tensor = torch.Tensor.detach(value).cpu().contiguous().resolve_conj().resolve_neg()
    blobs.append(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return {"$tensor": [len(blobs) - 1, dtype, list(tensor.shape)]}


def _unpack(tree: Any, blobs: Blobs, depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise WireError("a frame nested too deep")
    if type(tree) is list:
        return [_unpack(item, blobs, depth + 1) for item in tree]
    if type(tree) is not dict:
        return _scalar(tree)
    if len(tree) == 1 and (key := next(iter(tree))).startswith("$"):
        return _unpack_special(key, tree[key], blobs, depth)
    return {_scalar(key): _unpack(item, blobs, depth + 1) for key, item in tree.items()}


def _scalar(value: Any) -> Any:
    """A value that is no container. Half a surrogate pair is no text: nothing that is written later could hold it."""
    if type(value) is str:
        value.encode()
    elif type(value) is int:
        _pack_int(value)
    elif type(value) is float and abs(value) == float("inf"):
        raise WireError("a frame with a number that is too large")
    return value


def _unpack_special(key: str, content: Any, blobs: Blobs, depth: int) -> Any:
    if key == "$float":
        return _FLOATS[content]
    if key == "$bytes":
        return bytes(blobs.take(content))
    if key == "$map":
        return {_unpack_key(k, blobs, depth): _unpack(v, blobs, depth + 1) for k, v in content}
    if key == "$tensor":
        return _unpack_tensor(content, blobs)
    raise WireError(f"a frame with the unknown mark {key!r}")


def _unpack_key(tree: Any, blobs: Blobs, depth: int) -> Any:
    key = _unpack(tree, blobs, depth + 1)
    large = type(key) in (int, float) and abs(key) >= MAX_KEY  # thousands of such can be made to hash alike
    if type(key) not in _KEYS or large:
        raise WireError("a frame with a dict's key that is none")
    return key


def _unpack_tensor(content: Any, blobs: Blobs) -> torch.Tensor:
    import torch

    index, dtype_name, shape = content
    if dtype_name not in DTYPES or not _is_shape(shape):
        raise WireError("a frame with an impossible tensor")
    dtype: torch.dtype = getattr(torch, dtype_name)
    blob = blobs.take(index)
    numel = math.prod(shape)
    if numel * dtype.itemsize != len(blob):
        raise WireError("a frame whose tensor does not have the bytes of its shape")
    if not numel:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(blob), dtype=dtype).reshape(shape)


def _is_shape(shape: Any) -> bool:
    return (
        type(shape) is list
        and len(shape) <= MAX_DIMENSIONS
        and all(type(size) is int and 0 <= size < 2**63 for size in shape)
    )
