"""grader.timeline: what each rank did, when, and what it was stuck in."""

from __future__ import annotations

import math

from grader.model import Case, Deadlocked, Ending, Finished, RankRecord, Run, Wait
from grader.model.trace import Communication, Span, Trace
from grader.timeline import length_of, schedules, timeline


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


# ── steps ──


def spans(*rows: tuple[str, str, float, float | None]) -> tuple[Ending, Trace]:
    """A rank that finished, with these spans: kind, name, start, end."""
    marked = tuple(Span(kind=kind, name=name, start=start, end=end) for kind, name, start, end in rows)
    return Finished(seconds=0.9), Trace(spans=marked)


def test_steps_are_told_by_the_region_that_they_lie_in() -> None:
    """Steps outside of any region, and regions without steps, are left out; a rank that did nothing there has a row."""
    first = spans(
        ("step", "early", 0.01, 0.02),
        ("region", "one", 0.1, 0.3), ("step", "forward 0", 0.1, 0.15), ("step", "backward 0", 0.2, 0.3),
        ("region", "two", 0.4, 0.5),
    )  # fmt: skip
    (found,) = schedules(timeline(run(first, spans(("region", "one", 0.1, 0.3)), spans())))
    names = {rank: [getattr(step.source, "name", "") for step in steps] for rank, steps in found.rows.items()}
    assert (found.name, names) == ("one", {0: ["forward 0", "backward 0"], 1: []})
    assert (found.start, found.end) == (0.1, 0.3)


def test_a_rank_is_idle_where_it_is_in_no_step() -> None:
    """Steps that overlap count once."""
    busy = spans(("region", "one", 0.0, 0.8), ("step", "a", 0.0, 0.2), ("step", "b", 0.1, 0.4))
    late = spans(("region", "one", 0.0, 0.8), ("step", "a", 0.6, 0.8))
    (found,) = schedules(timeline(run(busy, late)))
    assert [round(found.idle(rank), 6) for rank in (0, 1)] == [0.5, 0.75]


def test_forged_steps_stay_inside_the_run() -> None:
    """Whatever a rank says of its times, and however often it enters a region of one name."""
    odd = spans(
        ("region", "", math.nan, None), ("region", "", -1.0, 1e300), ("step", "", math.nan, -5.0),
        ("step", "", 1e300, None),
    )  # fmt: skip
    for found in schedules(timeline(broken := run(odd))):
        assert 0 <= found.start <= found.end <= length_of(broken) and 0 <= found.idle(0) <= 1
