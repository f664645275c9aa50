"""Dataclasses to plain data and back: one place for all that crosses a boundary (ranks, journals, files).

`unstructure` gives dicts, lists and plain values. `structure` reads what a stranger may have written: it follows the
type hints of the fields, those of the values inside them too, and nothing comes in but what they declare. So a new
field of a noun is declared in `grader.model` and nowhere else; one with a default may be absent, as in older files.

    data = unstructure(run)             # {"case": {…}, "ranks": [{"rank": 0, "ending": {"kind": "finished", …}, …}], …}
    structure(Run, data) == run
    structure(Ending, {"kind": "exited", "code": "0", "how": "os._exit"})       # Exited(code='0', how='os._exit', …)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, EnumMeta
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from grader.model import Deadlocked, Ending, Exited, Finished, Killed, Raised, TimedOut, budgets
from grader.model.trace import Trace

T = TypeVar("T")
Reader = Callable[[Any], Any]

ENDINGS: Mapping[Any, type[Ending]] = {
    ending.kind: ending for ending in (Finished, Raised, Exited, Killed, Deadlocked, TimedOut)
}
"""The classes that a dict's `kind` tells apart where the hint says `Ending`."""

REFUSALS = (LookupError, TypeError, ValueError)
"""What `structure` raises for data that do not fit."""

MAX_INTEGER = 2**63
MAX_TEXT = 200


def structure(noun: type[T], raw: Any) -> T:
    """`raw` as a `noun`: types are exact (True is no int), but an int may stand for a float, and a value that is a
    dataclass already for itself. Numbers are finite and fit into 64 bits, and texts can be written. Raises one of
    REFUSALS for anything else."""
    plain_noun: Any = noun  # mypy does not know that a class can be hashed
    return cast(T, _reader(plain_noun)(raw))


def unstructure(value: Any) -> Any:
    """A dataclass as plain data, its fields in the order of their declaration. Values that are no nouns stay."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [unstructure(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    if not is_dataclass(value):
        return value
    plain = {field.name: unstructure(getattr(value, field.name)) for field in fields(value)}
    return {"kind": value.kind, **plain} if isinstance(value, Ending) else plain


def trace_of(raw: Any) -> Trace | None:
    """The trace that plain data describe. None for data that describe none, such as forged data, or longer ones than
    the tracer makes."""
    try:
        if raw is not None and max(len(raw["communications"]), len(raw["spans"])) > budgets.EVENTS:
            return None
        trace = structure(Trace, raw)
    except REFUSALS:
        return None
    texts = [text for event in trace.communications for text in (event.operation, event.dtype)]
    texts += [text for span in trace.spans for text in (span.kind, span.name)]
    groups = (len(event.group) for event in trace.communications)
    return trace if max([*map(len, texts), *groups], default=0) <= MAX_TEXT else None


def exactly(kind: type[T], value: Any) -> T:
    """`value`, if it is of just this type. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


# ── readers: a function for each type hint ──


@functools.cache
def _reader(hint: Any) -> Reader:
    origin, inner = get_origin(hint), [_reader(part) for part in get_args(hint) if part is not Ellipsis]
    if origin in (Union, UnionType):
        return functools.partial(_one_of, sorted(inner, key=lambda reader: reader is not _PLAIN[NoneType]))
    if origin is tuple:
        return functools.partial(_tuple, inner[0])
    if origin is Mapping:
        return functools.partial(_mapping, *inner)
    if isinstance(hint, EnumMeta):
        return hint
    if is_dataclass(hint):
        return functools.partial(_dataclass, hint)
    return _PLAIN.get(hint) or functools.partial(_instance, hint)


def _one_of(readers: list[Reader], value: Any) -> Any:
    for reader in readers[:-1]:
        try:
            return reader(value)
        except REFUSALS:
            pass
    return readers[-1](value)


def _tuple(reader: Reader, value: Any) -> Any:
    if type(value) not in (list, tuple):
        raise TypeError(f"a {type(value).__name__} where a list belongs")
    return tuple(map(reader, value))


def _mapping(key: Reader, item: Reader, value: Any) -> Any:
    return {key(name): item(part) for name, part in exactly(dict, value).items()}


def _dataclass(noun: Any, value: Any) -> Any:
    if isinstance(value, noun):
        return value
    given = dict(exactly(dict, value))
    if noun is Ending:
        noun = ENDINGS[given.pop("kind")]
    readers = _readers(noun)
    for name in given.keys() & readers.keys():
        try:
            given[name] = readers[name](given[name])
        except TypeError as error:
            raise TypeError(f"{noun.__name__}.{name}: {error}") from None
    return noun(**given)


@functools.cache
def _readers(noun: Any) -> Mapping[str, Reader]:
    hints = get_type_hints(noun)
    return {field.name: _reader(hints[field.name]) for field in fields(noun)}


def _int(value: Any) -> int:
    if not -MAX_INTEGER < exactly(int, value) < MAX_INTEGER:
        raise ValueError("an integer of more than 64 bits")
    return int(value)


def _float(value: Any) -> float:
    if type(value) is int:
        return _int(value)
    if not math.isfinite(exactly(float, value)):
        raise ValueError("a number that is not finite")
    return float(value)


def _str(value: Any) -> str:
    """Half a surrogate pair is no text: nothing that is written later could hold it."""
    exactly(str, value).encode()
    return str(value)


def _instance(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


_PLAIN: Mapping[Any, Reader] = {
    Any: lambda value: value,
    NoneType: functools.partial(_instance, NoneType),
    int: _int,
    float: _float,
    bool: functools.partial(exactly, bool),
    str: _str,
}
