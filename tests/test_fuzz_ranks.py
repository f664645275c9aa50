"""Fuzzing what a hostile rank may say: whatever bytes it sends, the supervisor goes on and the judge gets an ending.

No process is started: a supervisor is made around pipes, and its reading, looking and reporting are called by hand.
How to draw more examples: tests/fuzzing.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.checks.traffic import disagreement, traffic
from grader.model import Case, Deadlocked, Ending, Raised, RankRecord, TimedOut
from grader.model.errors import RunError, WireError
from grader.model.trace import Trace
from grader.ranks.answer import received as received_by_judge
from grader.ranks.answer import records, safe_ending
from grader.ranks.diagnosis import diagnose
from grader.ranks.watch import decide
from grader.ranks.watch.channel import Inbox, Message, message_of
from grader.ranks.watch.evidence import NO_ANSWER, main_thread
from grader.ranks.watch.late import stacks_by_signal
from grader.ranks.watch.parsing import stack_of_dump
from grader.ranks.watch.supervisor import Supervisor
from grader.ranks.watch.telling import MALFORMED, told
from grader.ranks.watch.watched import Watched
from grader.ranks.watch.witness import Watcher
from grader.records import wire
from grader.records.structure import trace_of
from tests.fuzzing import JSON, damaged, fuzz, mutated
from tests.requests import small_request

STACK = [["/a/b.py", 3, "step", True], ["/lib/torch/x.py", 9, "all_reduce", False]]
WAIT = {"operation": "all_reduce", "called": "wait", "group": "default", "sequence": 1, "sizes": [[2]]}
WAIT |= {"dtypes": ["Float"]}
PLACE = {"hostname": "localhost", "port": 29500, "rank": 0, "world_size": 2}
THREAD = {"main": True, "state": "communication", "wait": WAIT, "stack": STACK, "rendezvous": PLACE}
ROW = {"operation": "send", "bytes": 8, "dtype": "float32", "group": [0, 1], "peer": 1, "start": 0.1, "end": None}
ROW |= {"line": 3, "backward": None, "remaining": 2}
SPAN = {"kind": "region", "name": "step 1", "start": 0.0, "end": 1.0}
RAISED = {"kind": "raised", "type": "E", "message": "m", "stack": STACK, "causes": ["a"], "importing": False}
TALK: list[object] = [
    {"hello": 12, "own": [12], "device": "cpu"},
    {"snapshot": {"threads": [THREAD, {**THREAD, "main": False, "state": "busy"}], "pending": [WAIT]}, "request": "1"},
    {"trace": {"communications": [ROW], "spans": [SPAN], "complete": True}},
    {"ending": {"kind": "finished"}},
    {"ending": {**RAISED, "communication": True}},
    {"ending": {"kind": "exited", "code": "3", "how": "sys.exit", "stack": STACK}},
]
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
DEEP = b"J" + b"[" * 100_000
MESSAGES = st.one_of(
    st.sampled_from(TALK).flatmap(mutated).map(lambda content: b"J" + json.dumps(content).encode()),
    st.sampled_from(TALK).map(lambda c: b"J" + json.dumps(c).encode()).flatmap(damaged),
    st.binary(max_size=30).map(lambda data: b"O" + data),
    st.binary(max_size=30),
    st.sampled_from([DEEP, b"J" + b"9" * 5000, b'J{"ending": NaN}', b"J", b"", b"J\xff"]),
)
CASE = Case(name="x", world_size=2, probe="x")


class FakeProcess(SimpleNamespace):
    """A process that has ended."""

    def join(self, seconds: float) -> None:
        assert seconds < 10


class TwoRanks:
    """A supervisor of two ranks that are pipes, and the judge's end of its connection."""

    def __init__(self, folder: Path) -> None:
        self.judge, theirs = Pipe()
        self.supervisor = Supervisor(small_request(), folder, theirs, apart=False)
        self.supervisor.witness = Watcher(0, self.supervisor.folder.rendezvous)
        self.far = []
        for number in range(2):
            (near, far), (read, write) = Pipe(), Pipe(duplex=False)
            self.far += [far, write]
            process = FakeProcess(pid=os.getpid(), exitcode=None, sentinel=near.fileno())
            self.supervisor.ranks.append(Watched(number, near, read, process))

    def say(self, rank: int, message: bytes) -> None:
        self.far[2 * rank].send_bytes(message)
        self.supervisor._take_channel(self.supervisor.ranks[rank])

    def _report(self) -> None:
        with self.supervisor.judge:
            self.supervisor._report()

    def records(self) -> tuple[RankRecord, ...]:
        sender = threading.Thread(target=self._report)
        sender.start()
        messages = list(received(self.judge))
        sender.join()
        return records(messages)

    def close(self) -> None:
        near = [end for rank in self.supervisor.ranks for end in (rank.channel, rank.output)]
        for end in [*self.far, *near, self.judge, self.supervisor.judge]:
            if end is not None and not end.closed:
                end.close()
        for descriptor in getattr(self.supervisor.folder, "_stacks", []):
            os.close(descriptor)


