"""grader.wording.strip: who was in which communication when, in letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.model import Deadlocked, Ending, Finished, RankRecord, Run, TimedOut, Wait
from grader.model.trace import Communication, Trace
from grader.render import terminal
from grader.wording.strip import legend, strips
from tests.reports import case, deadlock


def event(operation: str, start: float, end: float | None) -> Communication:
    return Communication(operation=operation, bytes=8, dtype="float", group=(0, 1), start=start, end=end)


def rank(number: int, ending: Ending, *events: Communication) -> RankRecord:
    return RankRecord(rank=number, ending=ending, trace=Trace(communications=events, complete=False))


def run(*ranks: RankRecord) -> Run:
    return Run(case=case(world_size=len(ranks)), ranks=ranks, seconds=1.0)


STUCK = run(
    rank(0, Deadlocked(seconds=0.9, wait=Wait(operation="all_reduce")), event("broadcast", 0.1, 0.2),
         event("all_reduce", 0.3, None)),
    rank(1, Deadlocked(seconds=0.9, wait=Wait(operation="recv from rank 0", peer=0)), event("broadcast", 0.1, 0.2)),
    rank(2, Finished(seconds=0.25), event("broadcast", 0.15, 0.2)),
)  # fmt: skip


def test_each_rank_has_a_letter_for_each_moment():
    assert strips(STUCK, 40) == [(0, "·bb··RRR"), (1, "·bbQQQQQ"), (2, "··b·")]


def test_the_legend_names_what_occurs():
    assert legend(STUCK) == "b broadcast, q recv, r all_reduce, a capital waits without end"


def test_an_operation_without_a_letter_of_its_own_is_named_too():
    odd = run(rank(0, Finished(seconds=1.0), event("all_gather_object", 0.1, 0.2)))
    assert strips(odd, 40) == [(0, "·o·")]
    assert "o all_gather_object" in legend(odd)


def test_a_strip_that_is_too_long_shows_its_end():
    events = [event("all_reduce", moment / 10, moment / 10 + 0.05) for moment in range(1, 60)]
    long = run(rank(0, Deadlocked(seconds=9, wait=Wait(operation="barrier")), *events))
    ((_, row),) = strips(long, 20)
    assert len(row) == 20 and row.startswith("…") and row.endswith("XXX")


def test_ranks_without_a_trace_have_no_strip():
    bare = replace(STUCK, ranks=tuple(replace(record, trace=None) for record in STUCK.ranks))
    assert strips(bare, 40) == []


def test_a_rank_that_ran_out_of_time_in_communication_waits_too():
    late = run(rank(0, TimedOut(seconds=5, wait=Wait(operation="barrier")), event("all_reduce", 0.1, 0.2)))
    assert strips(late, 40) == [(0, "·rXXX")]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_the_page_of_a_deadlock_shows_it_within_its_width(width):
    report = deadlock()
    traced = replace(report.runs[1], ranks=STUCK.ranks)
    page = terminal.render(replace(report, runs=(report.runs[0], traced)), width=width)
    assert "      0     ·bb··RRR" in page and "in order, from left to right" in page
    assert max(map(len, page.splitlines())) <= width
