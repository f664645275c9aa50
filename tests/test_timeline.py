"""grader.timeline: what each rank did, when, and what it was stuck in."""

from __future__ import annotations

import math

from grader.model import Case, Deadlocked, Ending, Finished, RankRecord, Run, Wait
from grader.model.trace import Communication, Trace
from grader.timeline import length_of, timeline


def call(operation: str, start: float, end: float | None, peer: int | None = None) -> Communication:
    return Communication(operation=operation, bytes=8, dtype="float32", group=(0, 1), peer=peer, start=start, end=end)


def run(*ranks: tuple[Ending, Trace | None]) -> Run:
    records = tuple(RankRecord(rank=i, ending=ending, trace=trace) for i, (ending, trace) in enumerate(ranks))
    return Run(case=Case(name="a", world_size=len(ranks), probe="a"), ranks=records, seconds=1.0)


def traced(*calls: Communication) -> Trace:
    return Trace(communications=calls)


def test_a_wait_that_only_the_grader_saw_is_the_last_event() -> None:
    """From the end of the last thing that the rank did until the run was over."""
    stuck = Deadlocked(wait=Wait(operation="recv from rank 1", peer=1), seconds=0.8)
    (band,) = timeline(run((stuck, traced(call("all_reduce", 0.1, 0.2)))))
    last = band.events[-1]
    assert (last.operation, last.start, last.end, last.stuck) == ("recv", 0.2, 0.8, True) and last.source is band.wait


def test_a_wait_that_the_trace_tells_is_not_told_twice() -> None:
    """What was not seen to end is what the rank is stuck in."""
    stuck = Deadlocked(wait=Wait(operation="barrier"), seconds=0.8)
    (band,) = timeline(run((stuck, traced(call("barrier", 0.1, None)))))
    assert [event.stuck for event in band.events] == [True]


def test_times_that_a_rank_made_up_are_brought_inside_the_run() -> None:
    """Nothing is drawn outside."""
    odd = traced(call("barrier", -5.0, 1e300), call("barrier", math.nan, 0.5), call("barrier", 0.7, 0.1))
    bands = timeline(broken := run((Finished(seconds=0.9), odd)))
    assert all(0 <= event.start <= event.end <= length_of(broken) for event in bands[0].events)


def test_sends_and_receives_are_paired_and_calls_counted() -> None:
    """The n-th message between two ranks, and the n-th call of a group, belong together."""
    sender = traced(call("all_reduce", 0.1, 0.2), call("send", 0.3, 0.4, peer=1), call("send", 0.5, 0.6, peer=1))
    taker = traced(call("all_reduce", 0.1, 0.2), call("recv", 0.3, 0.4, peer=0), call("recv", 0.5, 0.6, peer=0))
    first, second = timeline(run((Finished(seconds=0.9), sender), (Finished(seconds=0.9), taker)))
    expected = [(((0, 1), 0), None), (None, (0, 1, 0)), (None, (0, 1, 1))]
    assert [(event.call, event.message) for event in first.events] == expected
    assert [(event.call, event.message) for event in second.events] == expected
