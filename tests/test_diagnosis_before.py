"""grader.ranks.diagnosis: where a rank is in the grader's own code, or has ended, what came before is told with it."""

from __future__ import annotations

from typing import Any

import pytest

from grader.model import Case, Deadlocked, Ending, Finding, Killed, Raised, RankRecord, StackFrame, Wait
from grader.model.trace import Communication, Trace
from grader.ranks.diagnosis import LEFT_BEHIND, MESSAGE_SIZE, SAME_SIZE, diagnose
from grader.ranks.inside.scene import CAUGHT

CASE = Case(name="sgd", world_size=3, probe="sgd")
STUDENT = (StackFrame(file="train_ddp.py", line=41, function="train_ddp", student=True),)
ELSEWHERE = Deadlocked(wait=Wait(operation="broadcast"), stack=STUDENT, seconds=2)


def diagnosed(*endings: Ending) -> tuple[Finding, ...]:
    found = diagnose(CASE, [RankRecord(rank=i, ending=ending) for i, ending in enumerate(endings)], "train_ddp.py")
    assert found is not None
    return found.findings


PROBE = (StackFrame(file="probe.py", line=9, function="save"),)


def test_an_operation_that_nothing_of_the_students_has_called_is_the_graders_own() -> None:
    """Nobody looks for a barrier that is not in their file."""
    own = Deadlocked(wait=Wait(operation="barrier"), stack=PROBE)
    assert diagnosed(own, ELSEWHERE)[0].sentence() == "Deadlock on rank 0: waits in barrier, the grader's own"


def test_what_a_rank_raised_before_it_waits_in_the_graders_own_code_is_told_with_its_line() -> None:
    """The probe has caught it and gone on, so that the wait is all that can be seen; and what to think about."""
    after = Deadlocked(
        wait=Wait(operation="barrier"), stack=PROBE, caught="OSError: \n[Errno 28] No space left", caught_at=29
    )
    found = diagnosed(after, ELSEWHERE)
    assert [finding.sentence() for finding in found] == [
        "Deadlock on rank 0: waits in barrier, the grader's own",
        "Meanwhile on rank 1: waits in broadcast (line 41)",
        "Before that, an exception was raised on rank 0: OSError: \n[Errno 28] No space left (line 29)",
    ]
    assert found[0].hint == "What do the other ranks do when one alone raises?"


def test_what_a_rank_raised_before_the_graders_own_code_met_a_crash_is_told() -> None:
    """Messages that the call has left behind were of another size than what the next call waits for."""
    met = Raised(type="RuntimeError", message="closed by peer", stack=PROBE, seconds=1.1, communication=True)
    before = {CAUGHT: ["IndexError: list index out of range", 13]}
    ranks = [
        RankRecord(rank=0, ending=met, observations=before),
        RankRecord(rank=1, ending=Killed(signal="SIGABRT", seconds=1)),
    ]
    found = diagnose(CASE, ranks, "train_ddp.py")
    assert found is not None and found.findings[-1].sentence() == (
        "Before that, an exception was raised on rank 0: IndexError: list index out of range (line 13)"
    )
    assert found.findings[0].hint == LEFT_BEHIND


@pytest.mark.parametrize("odd", [7, [], [3, 4], ["x", "y"], ["x"], {"x": 1}, ["x", 1, 2], "xy"])
def test_what_is_no_caught_exception_is_not_told_as_one(odd: Any) -> None:
    """A rank may send anything under any name."""
    met = Raised(type="RuntimeError", message="closed by peer", stack=PROBE, seconds=1.1)
    assert diagnose(CASE, [RankRecord(rank=0, ending=met)], "x.py") == diagnose(
        CASE, [RankRecord(rank=0, ending=met, observations={CAUGHT: odd})], "x.py"
    )


@pytest.mark.parametrize(("last", "hint"), [("recv", MESSAGE_SIZE), ("all_reduce", SAME_SIZE)])
def test_a_crash_after_messages_has_the_hint_of_messages(last: str, hint: str) -> None:
    """Where no collective was called, nobody is to look at one."""
    calls = tuple(
        Communication(operation=name, bytes=8, dtype="float32", group=(0, 1), start=0.1) for name in ("send", last)
    )
    ending = Killed(signal="SIGABRT", seconds=1)
    found = diagnose(CASE, [RankRecord(rank=0, ending=ending, trace=Trace(communications=calls))], "train_ddp.py")
    assert found is not None and found.findings[0].hint == hint


def test_what_a_rank_raised_is_not_told_where_it_is_in_the_students_code_again() -> None:
    """That exception is over."""
    again = Deadlocked(wait=Wait(operation="barrier"), stack=STUDENT, caught="ValueError: x", caught_at=2)
    assert len(diagnosed(again, ELSEWHERE)) == 2
