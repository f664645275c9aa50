"""Fuzzing what arrives from ranks and their supervisor: messages, endings, traces and the streams that bring them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.model import Ending
from grader.model.errors import RunError, WireError
from grader.ranks.answer import received as received_by_judge
from grader.ranks.answer import records, safe_ending
from grader.ranks.watch.channel import Inbox, Message, message_of
from grader.records import wire
from grader.records.structure import trace_of
from tests.fuzz.talk import MESSAGES, RAISED, ROW, SPAN, examine, measure
from tests.fuzzing import JSON, fuzz, mutated

FRAMES = [{"file": "x.py", "line": 3, "function": "step", "student": True}]
WAITED = {"operation": "all_reduce", "group": "default", "sequence": 1, "bytes": 8, "peer": None, "tag": None}
ENDED: list[object] = [
    {**RAISED, "stack": FRAMES, "communication": False, "seconds": 1.0},
    {"kind": "exited", "code": "1", "how": "os._exit", "stack": FRAMES, "seconds": 1.0},
    {"kind": "killed", "signal": "SIGKILL", "by_grader": False, "limit": "", "stack": [], "seconds": 1.0},
    {"kind": "deadlocked", "wait": WAITED, "stack": FRAMES, "seconds": 1.0},
    {"kind": "timed_out", "wait": WAITED, "importing": False, "stack": FRAMES, "seconds": 1.0},
]
"""Endings as a supervisor tells them."""
HEAD = {"rank": 0, "output": "", "trace": None, "device": "cpu", "observations": 1}
HEADS: list[object] = [{**HEAD, "ending": ending} for ending in ENDED]


@fuzz(300)
@given(MESSAGES)
@example(b"J" + json.dumps({"ending": {**RAISED, "stack": [["x.py", "x", "f", True]]}}).encode())
def test_a_message_is_taken_apart_or_refused(message: bytes) -> None:
    """A WireError and nothing else."""
    with contextlib.suppress(WireError):
        assert isinstance(message_of(message, "x.py"), Message)


@fuzz(300)
@given(st.sampled_from(ENDED).flatmap(mutated) | JSON)
def test_any_data_give_a_safe_ending(raw: object) -> None:
    """Forged data never pass for a rank that finished."""
    ending = safe_ending(raw)
    assert isinstance(ending, Ending)
    assert ending.kind != "finished" or (isinstance(raw, dict) and raw.get("kind") == "finished")


@fuzz(300)
@given(mutated({"communications": [ROW, {**ROW, "operation": "all_reduce"}], "spans": [SPAN], "complete": True}))
@example({"communications": [{**ROW, "bytes": 10**400}], "spans": [], "complete": True})
@example({"communications": [{**ROW, "start": math.nan}], "spans": [], "complete": True})
@example(
    {"communications": [{**ROW, "group": list(range(10))}], "spans": [{**SPAN, "end": math.inf}], "complete": True}
)
def test_any_data_give_a_trace_that_can_be_counted_or_none(raw: object) -> None:
    """Sizes and times are numbers that arithmetic and JSON can take."""
    trace = trace_of(raw)
    if trace is not None:
        measure(trace)


@fuzz(200)
@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(1, 60), max_size=6))
def test_messages_arrive_whole_however_the_stream_is_cut(messages: list[bytes], cuts: list[int]) -> None:
    """Half a message waits for its other half, and nobody waits for it."""
    stream = b"".join(struct.pack("!i", len(message)) + message for message in messages)
    read, write = os.pipe()
    inbox, got = Inbox(read), []
    try:
        for cut in [*cuts, len(stream)]:
            piece, stream = stream[:cut], stream[cut:]
            if piece:
                os.write(write, piece)
                got += list(inbox.take())
    finally:
        os.close(read)
        os.close(write)
    assert got == messages


@fuzz(100)
@given(st.binary(min_size=1, max_size=60))
def test_any_stream_gives_messages_or_is_refused(stream: bytes) -> None:
    """Negative and huge lengths are a WireError at once; the end of the stream is an EOFError."""
    read, write = os.pipe()
    os.write(write, stream)
    os.close(write)
    inbox = Inbox(read)
    try:
        with contextlib.suppress(WireError, EOFError):
            while True:
                list(inbox.take())
    finally:
        os.close(read)


@fuzz(150)
@given(st.lists(st.sampled_from(HEADS).flatmap(mutated), max_size=3))
def test_a_watcher_that_says_odd_things_is_a_run_error(heads: list[object]) -> None:
    """The supervisor is ours, yet a rank of the same user may have got at it: never another exception in the judge."""
    frames = []
    for head in heads:
        with contextlib.suppress(WireError):
            frames.append(wire.encode(head))
    with contextlib.suppress(RunError):
        examine(records([*frames, wire.encode({"seconds": 1.0})]))


def test_a_watcher_that_stops_in_the_middle_of_a_message_is_told() -> None:
    """The judge waits for it until the deadline and not for ever."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(struct.pack("!i", 1000) + b"half")
        with pytest.raises(RunError, match="did not answer"):
            list(received_by_judge(mine, 0.1))
