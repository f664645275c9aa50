"""What a rank communicated, and when: frozen values. Standard library only.

Times are seconds since the run began, on one clock for all its ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MAX_TEXT, MAX_GROUP, MAX_NUMBER = 200, 10_000, 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """One call of a collective or point-to-point operation on one rank, by Python or by C++ (DDP's reducer).

    `operation` is the name at the level of the API, the same for all forms of a call: all_reduce, all_gather,
    reduce_scatter, broadcast, reduce, gather, scatter, all_to_all, barrier, send, recv.
    `bytes` is the payload: of all_gather the whole output, of reduce_scatter and all_to_all the whole input, of gather
    and scatter this rank's part, else the tensor itself. `group` holds global ranks, and so does `peer`.
    `end` is None for what was not seen to end. `line` is the line of the student's file that runs at the launch.
    `backward` is the ordinal of the backward pass during which it was launched, None outside of any; `remaining` says
    how many operations that compute gradients this pass still had to do then.
    """

    operation: str
    bytes: int
    dtype: str
    group: tuple[int, ...]
    peer: int | None = None
    start: float
    end: float | None = None
    line: int | None = None
    backward: int | None = None
    remaining: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a rank's time: `kind` is region (named by the probe), forward, backward or optimizer."""

    kind: str
    name: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All of one rank, in the order of launch. Not `complete` if there was more than is kept."""

    communications: tuple[Communication, ...] = ()
    spans: tuple[Span, ...] = ()
    complete: bool = True


def plain(trace: Trace) -> dict[str, Any]:
    """JSON-able data, as `trace_of` reads it."""
    return asdict(trace)


def trace_of(raw: Any) -> Trace | None:
    """The trace that plain data describes. None for data that describes none, such as forged data."""
    try:
        return Trace(
            communications=tuple(_communication(row) for row in raw["communications"]),
            spans=tuple(_span(row) for row in raw["spans"]),
            complete=raw["complete"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _communication(row: Mapping[str, Any]) -> Communication:
    _check(row, Communication)
    return Communication(
        operation=_text(row["operation"]),
        bytes=_whole(row["bytes"]),
        dtype=_text(row["dtype"]),
        group=tuple(_whole(rank) for rank in row["group"][:MAX_GROUP]),
        start=_seconds(row["start"]),
        end=_optional(_seconds, row["end"]),
        **{name: _optional(_whole, row[name]) for name in ("peer", "line", "backward", "remaining")},
    )


def _span(row: Mapping[str, Any]) -> Span:
    _check(row, Span)
    end = _optional(_seconds, row["end"])
    return Span(kind=_text(row["kind"]), name=_text(row["name"]), start=_seconds(row["start"]), end=end)


def _check(row: Mapping[str, Any], noun: type[Any]) -> None:
    if set(row) != {field.name for field in fields(noun)}:
        raise ValueError("not the fields of a trace")


def _whole(value: Any) -> int:
    number = int(value)
    if not -MAX_NUMBER < number < MAX_NUMBER:
        raise ValueError("no size")
    return number


def _seconds(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("no time")
    return number


def _text(value: Any) -> str:
    return str(value)[:MAX_TEXT].encode("utf-8", "replace").decode()


def _optional(kind: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else kind(value)
