"""How values cross from a rank to the judge: as data only.

A frame is one value: a JSON header and the raw bytes of its tensors. Nothing is unpickled, types are exact
(a subclass is refused, so nothing that lies about itself crosses), non-finite floats are explicit, sizes are capped.

    4 bytes  length of the header, big endian
    header   JSON: {"value": ..., "blobs": [length, ...]}
    blobs    one after the other

Inside the header an object with the single key "$…" stands for what JSON lacks:
{"$float": "nan"}, {"$bytes": 0}, {"$tensor": [0, "float64", [2, 3]]}, {"$map": [[key, value], ...]}.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grader.errors import WireError

if TYPE_CHECKING:
    import torch

MAX_FRAME = 256 * 2**20
"""Largest frame in bytes."""

MAX_DEPTH = 64
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_REAL = ("float64", "float32", "float16", "bfloat16", "bool")
_WHOLE = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
_DTYPES = frozenset((*_REAL, *_WHOLE, "complex64", "complex128"))


def encode(value: Any) -> bytes:
    """Bytes of one value. Raises WireError where a type may not cross."""
    blobs: list[bytes] = []
    tree = _pack(value, blobs, 0)
    header = json.dumps({"value": tree, "blobs": [len(blob) for blob in blobs]}, allow_nan=False).encode()
    frame = b"".join((struct.pack(">I", len(header)), header, *blobs))
    if len(frame) > MAX_FRAME:
        raise WireError(f"a value of {len(frame)} bytes is larger than the {MAX_FRAME} that may cross")
    return frame


def decode(frame: bytes | bytearray | memoryview) -> Any:
    """The value of one frame. Raises WireError where the bytes are not one, whatever they are."""
    view = memoryview(frame)
    try:
        (length,) = struct.unpack_from(">I", view)
        header = json.loads(bytes(view[4 : 4 + length]).decode())
        blobs = list(_cut(view[4 + length :], header["blobs"]))
        return _unpack(header["value"], blobs, 0)
    except WireError:
        raise
    except (struct.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise WireError(f"a malformed frame of {len(view)} bytes: {type(error).__name__}") from None


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
    if value is None or kind in (bool, int):
        return value
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


def _pack_float(value: float) -> Any:
    if value != value:
        return {"$float": "nan"}
    return value if abs(value) != float("inf") else {"$float": "inf" if value > 0 else "-inf"}


def _pack_dict(value: dict[Any, Any], blobs: list[bytes], depth: int) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _pack(item, blobs, depth + 1) for key, item in value.items()}
    return {"$map": [[_pack(key, blobs, depth + 1), _pack(item, blobs, depth + 1)] for key, item in value.items()]}


def _pack_tensor(value: Any, blobs: list[bytes]) -> Any:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise WireError(f"a {type(value).__module__}.{type(value).__qualname__} may not cross")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _DTYPES or value.layout is not torch.strided:
        raise WireError(f"a tensor of dtype {dtype} and layout {value.layout} may not cross")
    tensor = torch.Tensor.detach(value).cpu().contiguous().resolve_conj().resolve_neg()
    blobs.append(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return {"$tensor": [len(blobs) - 1, dtype, list(tensor.shape)]}


def _unpack(tree: Any, blobs: list[memoryview], depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise WireError("a frame nested too deep")
    if type(tree) is list:
        return [_unpack(item, blobs, depth + 1) for item in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1 and (key := next(iter(tree))).startswith("$"):
        return _unpack_special(key, tree[key], blobs, depth)
    return {key: _unpack(item, blobs, depth + 1) for key, item in tree.items()}


def _unpack_special(key: str, content: Any, blobs: list[memoryview], depth: int) -> Any:
    if key == "$float":
        return _FLOATS[content]
    if key == "$bytes":
        return bytes(blobs[content])
    if key == "$map":
        pairs = [(_unpack(k, blobs, depth + 1), _unpack(v, blobs, depth + 1)) for k, v in content]
        return dict(pairs)
    if key == "$tensor":
        return _unpack_tensor(content, blobs)
    raise WireError(f"a frame with the unknown mark {key!r}")


def _unpack_tensor(content: Any, blobs: list[memoryview]) -> torch.Tensor:
    import torch

    index, dtype_name, shape = content
    if dtype_name not in _DTYPES or not all(type(size) is int and size >= 0 for size in shape):
        raise WireError("a frame with an impossible tensor")
    dtype: torch.dtype = getattr(torch, dtype_name)
    numel = 1
    for size in shape:
        numel *= size
    if numel * dtype.itemsize != len(blobs[index]):
        raise WireError("a frame whose tensor does not have the bytes of its shape")
    if not numel:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(blobs[index]), dtype=dtype).reshape(shape)
