"""What comes back of a run: a supervisor's messages, and the ranks' records in them."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from grader.model import Ending, Killed, LiveRank, Raised, RankRecord, budgets
from grader.model.errors import NoRankStarted, RunError, WatcherKilled, WireError
from grader.model.witness import Witness
from grader.ranks.watch.channel import DEVICES, LIVE, PRINTED, Inbox
from grader.ranks.watch.parsing import MAX_TEXT
from grader.records import wire
from grader.records.structure import REFUSALS, exactly, structure, trace_of

Live = Callable[[Sequence[LiveRank]], None]
"""Who hears what the ranks of a run do while they stand still."""
Printed = Callable[[int, bytes], None]
"""Who hears what a rank has printed, piece by piece."""


LOOK_SECONDS = 0.5
"""So often somebody looks, while the supervisor is awaited, whether it still can say anything."""


def received(connection: socket.socket, seconds: float, look: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """What the supervisor says, up to its empty message or its end. Raises RunError if it says neither in time, also
    if it stops in the middle of a message, and what `look` raises, which is called now and then."""
    until = time.monotonic() + seconds
    inbox = Inbox(connection.fileno())
    with contextlib.suppress(EOFError, ConnectionResetError):
        poll = select.poll()  # select.select knows no descriptor above 1023
        poll.register(connection, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            look()
            for message in inbox.take() if poll.poll(1000 * min(left, LOOK_SECONDS)) else ():
                if not message:
                    return
                yield message
        raise RunError("The process that watches the ranks did not answer. Is this machine overloaded? Try again.")


def heard(messages: Iterator[bytes], live: Live | None, printed: Printed | None = None) -> Iterator[bytes]:
    """The messages that are for the judge; the others go to whoever watches."""
    for message in messages:
        if message[:1] == PRINTED and printed:
            printed(int.from_bytes(message[1:3]), message[3:])
        elif message[:1] not in (LIVE, PRINTED):
            yield message
        elif live:
            with contextlib.suppress(*REFUSALS):
                live([_live_rank(row) for row in json.loads(message[1:])])


def _live_rank(row: Any) -> LiveRank:
    rank, told, line = row
    return structure(LiveRank, {"rank": rank, "told": told, "line": line})


def records(messages: list[bytes]) -> tuple[RankRecord, ...]:
    """The ranks' records from the supervisor's frames."""
    queue = iter(messages)
    found: list[RankRecord] = []
    try:
        for message in queue:
            head = wire.decode(message)
            if "fault" in head:
                raise _fault(head)
            if "seconds" in head:
                return tuple(found)
            found.append(_record(head, queue))
    except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"The process that watches the ranks said something odd ({error}). Try again.") from error
    raise RunError("The process that watches the ranks ended before it could say what happened.")


def witness_of(messages: list[bytes]) -> Witness | None:
    """What the kernel counted, from the supervisor's last frame."""
    try:
        raw = wire.decode(messages[-1])["witness"]
        return structure(Witness, raw) if raw else None
    except (WireError, LookupError, TypeError, ValueError):
        return None


def _fault(head: Mapping[str, Any]) -> RunError:
    if head.get("killed"):
        return WatcherKilled()
    kind = NoRankStarted if head.get("early") is True else RunError
    return kind(f"The ranks could not be run: {head['fault']}.")


def _record(head: Mapping[str, Any], queue: Iterator[bytes]) -> RankRecord:
    observations: dict[str, Any] = {}
    ending, cost = safe_ending(head["ending"]), 0
    for _ in range(head["observations"]):
        frame = next(queue, b"")
        cost += wire.cost(frame)
        for name, value in (_observation(frame) if cost <= budgets.OBSERVED_BY_RANK else {}).items():
            if name in observations:
                ending = Raised(
                    type="ForgedReport", message=f"the observation {name!r} was sent twice", stack=ending.stack
                )
            observations[name] = value
    return RankRecord(
        rank=exactly(int, head["rank"]),
        ending=ending,
        observations={} if isinstance(ending, Raised) and ending.type == "ForgedReport" else observations,
        output=exactly(str, head["output"]),
        device=_device(head.get("device")),
        trace=trace_of(head["trace"]),
    )


def safe_ending(raw: Any) -> Ending:
    """The ending that a supervisor tells; forged or damaged data never pass for a rank that finished."""
    try:
        ending = structure(Ending, raw)
    except REFUSALS:
        return Killed(signal="SIGKILL")
    texts = {field.name: getattr(ending, field.name) for field in fields(ending)}
    short: dict[str, Any] = {name: value[:MAX_TEXT] for name, value in texts.items() if isinstance(value, str)}
    return replace(ending, **short) if short else ending


def _device(said: Any) -> str:
    return str(said) if said in DEVICES else ""


def _observation(frame: bytes) -> Mapping[str, Any]:
    """One observation. A malformed one is as good as none: the check that wants it will say so."""
    try:
        value = wire.decode(frame)
        return {value["name"]: value["value"]} if type(value) is dict and type(value["name"]) is str else {}
    except (WireError, KeyError):
        return {}
