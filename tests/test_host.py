"""grader.ranks.host and session, without ranks: faults of the machine are told as such."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from grader import catalog
from grader.model import Submission
from grader.model.errors import NoRankStarted, RunError, WatcherKilled
from grader.ranks import coming_up, session
from grader.ranks.answer import records
from grader.ranks.host import pages, protocol, serve, tidy
from grader.records import wire
from tests import small
from tests.requests import small_request


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    before = signal.getsignal(signal.SIGCHLD)
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()
    signal.signal(signal.SIGCHLD, before)


def test_a_run_for_which_no_process_can_be_started_is_told(
    sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory, or too many processes: the host says so and serves on."""

    def fork() -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "fork", fork)
    judge, end = sockets
    mine, theirs = socket.socketpair()
    with theirs:
        protocol.send(judge, small_request(), theirs.fileno())
    judge.shutdown(socket.SHUT_WR)
    serve.serve(end, apart=False)
    with Connection(mine.detach()) as connection, pytest.raises(NoRankStarted, match="Cannot allocate memory"):
        records([connection.recv_bytes()])


def test_a_full_disk_under_the_ranks_is_told() -> None:
    """The supervisor's fault becomes a sentence of the judge's."""
    with pytest.raises(RunError, match="No space left"):
        records([wire.encode({"fault": "OSError: [Errno 28] No space left on device"})])


def test_only_what_happened_before_any_rank_is_told_as_such() -> None:
    """Whatever else the frame holds; the death of a supervisor never is."""
    for said, kind in (({"early": True}, NoRankStarted), ({"early": 1}, RunError), ({"early": False}, RunError)):
        with pytest.raises(RunError) as raised:
            records([wire.encode({"fault": "no room", **said})])
        assert type(raised.value) is kind
    with pytest.raises(WatcherKilled):
        records([wire.encode({"fault": "killed", "killed": True, "early": True})])


def test_the_folder_of_a_run_has_a_name_that_nobody_can_guess() -> None:
    """A rank may write beside its own folder and take a name that it foresees."""
    names = {serve.new_name() for _ in range(100)}
    assert len(names) == 100 and all(len(name) >= 32 and name.startswith("run-") for name in names)


def test_a_supervisor_that_vanishes_is_told() -> None:
    """Killed from outside, it has said nothing or half of it."""
    with pytest.raises(RunError, match="ended before it could say"):
        records([])


def test_a_request_cut_short_ends_the_service(sockets: tuple[socket.socket, socket.socket]) -> None:
    """The judge is gone."""
    judge, end = sockets
    judge.send(b"\0\0")
    judge.close()
    assert protocol.receive(end) is None


def test_huge_pages_hold_what_was_there() -> None:
    """On any kernel, also one that does not have them."""
    content = bytes(range(256)) * (16 * pages.HUGE // 256)
    copy = bytearray(content)
    pages.collapse()
    assert copy == content


def test_what_runs_left_goes_and_what_is_mounted_stays(tmp_path):
    """An environment under /tmp is bound into the sandbox there: it is neither deleted nor even looked through."""
    mounted = tmp_path / "course" / "environment"
    for folder in (mounted, tmp_path / "course" / "planted", tmp_path / "left"):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    (tmp_path / "cache").touch()
    tidy.clear(tmp_path, frozenset({Path("/"), mounted}))
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "course",
        "course/environment",
        "course/environment/file",
    ]


def test_mount_points_are_read_from_the_kernels_table(tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text("22 1 0:20 / / ro - ext4 a rw\n36 22 0:21 / /tmp/my\\040course ro master:1 - tmpfs b rw\n")
    assert tidy.mounted(table) == {Path("/"), Path("/tmp/my course")}


def test_a_host_that_is_slow_to_come_up_is_told_as_slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not as one that said nothing: the machine is busy, and whoever waits can do something about it."""
    monkeypatch.setattr(coming_up, "START_SECONDS", 1e-6)
    root = small.build(tmp_path)
    exercise = catalog.load(small.NAME, root)
    with session.Session(sandbox="off") as slow, pytest.raises(NoRankStarted, match="very busy"):
        slow.run(exercise, Submission(path=exercise.stub, source=b"", digest=""), exercise.cases[0])
