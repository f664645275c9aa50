"""What a submission may make the grader keep: beyond a budget there is a verdict that names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from grader.grading.spending import Spending, memory_of
from grader.model import MIB, Case, Finished, Killed, OpenedFile, RankRecord, Run, budgets
from grader.model.errors import WireError
from grader.model.trace import Communication, Trace
from grader.ranks.inside import tracer
from grader.ranks.watch.account import Account, OverBudget, require_affordable
from grader.records import wire

CASE = Case(name="train", world_size=1, probe="train")
EVENT = Communication(operation="send", bytes=1, dtype="int8", group=(0,), start=0.0)


def frame(value: Any) -> bytes:
    return wire.encode({"name": "x", "value": value})


def run(observed: Any = None, events: int = 0, opened: Any = None) -> Run:
    record = RankRecord(
        rank=0, ending=Finished(), observations={"x": observed}, trace=Trace(communications=(EVENT,) * events)
    )
    return Run(case=CASE, ranks=(record,), seconds=1.0, opened=(OpenedFile(digest="x", content=opened),))


@pytest.fixture
def values() -> Iterator[list[Any]]:
    """Such as are expensive for their length on the way."""
    yield [
        [[]] * 20_000,
        [{} for _ in range(20_000)],
        [{"a": 0} for _ in range(20_000)],
        [{"a": [{}]} for _ in range(10_000)],
        ["a" * 10_000 + "\U0001f600"] * 20,
        [float(n) for n in range(20_000)],
        {str(n): None for n in range(20_000)},
        dict.fromkeys(range(20000), True),
        [b""] * 5_000,
        torch.zeros(100_000),
    ]


def test_a_frame_costs_no_more_than_is_estimated(values: list[Any]) -> None:
    """Whatever is in it: what Python really allocates for what stays is less."""
    import tracemalloc

    for value in values:
        told = frame(value)
        tracemalloc.start()
        kept = wire.decode(told)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size < wire.cost(told) and size < memory_of(kept) + 100_000, str(kept)[:40]


def test_a_rank_may_record_so_much_and_no_more() -> None:
    """By number, and by what it takes in memory; an empty list takes as much as two hundred letters."""
    account = Account()
    with pytest.raises(OverBudget, match=r"^observations: more than 1000 of one rank$"):
        for _ in range(budgets.OBSERVATIONS + 1):
            account.observe(frame(1))
    with pytest.raises(OverBudget, match=r"^observations: more than 32 MiB of one rank$"):
        Account().observe(frame([[]] * 300_000))
    Account().observe(frame(list(range(100_000))))
    Account().observe(frame(torch.zeros(30 * MIB, dtype=torch.uint8)))


def test_all_ranks_of_a_run_may_send_so_much_together() -> None:
    """Halves of messages, which the supervisor has to keep, count."""
    require_affordable([20 * MIB] * 3)
    with pytest.raises(OverBudget, match=r"^observations: more than 64 MiB of all ranks$"):
        require_affordable([20 * MIB] * 4)


def test_a_rank_says_no_more_than_it_was_asked() -> None:
    """Two messages to a question, and a few by itself."""
    account = Account()
    account.asked = 5
    with pytest.raises(OverBudget, match=r"^messages: 27 of one rank, which was asked 5 questions$"):
        for _ in range(100):
            account.answer()


def test_a_rank_is_looked_at_so_often_and_under_each_name_once() -> None:
    """A look costs the supervisor some milliseconds, and who could ask twice could choose the better one."""
    account = Account()
    for number in range(budgets.SEEN):
        account.see(f"look {number}")
    with pytest.raises(WireError, match=r"^the name 'look 7' for two looks at it$"):
        account.see("look 7")
    with pytest.raises(OverBudget, match=r"^looks from outside: more than 40 at one rank$"):
        account.see("one more")


def test_the_tracer_keeps_as_many_events_as_may_cross() -> None:
    """It imports nothing of ours, so it has a number of its own."""
    assert tracer.MAX_EVENTS == budgets.EVENTS


@pytest.mark.parametrize(
    ("large", "limit"),
    [
        (run(observed=torch.zeros(60 * MIB, dtype=torch.uint8)), "observations: more than 128 MiB of all runs"),
        (run(opened=torch.zeros(60 * MIB, dtype=torch.uint8)), "observations: more than 128 MiB of all runs"),
        (run(events=40_000), "events: more than 100000 in the traces of all runs"),
    ],
)
def test_a_grade_keeps_so_much_of_all_its_runs(large: Run, limit: str) -> None:
    """The run that is too much has failed for that, and is not kept; smaller ones that come later are."""
    spending = Spending([large])
    assert spending.charged(large, "x.py") is large
    ended = spending.charged(large, "x.py")
    assert ended.ranks[0].ending == Killed(signal="SIGKILL", by_grader=True, limit=limit)
    assert not ended.ranks[0].observations and not ended.opened and ended.ranks[0].trace is None
    assert ended.diagnosis is not None and ended.diagnosis.kind == "limit"
    assert "Reached the limit on" in ended.diagnosis.findings[0].sentence()
    small = run(observed=1)
    assert spending.charged(small, "x.py") is small


def test_a_file_that_several_ranks_have_recorded_counts_once() -> None:
    """Each of them, and some again and again, tells the same bytes."""
    records = [
        RankRecord(rank=rank, ending=Finished(), observations={"file": bytes(40 * MIB), "again": [bytes(40 * MIB)]})
        for rank in (0, 1)
    ]
    kept = Spending().charged(replace(run(), ranks=tuple(records)), "x.py")
    assert kept.diagnosis is None
    told = [one.observations for one in kept.ranks]
    assert len({id(each) for seen in told for each in (seen["file"], *seen["again"])}) == 1
