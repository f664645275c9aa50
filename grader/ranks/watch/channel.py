"""What a rank says to its supervisor, taken apart without trust: any bytes give a message of ours or a WireError.

A rank is the student's process, so its end of the channel may send anything at any time: half a message, a length
without a body, an endless stream, forged endings and snapshots. Nothing here waits for a rank.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from grader.model.errors import WireError
from grader.records import wire
from grader.records.structure import trace_of

LIVE = b"L"
"""What a message of a supervisor begins with that is for somebody who watches. No wire frame begins so."""
MAX_TALK = 16 * 2**20
"""Largest message that is no observation, in bytes. A full trace takes a fifth of that."""
MAX_TEXT = 4000
MAX_ROWS = 100
MAX_THREADS = 1000
MAX_NUMBER = 2**63
READ_AT_ONCE = 4 * 2**20
"""So many bytes of one rank are taken in before the others get their turn."""
ENDINGS = ("finished", "raised", "exited")
"""What a rank may say of itself. The rest is for the supervisor to say."""
DEVICES = ("cpu", "cuda")
STATES = ("communication", "passive", "busy")
Talk = tuple[str, Any]


class Inbox:
    """The receiving half of a multiprocessing Connection, without its patience: a message that has only half arrived
    is kept until the rest comes."""

    def __init__(self, descriptor: int, largest: int = wire.MAX_FRAME + 64) -> None:
        self._descriptor, self._largest, self._buffer = descriptor, largest, bytearray()

    def take(self) -> Iterator[bytes]:
        """The whole messages among what has arrived. The caller knows that there is something to read.

        Raises EOFError when the other side has hung up, WireError for a length that no message has.
        """
        taken = 0
        while chunk := os.read(self._descriptor, 1 << 16):
            self._buffer += chunk
            yield from self._whole()
            taken += len(chunk)
            if len(chunk) < 1 << 16 or taken >= READ_AT_ONCE:
                return
        raise EOFError

    def _whole(self) -> Iterator[bytes]:
        while (place := self._head()) and len(self._buffer) >= place[0] + place[1]:
            start, length = place
            message = bytes(self._buffer[start : start + length])
            del self._buffer[: start + length]
            yield message

    def _head(self) -> tuple[int, int] | None:
        """Where the body of the next message begins and how long it is, as Connection.send_bytes writes it."""
        if len(self._buffer) < 4:
            return None
        (length,) = struct.unpack_from("!i", self._buffer)
        if length == -1 and len(self._buffer) < 12:
            return None
        start = 4
        if length == -1:
            start, (length,) = 12, struct.unpack_from("!Q", self._buffer, 4)
        if not 0 <= length <= self._largest:
            raise WireError(f"a message of {length} bytes")
        return start, length


def talk_of(message: bytes) -> Talk:
    """What a message says: ("observation", frame), ("hello", (own threads, device)), ("snapshot", (request, snapshot)),
    ("trace", Trace or None) or ("ending", ending). Raises WireError for anything else, whatever it is."""
    if message[:1] == b"O" and len(message) > 1:
        return "observation", message[1:]
    if message[:1] != b"J" or len(message) > MAX_TALK:
        raise WireError(f"a message of {len(message)} bytes that is none of the grader's")
    try:
        return _talk(json.loads(message[1:]))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise WireError(f"a malformed message of {len(message)} bytes: {type(error).__name__}") from None


def _talk(content: Mapping[str, Any]) -> Talk:
    if "hello" in content:
        own = frozenset(_number(thread) for thread in _rows(content["own"]))
        return "hello", (own, _one_of(content["device"], DEVICES))
    if "snapshot" in content:
        return "snapshot", (_text(content["request"]), _snapshot(content["snapshot"]))
    if "trace" in content:
        return "trace", trace_of(content["trace"])
    return "ending", _ending(content["ending"])


def _ending(raw: Mapping[str, Any]) -> dict[str, Any]:
    """An ending that a rank may have, with the keys that it has and no others."""
    kind = _one_of(raw["kind"], ENDINGS)
    if kind == "finished":
        return {"kind": kind}
    common = {"kind": kind, "stack": _stack(raw["stack"])}
    if kind == "exited":
        return {**common, "code": _text(raw["code"]), "how": _one_of(raw["how"], ("sys.exit", "os._exit"))}
    return {
        **common,
        "type": _text(raw["type"]),
        "message": _text(raw["message"]),
        "causes": [_text(cause) for cause in _rows(raw["causes"])],
        "importing": raw["importing"] is True,
        "communication": raw["communication"] is True,
    }


def _snapshot(raw: Mapping[str, Any]) -> dict[str, Any]:
    threads = raw["threads"]
    if type(threads) is not list or len(threads) > MAX_THREADS:
        raise ValueError("no threads")
    return {"threads": [_thread(thread) for thread in threads], "pending": []}


def _thread(raw: Mapping[str, Any]) -> dict[str, Any]:
    state = _one_of(raw["state"], STATES)
    return {
        "main": raw["main"] is True,
        "state": state,
        "wait": _wait(raw["wait"]) if state == "communication" else None,
        "stack": _stack(raw["stack"]),
        "rendezvous": _place(raw["rendezvous"]) if raw["rendezvous"] else None,
    }


def _wait(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What a thread waits in. A student may pass odd types where torch takes them; what is no number is left out."""
    texts = {key: _text(raw.get(key) or "") for key in ("operation", "called")}
    numbers = {key: raw[key] for key in ("sequence", "peer", "tag", "bytes") if _is_number(raw.get(key))}
    sizes = [[size for size in _rows(shape) if _is_number(size)] for shape in _rows(raw.get("sizes") or [])]
    dtypes = [_text(dtype) for dtype in _rows(raw.get("dtypes") or [])]
    return {**texts, **numbers, "group": _text(raw.get("group", "default")), "sizes": sizes, "dtypes": dtypes}


def _place(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Where a rank meets the others. What is no number there is a student's own argument, and says nothing."""
    return {key: raw[key] for key in ("port", "rank", "world_size") if _is_number(raw.get(key))}


def _stack(raw: Any) -> list[list[Any]]:
    """Rows of a stack. Python knows no line for some frames, and a student's SyntaxError may name anything as one."""
    return [
        [_text(file), line if _is_number(line) else 0, _text(function), student is True]
        for file, line, function, student in _rows(raw)
    ]


def _rows(raw: Any) -> list[Any]:
    if type(raw) is not list:
        raise ValueError("no list")
    return raw[:MAX_ROWS]


def _text(raw: Any) -> str:
    if type(raw) is not str:
        raise ValueError("no text")
    return raw[:MAX_TEXT].encode("utf-8", "replace").decode()


def _number(raw: Any) -> int:
    if not _is_number(raw):
        raise ValueError("no number")
    return int(raw)


def _is_number(raw: Any) -> bool:
    return type(raw) is int and -MAX_NUMBER < raw < MAX_NUMBER


def _one_of(raw: Any, allowed: tuple[str, ...]) -> str:
    if raw not in allowed:
        raise ValueError("unknown")
    return str(raw)
