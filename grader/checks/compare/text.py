"""Of what kind a value is, and values in print: short, whatever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import Repr

from grader.model import Value


def is_tensor(value: Value) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def is_list(value: Value) -> bool:
    return isinstance(value, list | tuple)


def is_flat(value: Sequence[Value]) -> bool:
    """Whether a list holds only scalars, so that it is compared as one sequence."""
    import torch

    return not any(issubclass(kind, list | tuple | Mapping | torch.Tensor) for kind in set(map(type, value)))


def is_numeric(value: Value) -> bool:
    """A tensor, a float, or a list of floats, which is judged as one tensor."""
    return is_tensor(value) or type(value) in (float, complex) or (is_list(value) and set(map(type, value)) == {float})


def kind_of(value: Value) -> str:
    """The name of a kind: one for all tensors, all mappings, and lists and tuples; else the type's own."""
    if is_tensor(value):
        return "tensor"
    if isinstance(value, Mapping):
        return "dict"
    return "list" if is_list(value) else type(value).__name__


LONGEST = 70
"""How many characters of a value are shown."""

_REPR = Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = LONGEST


def short(value: Value) -> str:
    """A repr of at most about LONGEST characters, whatever the value."""
    if type(value) is int and value.bit_length() > 4 * LONGEST:
        return f"an integer of {value.bit_length()} bits"
    if is_tensor(value):
        return kind_text(value)
    text = _REPR.repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def whole_text(items: Sequence[Value]) -> str:
    """The full repr of a flat list where it is short, else nothing."""
    if len(items) > LONGEST // 3 or any(type(item) not in (bool, int, float, str, type(None)) for item in items):
        return ""
    texts = [short(item) for item in items]
    return f"[{', '.join(texts)}]" if sum(map(len, texts)) + 2 * len(texts) <= LONGEST else ""


def kind_text(value: Value) -> str:
    """What a value is, such as “a tensor of shape (2, 3)”, “a list of 4 items” or “True (bool)”."""
    kind = kind_of(value)
    if value is None:
        return "None"
    if kind == "tensor":
        return f"a tensor of shape {tuple(value.shape)}"
    if kind in ("dict", "list"):
        return f"a {kind} of {items_text(len(value))}"
    return f"{short(value)} ({kind})"


def items_text(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
