"""What a rank says to its supervisor, taken apart without trust: any bytes give a message of ours or a WireError.

A rank is the student's process, so its end of the channel may send anything at any time: half a message, a length
without a body, an endless stream, forged endings and snapshots. Nothing here waits for a rank.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grader.model import Ending, budgets
from grader.model.errors import WireError
from grader.model.trace import Trace
from grader.ranks.watch import parsing
from grader.ranks.watch.evidence import Snapshot
from grader.records import wire
from grader.records.structure import trace_of

LIVE = b"L"
PRINTED = b"P"
"""Prefixes of what goes to a listener: what ranks do while they stand still, and, after the rank's number in two bytes,
what one has printed. No wire frame begins so."""
READ_AT_ONCE = 4 * 2**20
"""So many bytes of one rank are taken in before the others get their turn."""
DEVICES = ("cpu", "cuda")


class Inbox:
    """The receiving half of a multiprocessing Connection, without its patience: a message that has only half arrived
    is kept until the rest comes."""

    def __init__(self, descriptor: int, largest: int = wire.MAX_FRAME + 64) -> None:
        self._descriptor, self._largest, self._buffer = descriptor, largest, bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a message that has only half arrived."""
        return len(self._buffer)

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


@dataclass(frozen=True, slots=True)
class Observation:
    """A frame that a probe has recorded, not yet read."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Hello:
    """The rank is up: the grader's own threads in it, and the kind of device that it is placed on."""

    threads: frozenset[int]
    device: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the rank does, as it was asked in `request`."""

    request: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class TraceSoFar:
    """What the rank has communicated. None for what is no trace."""

    trace: Trace | None


@dataclass(frozen=True, slots=True)
class Imported:
    """The rank has imported the student's file."""


@dataclass(frozen=True, slots=True)
class ToBeSeen:
    """The rank's probe asks the supervisor to look at it now, under a name."""

    name: str


Message = Observation | Hello | Imported | Answer | TraceSoFar | ToBeSeen | Ending


def message_of(data: bytes, file: str) -> Message:
    """What a rank says. `file` is the student's file by name. Raises WireError for anything else, whatever it is."""
    if data[:1] == b"O" and len(data) > 1:
        return Observation(data[1:])
    if data[:1] != b"J" or len(data) > budgets.TALK or wire.count(data) > budgets.TALK_VALUES:
        raise WireError(f"a message of {len(data)} bytes that is none of the grader's")
    try:
        return _message(json.loads(data[1:]), file)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise WireError(f"a malformed message of {len(data)} bytes: {type(error).__name__}") from None


def _message(content: Mapping[str, Any], file: str) -> Message:
    if "hello" in content:
        threads = frozenset(parsing.number(thread) for thread in parsing.rows(content["own"]))
        return Hello(threads, parsing.one_of(content["device"], DEVICES))
    if "imported" in content:
        return Imported()
    if "see" in content:
        return ToBeSeen(parsing.text(content["see"]))
    if "snapshot" in content:
        return Answer(parsing.text(content["request"]), parsing.snapshot_from(content["snapshot"], file))
    if "trace" in content:
        return TraceSoFar(_trace(content["trace"]))
    return parsing.ending_from(content["ending"], file)


def _trace(raw: Any) -> Trace | None:
    events = max(len(raw["communications"]), len(raw["spans"])) if raw is not None else 0
    if events > budgets.EVENTS:
        raise WireError(f"a trace of {events} events; the tracer keeps {budgets.EVENTS}")
    return trace_of(raw)
