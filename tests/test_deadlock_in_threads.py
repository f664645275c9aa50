"""Real ranks that are stuck while some thread of theirs waits in C: called as deadlocks, at the line."""

from __future__ import annotations

import os

import pytest

from grader.model import Case, Deadlocked, RankRecord, Wait
from grader.ranks.diagnosis import diagnose
from grader.timeline import Event
from tests.conftest import LEVELS, RunIt

PROGRAMS = {
    "an idle pool": """
POOL = ThreadPoolExecutor(2)
def wanted(rank, *, lr=0.1):
    POOL.submit(int).result()
    dist.send(torch.ones(3), dst=1 - rank.rank)  # here
""",
    "a queue": """
def wanted(rank, *, lr=0.1):
    items = queue.SimpleQueue()
    threading.Thread(target=lambda: items.put(dist.recv(torch.ones(3), src=1 - rank.rank)), daemon=True).start()
    items.get()  # here
""",
    "a lock": """
def wanted(rank, *, lr=0.1):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # here
""",
}
"""One for each way in which a thread may wait; `# here` marks the line of the main thread."""
IMPORTS = """import queue, threading
from concurrent.futures import ThreadPoolExecutor
import torch
import torch.distributed as dist
"""
WAITS = {"an idle pool": "send to rank", "a queue": "recv from rank", "a lock": "a lock of its own process"}


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.skipif(not os.access("/proc/self/syscall", os.R_OK), reason="the kernel does not tell")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thread_that_waits_in_c_hides_no_deadlock(run_on_ranks: RunIt, name: str) -> None:
    """Its frame is a line of the student's, or of a pool's idle worker, and looks as if it computed."""
    source = IMPORTS + PROGRAMS[name]
    run = run_on_ranks("wanted", source=source, deadline=60.0)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if text.endswith("# here"))
    for record in run.ranks:
        assert isinstance(record.ending, Deadlocked) and record.ending.wait.operation.startswith(WAITS[name])
        assert record.ending.at == line
    assert run.seconds < 30


def test_a_lock_has_its_own_hint_and_a_letter_by_its_name() -> None:
    """Whatever the other ranks wait in, the lock is where to look."""
    lock = Wait(operation="a lock of its own process")
    endings = [Deadlocked(wait=lock), Deadlocked(wait=Wait(operation="recv from rank 0"))]
    case = Case(name="sgd", world_size=2, probe="sgd")
    found = diagnose(case, [RankRecord(rank=i, ending=ending) for i, ending in enumerate(endings)], "train_ddp.py")
    assert found is not None and "another thread of the same rank" in str(found.findings[0].hint)
    assert Event(source=lock, start=0.0, end=1.0).operation == "lock"
