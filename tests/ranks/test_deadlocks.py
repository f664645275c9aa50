"""Real ranks: a deadlock is called and nothing else is."""

from __future__ import annotations

import time

import pytest

from grader.model import Deadlocked
from tests.conftest import RunIt
from tests.ranks.told import line_of, sentences

DEADLOCKS = {
    "skips_a_collective": {0: ("all_reduce", "dist.all_reduce")},
    "calls_different_collectives": {0: ("all_reduce", "dist.all_reduce"), 1: ("barrier", "dist.barrier")},
    "receives_from_everybody_first": {0: ("recv from rank 1", "dist.recv"), 1: ("recv from rank 0", "dist.recv")},
    "waits_for_a_message_never_sent": {0: ("recv from rank 1", "work.wait"), 1: ("recv from rank 0", "work.wait")},
    "skips_a_backward": {0: ("all_reduce (called by backward)", "backward()")},
    "skips_a_functional_collective": {0: ("all_reduce", "functional.all_reduce")},
    "both_send_first_in_a_group": {0: ("send to rank 2", "dist.send"), 2: ("send to rank 0", "dist.send")},
    "lets_go_of_a_message": {0: ("barrier", "dist.barrier"), 1: ("recv from rank 0", "dist.recv")},
    "waits_in_a_thread": {0: ("all_reduce", "thread.join")},
}


@pytest.mark.parametrize("behaviour", DEADLOCKS)
def test_a_deadlock_is_called_with_operation_and_line(run_on_ranks: RunIt, behaviour: str) -> None:
    """Long before the deadline, for collectives and point-to-point waits, from Python and from C++."""
    run = run_on_ranks(behaviour, world_size=max(2, 1 + max(DEADLOCKS[behaviour])), deadline=60.0)
    assert run.diagnosis and run.diagnosis.kind == "deadlocked" and run.seconds < 30
    for rank, (operation, text) in DEADLOCKS[behaviour].items():
        ending = run.ranks[rank].ending
        assert isinstance(ending, Deadlocked) and ending.wait.operation.startswith(operation)
        assert ending.at == line_of(text, behaviour)
    assert sum(isinstance(record.ending, Deadlocked) for record in run.ranks) == len(DEADLOCKS[behaviour])


def test_who_let_go_of_a_message_is_named(run_on_ranks: RunIt) -> None:
    """Its loop turns; the rank that waits for the message has done nothing wrong."""
    run = run_on_ranks("lets_go_of_a_message", deadline=60.0)
    assert run.diagnosis and (run.diagnosis.findings[0].hint or "").startswith("Rank 0 let go of a message")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "behaviour",
    [
        "one_never_joins",
        "meet_at_different_ports",
        "waits_for_a_store_that_nobody_serves",
        "join_under_different_names",
    ],
)
def test_a_meeting_that_cannot_come_about_is_a_deadlock(run_on_ranks: RunIt, behaviour: str) -> None:
    """Ranks in init_process_group poll and retry, so this is seen from where they meet, not from their sleep."""
    run = run_on_ranks(behaviour, process_group=False, deadline=60.0)
    assert run.diagnosis and run.diagnosis.kind == "deadlocked" and run.seconds < 30
    assert "waits in" in sentences(run) or "wait in" in sentences(run)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "behaviour",
    [
        "sleeps_before_a_collective",
        "computes_before_a_collective",
        "sleeps_in_a_thread_that_then_sends",
        "sleeps_while_holding_the_gil",
        "moves_a_large_tensor",
        "holds_a_model_when_the_group_goes",
    ],
)
def test_a_slow_rank_is_never_called_deadlocked(run_on_ranks: RunIt, behaviour: str) -> None:
    """Sleeping, computing, waiting for a slow peer and moving much data are no deadlocks."""
    run = run_on_ranks(behaviour)
    assert run.diagnosis is None, sentences(run)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("behaviour", ["joins_late", "joins_late_with_a_store_of_his_own"])
def test_a_rank_that_joins_late_is_waited_for(run_on_ranks: RunIt, behaviour: str) -> None:
    """The other rank looks for the server again and again meanwhile."""
    assert run_on_ranks(behaviour, process_group=False).diagnosis is None


# -- the other way to start --------------------------------------------------------------------------------------------


def test_the_deadlock_verdict_needs_no_deadline(run_on_ranks: RunIt) -> None:
    """It comes within seconds of the last progress, whatever the deadline."""
    start = time.monotonic()
    run_on_ranks("skips_a_collective", deadline=600.0)
    assert time.monotonic() - start < 60


def test_a_stuck_rank_tells_what_it_did_before(run_on_ranks: RunIt) -> None:
    """Without a trace too: the Flight Recorder has the collectives, the last of which is not over."""
    source = """\
import torch, torch.distributed as dist

def student(rank):
    dist.broadcast(torch.zeros(3, dtype=torch.float64), 0)
    if dist.get_rank() == 0:
        dist.all_reduce(torch.zeros(2))
"""
    run = run_on_ranks("student", source=source, world_size=2, process_group=True)
    first, second = ([*record.trace.communications] for record in run.ranks)
    assert [(event.operation, event.bytes, event.group) for event in first] == [
        ("broadcast", 24, (0, 1)),
        ("all_reduce", 8, (0, 1)),
    ]
    assert first[0].end is not None and first[1].end is None
    assert [event.operation for event in second] == ["broadcast"]
    assert 0 < first[0].start < first[1].start < run.seconds
    assert [record.output for record in run.ranks] == ["", ""]
