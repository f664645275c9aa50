"""What the supervisor counts of a run of three ranks: to each its own, whoever has ended and however it is kept."""

from __future__ import annotations

import functools
import mmap
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader.model import Ending, Exited, Finished, Killed, Limits, Run
from grader.ranks import sandbox
from grader.ranks.watch import census, usage
from tests.conftest import LEVELS, RunIt

MIB = 2**20
LIMITS = Limits(memory=256 * MIB, disk=64 * MIB)
HOARD = """\
import mmap, os, time

def hoard(rank):
{body}
    time.sleep({seconds})
"""
TWO_LOOKS, TO_THE_END = 2.5, 25
"""Seconds: as long as an innocent rank is looked at; longer than any look takes to come, for one that is then ended."""
SHARED = """\
    if rank.rank == 0:
        kept = mmap.mmap(-1, {size} << 20)
        for _ in range({size}):
            kept.write(b'x' * 2**20)
"""
FORKED = """\
    if rank.rank == 0:
        for _ in range(4):
            if not os.fork():
                kept = b'x' * ({size} << 20)
                time.sleep(25)
                os._exit(0)
"""
COPIED = """\
    kept = b'x' * ({size} << 20)
    for _ in range(6):
        if not os.fork():
            time.sleep(2)
            os._exit(0)
"""
EARLY = "    if rank.rank < 2:\n        return\n    kept = b'x' * ({size} << 20)\n"
NAMELESS = {
    "a file of memory": "os.memfd_create('x')",
    "a removed file": "os.open('x', os.O_CREAT | os.O_RDWR); os.unlink('x')",
    "a removed file of shared memory": "os.open('/dev/shm/x', os.O_CREAT | os.O_RDWR); os.unlink('/dev/shm/x')",
}


@pytest.fixture
def hoard(run_on_ranks: RunIt) -> Callable[..., Run]:
    """Run a body on three ranks without a group."""

    def run(body: str, size: int, seconds: float = TWO_LOOKS, **how: object) -> Run:
        source = HOARD.format(body=body.format(size=size), seconds=seconds)
        return run_on_ranks("hoard", source=source, world_size=3, process_group=False, **{"limits": LIMITS, **how})

    return run


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_rank_began_with_is_never_charged_to_it(hoard: Callable[..., Run], level: str) -> None:
    """Two ranks are done and wait to be let go, the third uses most of what it may: a rank that has ended still has
    its base, and the run keeps the allowance of three."""
    run = hoard(EARLY, 200)
    assert all(isinstance(one.ending, Finished) for one in run.ranks), run


@pytest.mark.parametrize("level", LEVELS)
def test_pages_that_forks_share_are_counted_once(hoard: Callable[..., Run], level: str) -> None:
    """Eighteen forks of three ranks, each of which shows 150 MiB of its rank's and all of the host's."""
    run = hoard(COPIED, 150)
    assert all(isinstance(one.ending, Finished) for one in run.ranks), run


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("body", "size"), [(SHARED, 400), (FORKED, 120)], ids=["shared", "forked"])
def test_a_rank_may_not_use_what_the_others_leave(hoard: Callable[..., Run], level: str, body: str, size: int) -> None:
    """Less than three times the limit in shared memory or in child processes, which the kernel's limits do not see."""
    run = hoard(body, size, TO_THE_END, limits=Limits(memory=256 * MIB))
    assert run.diagnosis is not None and (run.diagnosis.kind, run.diagnosis.ranks) == ("limit", (0,)), run


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", NAMELESS)
def test_files_without_a_name_count(hoard: Callable[..., Run], level: str, kind: str) -> None:
    """Written and never mapped, they are in no folder and in no process's memory."""
    write = f"    fd = {NAMELESS[kind].partition(';')[0]}\n    {NAMELESS[kind].partition(';')[2].strip() or 'pass'}\n"
    run = hoard(write + "    for _ in range({size}):\n        os.write(fd, b'x' * 2**20)\n", 40, TO_THE_END)
    assert run.diagnosis is not None and run.diagnosis.kind == "limit", run
    assert "disk" in run.diagnosis.findings[0].sentence() or "files" in run.diagnosis.findings[0].sentence()


