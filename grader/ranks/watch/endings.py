"""Endings from the plain data that ranks and the supervisor say. Unknown or forged data gives a safe ending."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from grader.model import Deadlocked, Ending, Exited, Finished, Killed, Raised, StackFrame, TimedOut, Wait

MAX_TEXT = 4000


def ending_of(raw: Mapping[str, Any], student_file: str) -> Ending:
    """The ending that `raw` describes. `student_file` is the name under which the student knows his file."""
    try:
        return _ending_of(raw, student_file)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Killed(signal="SIGKILL")


def _ending_of(raw: Mapping[str, Any], student_file: str) -> Ending:
    common: dict[str, Any] = {
        "stack": tuple(_frames(raw.get("stack"), student_file)),
        "seconds": float(raw.get("seconds") or 0.0),
    }
    kind = raw.get("kind")
    if kind == "finished":
        return Finished(**common)
    if kind == "raised":
        return _raised(raw, common)
    if kind == "exited":
        return Exited(code=_text(raw.get("code")), how=_text(raw.get("how")), **common)
    if kind == "deadlocked":
        return Deadlocked(wait=_wait(raw["wait"]), **common)
    if kind == "timed_out":
        return TimedOut(wait=_wait(raw["wait"]) if raw.get("wait") else None, **common)
    return Killed(
        signal=_text(raw.get("signal") or "SIGKILL"),
        by_grader=bool(raw.get("by_grader")),
        limit=_text(raw.get("limit")),
        **common,
    )


def _raised(raw: Mapping[str, Any], common: dict[str, Any]) -> Raised:
    causes = raw.get("causes") or []
    return Raised(
        type=_text(raw.get("type")),
        message=_text(raw.get("message")),
        causes=tuple(_text(cause) for cause in causes[:5]),
        importing=bool(raw.get("importing")),
        communication=bool(raw.get("communication")),
        **common,
    )


def _wait(raw: Mapping[str, Any]) -> Wait:
    numbers = {key: raw[key] if type(raw.get(key)) is int else None for key in ("sequence", "bytes", "peer", "tag")}
    return Wait(operation=_text(raw.get("operation")), group=_text(raw.get("group")), **numbers)


def _frames(raw: Any, student_file: str) -> list[StackFrame]:
    found: list[StackFrame] = []
    for row in raw or []:
        file, line, function, student = row
        name = student_file if student else _short(str(file))
        found.append(StackFrame(file=name, line=int(line), function=_text(function), student=bool(student)))
    return found


def _short(file: str) -> str:
    """A path without what is particular to this machine: from the package's folder on."""
    for mark in (f"site-packages{os.sep}", f"{os.sep}lib{os.sep}"):
        if mark in file:
            return file.rpartition(mark)[2]
    return os.path.basename(file)


def _text(value: Any) -> str:
    return str(value)[:MAX_TEXT] if value is not None else ""
