"""Meetings of ranks without a group: who waits sleeps until another rings, and a deadlock is seen there as anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader.kit import meeting
from grader.model import Deadlocked, Finished
from tests.conftest import RunIt


class Waiter:
    """A rank in a thread of the test: it says when it begins to wait, and in what."""

    def __init__(self, shared: Path, rank: int, world_size: int = 2) -> None:
        self.shared, self.rank, self.world_size = shared, rank, world_size
        self.waits = threading.Event()
        self.operations: list[str] = []

    def waiting(self, operation: str, function: Callable[[], Any]) -> Any:
        self.operations.append(operation)
        self.waits.set()
        return function()


def test_all_hear_what_each_has_said(tmp_path: Path) -> None:
    """Whoever comes first waits for the others, and all are told the same."""
    first, second = Waiter(tmp_path, 0), Waiter(tmp_path, 1)
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(meeting.tell_all, first, "ports", 7)
        assert first.waits.wait(meeting.PATIENCE)
        assert meeting.tell_all(second, "ports", 8) == heard.result() == {0: 7, 1: 8}
    assert first.operations == [meeting.WAIT]


def test_ranks_may_meet_as_often_as_they_like(tmp_path: Path) -> None:
    """A ring that came too early for one meeting does no harm in the next."""
    ranks = [Waiter(tmp_path, number) for number in range(2)]

    def met(rank: Waiter) -> list[dict[int, int]]:
        return [meeting.tell_all(rank, f"topic {turn}", turn * rank.rank) for turn in range(50)]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(met, ranks)
    assert one == other == [{0: 0, 1: turn} for turn in range(50)]


def test_who_will_never_come_is_not_waited_for(tmp_path: Path) -> None:
    """Once somebody rings, those that wait ask again whether the others will come."""
    rank, gone = Waiter(tmp_path, 0), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(meeting.tell_all, rank, "ports", given_up=lambda number: gone.is_set())
        assert rank.waits.wait(meeting.PATIENCE)
        gone.set()
        meeting.ring(rank, range(2))
        with pytest.raises(meeting.NeverMeet, match=r"the processes \[1\] do not come"):
            heard.result()


def test_a_wait_is_given_up(tmp_path: Path) -> None:
    """After the seconds that were allowed it is over, whoever rings."""
    with pytest.raises(meeting.NeverMeet):
        meeting.tell_all(Waiter(tmp_path, 0), "ports", seconds=0.0)


MEETS = """
import torch, torch.distributed as dist
from grader.kit import meeting

def meets_and_another_communicates(rank):
    if rank.rank == 0:
        meeting.meet(rank, "returned")
    dist.all_reduce(torch.zeros(1))

def meets_and_another_has_returned(rank):
    if rank.rank == 0:
        meeting.meet(rank, "returned")
"""


def test_a_meeting_is_a_wait_like_any_other(run_on_ranks: RunIt) -> None:
    """One rank waits for the others at a meeting, and the other one in a collective: neither goes on, and both are told
    before the meeting is given up, which would be an exception."""
    run = run_on_ranks("meets_and_another_communicates", source=MEETS, deadline=2 * meeting.PATIENCE)
    assert run.diagnosis is not None and run.diagnosis.kind == "deadlocked"
    endings = [record.ending for record in run.ranks]
    told = [ending.wait.operation for ending in endings if isinstance(ending, Deadlocked)]
    assert told == [f"{meeting.WAIT} (called by meet)", "all_reduce"]


def test_a_meeting_with_a_rank_that_has_returned_is_a_deadlock(run_on_ranks: RunIt) -> None:
    """Who has come to its end comes to no meeting."""
    run = run_on_ranks("meets_and_another_has_returned", source=MEETS, deadline=2 * meeting.PATIENCE)
    assert run.diagnosis is not None and run.diagnosis.kind == "deadlocked"
    waits, ended = (record.ending for record in run.ranks)
    assert isinstance(waits, Deadlocked) and isinstance(ended, Finished)
