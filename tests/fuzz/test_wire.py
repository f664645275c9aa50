"""Any bytes on the wire give a value or an error of ours, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import struct
import tracemalloc

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from grader.model.errors import WireError
from grader.records import wire
from tests.fuzz.values import ALLOWED
from tests.fuzzing import JSON, damaged, fuzz, mutated

MEGABYTE = 2**20
FRAME = wire.encode({"a": [1.5, None, b"xy", torch.ones(2, 3)], 3: "…", "$x": float("nan")})
HEADERS = mutated(
    {
        "value": {"a": [{"$float": "nan"}, {"$bytes": 0}, {"$map": [[1, {"$tensor": [1, "float64", [2, 1]]}]]}]},
        "blobs": [3, 16],
    },
    JSON | st.sampled_from([{"$bytes": 1}, {"$tensor": [1, "bool", [16]]}, {"$map": [[[], 1]]}, [0, 2**62, 2**62]]),
)


def framed(header: object, blobs: bytes = b"", allow_nan: bool = True) -> bytes:
    text = json.dumps(header, allow_nan=allow_nan).encode()
    return struct.pack(">I", len(text)) + text + blobs


def same(left: object, right: object) -> bool:
    """Equal in type, structure and bits; NaN is the same as NaN."""
    if isinstance(left, torch.Tensor):
        raw = [t.reshape(-1).view(torch.uint8) if t.numel() else t for t in (left, right)]
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*raw)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True) if len(left) == len(right) else ((0, 1),)
        return all(same(list(one), list(other)) for one, other in pairs)
    return left == right or (left != left and right != right)


def decoded(frame: bytes) -> object:
    with contextlib.suppress(WireError):
        return wire.decode(frame)
    return None


@fuzz(200)
@given(ALLOWED)
def test_every_value_that_may_cross_comes_back_the_same(value: object) -> None:
    """Types, order, keys, bits of tensors and NaN payloads."""
    assert same(wire.decode(wire.encode(value)), value)


@fuzz(200)
@given(st.binary(max_size=300) | damaged(FRAME, (b"[" * 50, b'"$bytes"', b"1e999", b"NaN", b"\\ud800")))
def test_bytes_give_a_value_or_a_wire_error(frame: bytes) -> None:
    """What comes out can be sent on: nothing odd is let in."""
    wire.encode(decoded(frame))


@fuzz(300)
@given(HEADERS, st.sampled_from([b"", b"abc" + b"\1" * 16, b"x" * 19]))
@example({"value": {"$tensor": [0, "float64", [0, 2**62, 2**62]]}, "blobs": [0]}, b"")
@example({"value": {"$tensor": [0, "float64", [1] * 5000]}, "blobs": [8]}, b"12345678")
@example({"value": "\ud800", "blobs": []}, b"")
@example({"value": {"\ud800": 1}, "blobs": []}, b"")
@example({"value": 10**400, "blobs": []}, b"")
@example({"value": {"$map": [[{"$tensor": [0, "bool", [1]]}, 1]]}, "blobs": [1]}, b"\1")
@example({"value": float("nan"), "blobs": []}, b"")
def test_forged_headers_give_a_value_or_a_wire_error(header: object, blobs: bytes) -> None:
    """Marks in wrong places, impossible shapes, huge numbers, half a surrogate pair."""
    wire.encode(decoded(framed(header, blobs)))


@pytest.mark.parametrize(
    "header",
    [
        {"value": [{"$bytes": 0}] * 1000, "blobs": [MEGABYTE]},
        {"value": [{"$tensor": [0, "uint8", [MEGABYTE]]}] * 1000, "blobs": [MEGABYTE]},
        {"value": [], "blobs": [MEGABYTE]},
        {"value": [{"$bytes": 1}, {"$bytes": 0}], "blobs": [0, MEGABYTE]},
    ],
    ids=["one blob named often", "one tensor named often", "a blob that is not named", "blobs out of order"],
)
def test_a_frame_cannot_unpack_to_more_than_it_holds(header: object) -> None:
    """One megabyte stays one, though the header names it a thousand times."""
    frame = framed(header, bytes(MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            wire.decode(frame)
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_what_is_too_large_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers, frames, dimensions and integers, whoever made them."""
    large, blob = wire.encode("x" * 2000), wire.encode(b"x" * 2000)
    monkeypatch.setattr(wire, "MAX_HEADER", 1000)
    monkeypatch.setattr(wire, "MAX_FRAME", 1500)
    for frame in (large, blob):
        with pytest.raises(WireError, match="may cross"):
            wire.decode(frame)
    for value in ("x" * 2000, b"x" * 2000, torch.ones([1] * 65), torch.ones(1).expand(10**9), 1 << 1001, {(1,): 2}):
        with pytest.raises(WireError, match=r"may (not )?cross"):
            wire.encode(value)
    with pytest.raises(WireError, match="may not cross"):
        wire.encode(torch.empty(3, device="meta"))