def received(judge: Connection) -> Iterator[bytes]:
    """Up to the empty message or the end."""
    with contextlib.suppress(EOFError):
        while message := judge.recv_bytes():
            yield message


@contextlib.contextmanager
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoRanks]:
    made = TwoRanks(tmp_path_factory.mktemp("run") / "run")
    try:
        yield made
    finally:
        made.close()


@fuzz(300)
@given(st.lists(st.tuples(st.integers(0, 1), MESSAGES), max_size=8))
def test_whatever_ranks_say_the_judge_gets_an_ending_for_each(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[int, bytes]]
) -> None:
    """Read, look for a deadlock, report, read the report, diagnose and count the traffic: no exception on the way."""
    with two_ranks(tmp_path_factory) as made:
        for rank in made.supervisor.ranks:
            rank.asked = "1"
        for number, message in said:
            if not made.supervisor.ranks[number].gone:
                made.say(number, message)
        look(made.supervisor)
        records = made.records()
    assert [record.rank for record in records] == [0, 1]
    examine(records)


def look(supervisor: Supervisor) -> None:
    """What the supervisor does with snapshots."""
    ranks = supervisor.ranks
    snapshots = {rank.rank: rank.snapshot for rank in ranks if rank.snapshot}
    found = decide.waits(snapshots)
    decide.meeting_fails(snapshots)
    decide.in_rendezvous(snapshots)
    if found:
        decide.quiet_needed(found, len(ranks))
    for rank in ranks:
        stack = main_thread(rank.snapshot or NO_ANSWER).stack
        if found and rank.rank in found:
            rank.end(Deadlocked(wait=found[rank.rank], stack=stack), 0.5)


@fuzz(300)
@given(st.sampled_from(TALK).flatmap(mutated), st.booleans())
def test_whatever_a_rank_says_can_be_told(
    tmp_path_factory: pytest.TempPathFactory, content: object, traced: bool
) -> None:
    """Every ending, snapshot, stack and trace that is let through gives a frame that the judge can read, and a row for
    whoever watches."""
    with two_ranks(tmp_path_factory) as made, contextlib.suppress(WireError):
        message = message_of(b"J" + json.dumps(content).encode(), "x.py")
        made.supervisor.ranks[0].asked = getattr(message, "request", "")
        made.say(0, b"J" + json.dumps(content).encode())
        made.supervisor._tell_live({rank.rank: rank.snapshot or NO_ANSWER for rank in made.supervisor.ranks})
        look(made.supervisor)
        for rank in made.supervisor.ranks:
            head = wire.decode(told(rank, traced))
            assert head["ending"]["kind"] != "raised" or head["ending"]["type"] != MALFORMED.type


@pytest.mark.parametrize(("room", "kind", "traced"), [(10**6, "exited", True), (900, "exited", False)])
@pytest.mark.parametrize("code", ["", "\ud800"])
def test_a_trace_that_is_larger_than_what_may_cross_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    kind: str,
    traced: bool,
    code: str,
) -> None:
    """The budget of what a rank may say keeps it from that; the supervisor tells the ending all the same."""
    ending = {"ending": {"kind": "exited", "code": code, "how": "os._exit", "stack": []}}
    trace = {"trace": {"communications": [ROW] * 50, "spans": [SPAN], "complete": True}}
    with two_ranks(tmp_path_factory) as made:
        for content in (trace, ending):
            made.say(0, b"J" + json.dumps(content).encode())
        monkeypatch.setattr(wire, "MAX_HEADER", room)
        head = wire.decode(told(made.supervisor.ranks[0], True))
        assert (head["ending"]["kind"], bool(head["trace"])) == (kind, traced)


