"""Two nested values walked side by side: their leaves in pairs, and the faults where one has no partner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grader.checks.compare.question import Fault, Pair, Path
from grader.checks.compare.text import is_flat, is_list, is_tensor, items_text, kind_of, kind_text, short
from grader.model import Value

if TYPE_CHECKING:
    import torch


def walk(actual: Value, expected: Value, path: Path) -> Iterator[Pair | Fault]:
    """All leaves of `expected` with their partners, and a fault wherever there is none."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _key_faults(actual, expected, path)
        for key in expected:
            if key in actual:
                yield from walk(actual[key], expected[key], (*path, key))
    elif is_list(expected) and is_list(actual) and not is_flat(expected):
        if len(actual) != len(expected):
            yield Fault(path, items_text(len(expected)), str(len(actual)))
        for index, pair in enumerate(zip(actual, expected, strict=False)):
            yield from walk(*pair, (*path, index))
    else:
        yield leaf_fault(actual, expected, path) or Pair(path, actual, expected)


def _key_faults(actual: Mapping[Any, Value], expected: Mapping[Any, Value], path: Path) -> Iterator[Fault]:
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing and [_without_prefix(key) for key in extra] == missing:
        yield Fault(path, f"keys such as {short(missing[0])}", f"{short(extra[0])}: a wrapper's prefix 'module.'")
        return
    if missing:
        yield Fault(path, _listed(missing, "key"), f"{'none of them' if len(missing) > 1 else 'no such key'}")
    if extra:
        yield Fault(path, "no further keys", _listed(extra, "key"))


def _without_prefix(key: Any) -> Any:
    return key.removeprefix("module.") if isinstance(key, str) else key


def _listed(keys: Sequence[Any], noun: str) -> str:
    shown = ", ".join(short(key) for key in keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"the {noun}{'s' if len(keys) > 1 else ''} {shown}{more}"


def leaf_fault(actual: Value, expected: Value, path: Path) -> Fault | None:
    """How two leaves differ in kind, shape or dtype; None where they can be compared."""
    if not is_tensor(actual) or not is_tensor(expected):
        same = kind_of(actual) == kind_of(expected) or _stands_for_float(actual, expected)
        return None if same else Fault(path, kind_text(expected), kind_text(actual))
    if actual.shape != expected.shape:
        return Fault(path, f"shape {tuple(expected.shape)}", f"{tuple(actual.shape)}{_shape_clause(actual, expected)}")
    if actual.dtype != expected.dtype:
        return Fault(path, f"dtype {_dtype_name(expected)}", _dtype_name(actual))
    return None


def _stands_for_float(actual: Value, expected: Value) -> bool:
    return type(expected) is float and type(actual) is int and abs(actual) < 2**53


def _shape_clause(actual: torch.Tensor, expected: torch.Tensor) -> str:
    if actual.dim() == 2 and tuple(actual.shape) == tuple(expected.shape)[::-1]:
        return ": it is transposed"
    if actual.numel() == expected.numel():
        return ": as many elements in another shape"
    return ""


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
