"""What kind of value a leaf is, as far as comparing is concerned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