def test_an_ending_that_is_larger_than_what_may_cross_is_a_malformed_message(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_ranks(tmp_path_factory) as made:
        made.supervisor.ranks[0].end(Raised(type="E", message="m" * 4000), 1.0)
        monkeypatch.setattr(wire, "MAX_HEADER", 900)
        assert wire.decode(told(made.supervisor.ranks[0], True))["ending"]["type"] == MALFORMED.type


DUMP = """Fatal Python error: User defined signal 2

Current thread 0x00007f (most recent call first):
  File "/a/code/x.py", line 3 in step
  File "/lib/python3/threading.py", line 1043 in _bootstrap_inner
"""
SCRAPS = ("²", "٣", "9" * 5000, "\ud800", "\0", '", line ', " in ", '  File "', "most recent call first", "\n", "-1")


@fuzz(300)
@given(damaged(DUMP.encode(), tuple(scrap.encode(errors="replace") for scrap in SCRAPS)) | st.binary(max_size=200))
@example('most recent call first\n  File "x", line ² in f'.encode())
@example(b'most recent call first\n  File "x", line ' + b"9" * 5000 + b" in f")
@example(b"most recent call first\n" + b'  File "x", line 1 in f\n' * 10_000)
def test_any_file_of_stacks_gives_a_stack_that_can_be_told(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    """The rank's process writes it, and so may the student."""
    with two_ranks(tmp_path_factory) as made:
        rank = made.supervisor.ranks[0]
        stack = stack_of_dump(text.decode(errors="replace"), "/a/code/x.py", "x.py")
        rank.end(TimedOut(stack=stack), 1.0)
        assert wire.decode(told(rank, True))["ending"]["kind"] == "timed_out"


def test_a_forged_file_of_stacks_is_read_as_far_as_it_is_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As the supervisor does it, from the file that it holds open."""
    with two_ranks(tmp_path_factory) as made:
        path = made.supervisor.folder.path / "stack0"
        path.write_text('most recent call first\n  File "x.py", line ² in step\n')
        ignored = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        try:
            supervisor = made.supervisor
            (frame,) = stacks_by_signal(supervisor.ranks[:1], supervisor.folder, supervisor.request.file)[0]
        finally:
            signal.signal(signal.SIGUSR2, ignored)
    assert (frame.line, frame.function) == (0, "step")


def examine(records: tuple[RankRecord, ...]) -> None:
    """What the judge does with records."""
    diagnosis = diagnose(CASE, records, "x.py")
    for finding in diagnosis.findings if diagnosis else ():
        finding.sentence().encode()
    for record in records:
        record.output.encode()
        if record.trace:
            measure(record.trace)
    disagreement({record.rank: traffic(record.trace) for record in records if record.trace})


def measure(trace: Trace) -> None:
    part = traffic(trace)
    assert math.isfinite(float(part.bytes)) and math.isfinite(part.sent_bytes)
    json.dumps(asdict(trace), allow_nan=False).encode()
    for region in part.regions:
        part.during(region)


@pytest.mark.parametrize(
    "message", [DEEP, b"J{", b'J{"ending": 3}', b'J{"ending": {"kind": "killed", "by_grader": 1}}']
)
def test_a_rank_that_sends_what_no_rank_sends_has_failed(
    tmp_path_factory: pytest.TempPathFactory, message: bytes
) -> None:
    """It alone, by a malformed message, and it may not say of itself that the grader stopped it."""
    with two_ranks(tmp_path_factory) as made:
        made.say(1, message)
        made.say(0, b'J{"ending": {"kind": "finished"}}')
        diagnosis = diagnose(CASE, made.records(), "x.py")
    assert diagnosis and diagnosis.ranks == (1,) and "sent the grader" in diagnosis.findings[0].sentence()


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