@pytest.mark.parametrize("level", ["bubblewrap"])
@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp"])
def test_files_in_memory_count_after_they_are_closed(hoard: Callable[..., Run], level: str, folder: str) -> None:
    """In the file systems that are a session's own. Below bubblewrap they are everybody's. Where the environment itself
    lies under /tmp, nobody can write there."""
    body = f"    with open(f'{folder}/{{{{rank.rank}}}}', 'wb') as file:\n        file.write(b'x' * ({{size}} << 20))\n"
    run = hoard(body, 40, TO_THE_END)
    assert run.diagnosis is not None
    if folder == "/tmp" and any(path.is_relative_to(folder) for path in sandbox.shown()):
        assert "Read-only file system" in run.diagnosis.findings[0].sentence()
    else:
        assert run.diagnosis.kind == "limit", run


def test_shared_memory_that_a_child_has_filled_counts() -> None:
    """Its pages stay while anybody has it mapped, and are in nobody's memory once the child has gone."""
    with mmap.mmap(-1, 64 * MIB) as kept:
        before = usage.own_memory(os.getpid())
        assert usage.nameless_files([os.getpid()]) >= 64 * MIB
        kept.write(b"x" * 32 * MIB)
        assert usage.own_memory(os.getpid()) - before >= 32 * MIB


def test_a_process_that_ends_while_its_threads_are_listed_has_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel then lists none, and no error: a run was given up for it once."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        tasks = os.open(f"/proc/{process.pid}/task", os.O_RDONLY)
    assert os.listdir(tasks) == []
    monkeypatch.setattr(os, "listdir", functools.partial(_listed, tasks))
    assert list(usage.descriptors([process.pid])) == []
    os.close(tasks)


def _listed(folder: int, _: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@pytest.mark.parametrize(
    ("end", "ending"),
    [("os._exit(7)", Exited(code="7", how="os._exit")), ("os.kill(os.getpid(), 11)", Killed(signal="SIGSEGV"))],
)
def test_a_rank_is_over_when_its_process_is_whatever_it_has_started(
    run_on_ranks: RunIt, end: str, ending: Ending
) -> None:
    """A process below it holds all that it had open, the pipe by which its end is heard of, too."""
    source = f"""\
import os, time

def work(rank):
    if os.fork() == 0:
        time.sleep(1000)
    {end}
"""
    run = run_on_ranks("work", source=source, world_size=1, process_group=False, deadline=60)
    assert replace(run.ranks[0].ending, seconds=0.0) == ending


def test_a_process_that_nobody_may_look_into_is_no_process_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is about to be gone, and has no memory any more, is."""

    def refused(*_: object) -> list[str]:
        raise PermissionError

    own = os.getpid()
    monkeypatch.setattr(os, "listdir", refused)
    for look in (lambda pids: list(usage.descriptors(pids)), usage.nameless_files):
        with pytest.raises(usage.Hidden, match="hidden processes"):
            look([own])
    monkeypatch.setattr(usage, "_kilobytes", lambda file, *names: iter(()))
    assert list(usage.descriptors([own])) == []


def test_a_rank_is_hidden_until_its_first_steps_and_nobody_after_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is a fork of the host, which hides itself; one may be stopped there for as long as it likes."""

    def refused(*_: object) -> int:
        raise usage.Hidden(7)

    monkeypatch.setattr(census, "EVERY", 60.0)
    monkeypatch.setattr(census, "DISK_EVERY", 0.0)
    monkeypatch.setattr(usage, "nameless_files", refused)
    counting = census.Census(LIMITS, tmp_path, 0)
    assert [counting.excess({0: 7}, {7}) for _ in range(2)] == [None, None]
    found = counting.excess({0: 7})
    assert found is not None and found.text.startswith("hidden processes")
