"""Fuzzing what a hostile rank may say to its supervisor: it goes on, and the judge gets an ending for each rank."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.model import Deadlocked, Raised, RankRecord, TimedOut
from grader.model.errors import WireError
from grader.ranks.answer import records
from grader.ranks.diagnosis import diagnose
from grader.ranks.watch import decide
from grader.ranks.watch.channel import message_of
from grader.ranks.watch.evidence import NO_ANSWER, main_thread
from grader.ranks.watch.late import stacks_by_signal
from grader.ranks.watch.parsing import stack_of_dump
from grader.ranks.watch.supervisor import Supervisor
from grader.ranks.watch.telling import MALFORMED, told
from grader.ranks.watch.watched import Watched
from grader.ranks.watch.witness import Watcher
from grader.records import wire
from tests.fuzz.talk import CASE, DEEP, MESSAGES, ROW, SPAN, TALK, examine
from tests.fuzzing import damaged, fuzz, mutated
from tests.requests import small_request


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
