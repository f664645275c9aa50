"""Any value that may cross the wire."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from grader.records import wire

NUMBERS = st.integers(1 - wire.MAX_KEY, wire.MAX_KEY - 1) | st.floats(-1e15, 1e15)
KEYS = st.text(max_size=4) | NUMBERS | st.booleans() | st.none() | st.binary(max_size=3)
DTYPES = st.sampled_from(sorted(wire.DTYPES))
SHAPES = st.lists(st.integers(0, 3), max_size=4)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any dtype, shape and bits, NaN payloads among them."""
    dtype, shape = getattr(torch, draw(DTYPES)), draw(SHAPES)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return torch.empty(shape, dtype=dtype)
    data = bytearray(draw(st.binary(min_size=size, max_size=size)))
    data = bytearray(byte % 2 for byte in data) if dtype is torch.bool else data
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


ALLOWED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20) | tensors(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
