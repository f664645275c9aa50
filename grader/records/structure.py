"""Nouns from plain data that a stranger may have written: nothing comes in but what the noun declares."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def made(noun: type[T], given: Mapping[str, Any]) -> T:
    """A noun from its fields. Raises TypeError unless each has the type that the noun declares."""
    plain_noun: Any = noun  # mypy does not know that a class can be hashed
    hints = _hints(plain_noun)
    for name, value in given.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(f"{noun.__name__}.{name} is a {type(value).__name__}")
    return noun(**given)


@functools.cache
def _hints(noun: Any) -> Mapping[str, Any]:
    return get_type_hints(noun)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has a declared type; an int may stand for a float, as in Python."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint if hint in (int, bool, str) else isinstance(value, hint)


def exactly(kind: type[T], value: Any) -> T:
    """`value`, if it is of just this type. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value
