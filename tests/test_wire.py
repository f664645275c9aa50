"""grader.records.wire: what goes in comes out, and bytes of any kind give a value or a WireError."""

from __future__ import annotations

import contextlib
import json
import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.model.errors import WireError
from grader.records import wire
from grader.records.wire import MAX_KEY

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(1 - MAX_KEY, MAX_KEY - 1), inner, max_size=4)
    ),
    max_leaves=12,
)
DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@given(PLAIN)
def test_plain_values_come_back_equal(value: object) -> None:
    """Infinities, bytes, dicts with keys that are no strings or that look like marks, all included."""
    assert wire.decode(wire.encode(value)) == value


@given(st.dictionaries(st.sampled_from(["$float", "$tensor", "$map", "$x"]), st.integers(), min_size=1))
def test_a_students_dict_cannot_pose_as_a_mark(value: dict[str, int]) -> None:
    """Keys that begin with $ travel as data."""
    assert wire.decode(wire.encode(value)) == value


def test_nan_is_explicit() -> None:
    """JSON's own NaN is never written."""
    frame = wire.encode([float("nan")])
    assert b"NaN" not in frame and math.isnan(wire.decode(frame)[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_tensors_keep_dtype_shape_and_bits(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Whatever the strides, and with NaN bit patterns."""
    tensor = (torch.randn(shape) * 3).to(dtype)
    tensor = tensor.t() if len(shape) == 2 and 0 not in shape else tensor
    back = wire.decode(wire.encode({"t": tensor}))["t"]
    assert back.dtype == dtype and back.shape == tensor.shape
    assert torch.equal(bits(back), bits(tensor))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0)


def test_parameters_cross_as_tensors() -> None:
    """A Parameter is data like any tensor; what comes back requires no gradient."""
    back = wire.decode(wire.encode(torch.nn.Parameter(torch.ones(2))))
    assert type(back) is torch.Tensor and not back.requires_grad


class Lying(torch.Tensor):
    """A subclass that could answer comparisons as it likes."""


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        print,
        torch.ones(2).as_subclass(Lying),
        type("Str", (str,), {})("x"),
        torch.ones(2).to_sparse(),
    ],
    ids=["object", "set", "function", "tensor subclass", "str subclass", "sparse"],
)
def test_other_types_are_refused(value: object) -> None:
    """Exact types only: nothing that may lie about itself crosses."""
    with pytest.raises(WireError, match="may not cross"):
        wire.encode(value)


def test_deep_nesting_is_refused() -> None:
    """On both sides."""
    value: list[object] = []
    for _ in range(200):
        value = [value]
    with pytest.raises(WireError, match="nested"):
        wire.encode(value)
    header = json.dumps({"value": value, "blobs": []}).encode()
    with pytest.raises(WireError, match="nested"):
        wire.decode(struct.pack(">I", len(header)) + header)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_wire_error_or_a_value(data: bytes) -> None:
    """Never another exception."""
    with contextlib.suppress(WireError):
        wire.decode(data)


@settings(max_examples=300)
@given(PLAIN, st.data())
def test_a_damaged_frame_gives_a_wire_error_or_a_value(value: object, data: st.DataObject) -> None:
    """One byte is changed, or the end is cut."""
    frame = bytearray(wire.encode([value, torch.ones(2)]))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        wire.decode(frame[: data.draw(st.integers(0, len(frame)))])


@pytest.mark.parametrize(
    "header",
    [
        {"value": {"$tensor": [0, "float64", [2]]}, "blobs": [3]},
        {"value": {"$tensor": [0, "object", [1]]}, "blobs": [8]},
        {"value": {"$tensor": [0, "float64", [-1]]}, "blobs": [8]},
        {"value": {"$tensor": [5, "float64", [1]]}, "blobs": [8]},
        {"value": {"$what": 1}, "blobs": []},
        {"value": {"$map": [[[], 1]]}, "blobs": []},
        {"value": 1, "blobs": [-1]},
        {"value": 1, "blobs": [99]},
        {"value": 1},
        [],
    ],
)
def test_forged_headers_give_a_wire_error(header: object) -> None:
    """Wrong sizes, dtypes, shapes, indices and marks."""
    text = json.dumps(header).encode()
    with pytest.raises(WireError):
        wire.decode(struct.pack(">I", len(text)) + text + b"12345678"[: 8 if "8" in str(header) else 3])
