"""The grader's nouns from what a rank says of itself, without trust: anything odd is a ValueError, TypeError, KeyError
or AttributeError, which `channel` makes a WireError of."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.model import Ending, Exited, Finished, Raised, StackFrame, Wait
from grader.ranks.watch.evidence import Meeting, Snapshot, ThreadState

MAX_TEXT = 4000
MAX_ROWS = 100
MAX_CAUSES = 5
MAX_THREADS = 1000
MAX_NUMBER = 2**63
ENDINGS = ("finished", "raised", "exited")
"""What a rank may say of itself. The rest is for the supervisor to say."""
LINE = re.compile("[0-9]{1,9}", re.ASCII)
STATES = ("communication", "passive", "busy")
_SIZES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}


def ending_from(raw: Mapping[str, Any], file: str) -> Ending:
    """The ending that a rank tells. `file` is the name under which students know their file."""
    kind = one_of(raw["kind"], ENDINGS)
    if kind == "finished":
        return Finished()
    stack = stack_from(raw["stack"], file)
    if kind == "exited":
        return Exited(code=text(raw["code"]), how=one_of(raw["how"], ("sys.exit", "os._exit")), stack=stack)
    return Raised(
        type=text(raw["type"]),
        message=text(raw["message"]),
        causes=tuple(text(cause) for cause in rows(raw["causes"])[:MAX_CAUSES]),
        importing=raw["importing"] is True,
        communication=raw["communication"] is True,
        stack=stack,
    )


def snapshot_from(raw: Mapping[str, Any], file: str) -> Snapshot:
    """What a rank's threads do."""
    threads = raw["threads"]
    if type(threads) is not list or len(threads) > MAX_THREADS:
        raise ValueError("no threads")
    caught = _caught(raw.get("caught"))
    return tuple(replace(state, **caught) if state.main else state for state in (_thread(t, file) for t in threads))


def _caught(raw: Any) -> dict[str, Any]:
    """What the student's last call raised, as the rank tells it."""
    if raw is None:
        return {}
    message, line = rows(raw)
    return {"caught": text(message), "caught_at": line if _is_number(line) and line > 0 else None}


def _thread(raw: Mapping[str, Any], file: str) -> ThreadState:
    state = one_of(raw["state"], STATES)
    return ThreadState(
        main=raw["main"] is True,
        state=state,
        wait=wait_from(raw["wait"]) if state == "communication" else None,
        stack=stack_from(raw["stack"], file),
        meeting=_meeting(raw["rendezvous"]) if raw["rendezvous"] else None,
    )


def _meeting(raw: Mapping[str, Any]) -> Meeting | None:
    """Where a rank meets the others. What is no number there is a student's own argument, and says nothing."""
    numbers = {key: raw[key] for key in ("port", "rank", "world_size") if _is_number(raw.get(key))}
    return Meeting(**numbers) if numbers else None


def wait_from(raw: Mapping[str, Any]) -> Wait:
    """What a thread waits in. A student may pass odd types where torch takes them; what is no number is left out."""
    operation, called = text(raw.get("operation") or ""), text(raw.get("called") or "")
    numbers = {key: raw[key] if _is_number(raw.get(key)) else None for key in ("sequence", "peer", "tag", "bytes")}
    if numbers["bytes"] is None:
        numbers["bytes"] = _bytes(raw)
    if called and not _same(operation, called):
        operation = f"{operation} (called by {called})" if operation else called
    return Wait(operation=_with_peer(operation, numbers["peer"]), group=text(raw.get("group", "default")), **numbers)


def _same(operation: str, called: str) -> bool:
    plain = operation.strip("_").replace("_", "")
    return called in (operation, "wait") or plain == called.strip("_").replace("_", "")


def _with_peer(operation: str, peer: int | None) -> str:
    if peer is None:
        return operation
    return operation.replace("send", f"send to rank {peer}", 1).replace("recv", f"recv from rank {peer}", 1)


def _bytes(raw: Mapping[str, Any]) -> int | None:
    """The size of a collective's input, from the Flight Recorder's sizes and dtypes."""
    sizes = [[size for size in rows(shape) if _is_number(size)] for shape in rows(raw.get("sizes") or [])]
    dtypes = [text(dtype) for dtype in rows(raw.get("dtypes") or [])]
    if not sizes or not dtypes:
        return None
    total = sum(math.prod(shape) * _SIZES.get(dtype, 1) for shape, dtype in zip(sizes, dtypes, strict=False))
    return total if _is_number(total) else None


def stack_from(raw: Any, file: str) -> tuple[StackFrame, ...]:
    """The frames of a stack. Python knows no line for some, and a student's SyntaxError may name anything as one."""
    return tuple(
        StackFrame(
            file=file if student is True else _short(text(path)),
            line=line if _is_number(line) else 0,
            function=text(function),
            student=student is True,
        )
        for path, line, function, student in rows(raw)
    )


def stack_of_dump(dump: str, student_file: str, file: str) -> tuple[StackFrame, ...]:
    """The last thread of faulthandler's text, outermost frame first. `student_file` is the student's file on disk. A
    rank may have written the text itself, so any text gives a stack."""
    found: list[list[Any]] = []
    for line in dump.splitlines():
        if "most recent call first" in line:
            found = []
        elif line.startswith('  File "'):
            path, _, rest = line.removeprefix('  File "').partition('", line ')
            number, _, function = rest.partition(" in ")
            found.append([path, int(number) if LINE.fullmatch(number) else 0, function, path == student_file])
    return stack_from(found[::-1], file)


def _short(file: str) -> str:
    """A path without what is particular to this machine: from the package's folder on."""
    for mark in (f"site-packages{os.sep}", f"{os.sep}lib{os.sep}"):
        if mark in file:
            return file.rpartition(mark)[2]
    return os.path.basename(file)


def rows(raw: Any) -> list[Any]:
    if type(raw) is not list:
        raise ValueError("no list")
    return raw[:MAX_ROWS]


def text(raw: Any) -> str:
    if type(raw) is not str:
        raise ValueError("no text")
    return raw[:MAX_TEXT].encode("utf-8", "replace").decode()


def number(raw: Any) -> int:
    if not _is_number(raw):
        raise ValueError("no number")
    return int(raw)


def _is_number(raw: Any) -> bool:
    return type(raw) is int and -MAX_NUMBER < raw < MAX_NUMBER


def one_of(raw: Any, allowed: tuple[str, ...]) -> str:
    if raw not in allowed:
        raise ValueError("unknown")
    return str(raw)
