"""What checks work out of recorded runs is worked out once, and whoever asks again hears the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.checks import CheckFailed, RankView, Runs, RunView, holds, once
from grader.checks.once import worked_out
from grader.model import Case, Finished, RankRecord, Run

CASES = tuple(Case(name=name, world_size=1, probe="probe") for name in ("first", "second"))
worked: list[str] = []
"""What was worked out, in order."""


@pytest.fixture(autouse=True)
def afresh() -> None:
    worked.clear()


def run_of(case: Case) -> Run:
    return Run(case=case, ranks=(RankRecord(rank=0, ending=Finished(), observations={"value": 3}),), seconds=1.0)


def runs_from(give: Callable[[Case], Run]) -> Runs:
    return Runs(CASES, give)


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def runs(asked: list[str]) -> Runs:
    made = {case.id: run_of(case) for case in CASES}

    def give(case: Case) -> Run:
        asked.append(case.name)
        return made[case.id]

    return runs_from(give)


@once
def doubled(rank: RankView, factor: int = 2) -> list[int]:
    """A fact of one rank, by a factor."""
    worked.append(f"doubled by {factor}")
    return [factor * rank.read("value", int)]


@once
def both(runs: Runs) -> list[int]:
    worked.append("both")
    return [*first(runs), *doubled(runs("second")[0][0])]


@once
def first(runs: Runs) -> list[int]:
    worked.append("first")
    return doubled(runs("first")[0][0])


def is_four(runs: Runs) -> None:
    """An expectation that does not hold, at a module's top as checks are."""
    worked.append("is_four")
    rank = runs("first")[0][0]
    rank.expect_equal(rank.read("value", int), 4, "the value")


def breaks(runs: Runs) -> None:
    worked.append("breaks")
    raise ZeroDivisionError


def test_the_same_arguments_give_the_same_object(runs: Runs) -> None:
    (run,) = runs("first")
    assert doubled(run[0]) is doubled(run[0]) == [6]
    assert doubled(run[0], 5) == [15]
    assert doubled(run[0], factor=5) == [15]
    assert worked == ["doubled by 2", "doubled by 5", "doubled by 5"]


def test_ranks_are_told_apart(runs: Runs) -> None:
    first_rank, second_rank = runs("first")[0][0], runs("second")[0][0]
    assert doubled(first_rank) is not doubled(second_rank)


def test_a_run_is_seen_as_one_object_as_long_as_it_is_the_same(asked: list[str]) -> None:
    runs = runs_from(lambda case: run_of(case) if case.name == "first" else same)
    same = run_of(CASES[1])
    assert runs("second")[0] is runs("second")[0]
    assert runs("first")[0] is not runs("first")[0]


def test_facts_of_one_grade_are_nobody_elses(runs: Runs) -> None:
    other = RunView(run_of(CASES[0]))
    assert doubled(other[0]) == doubled(runs("first")[0][0])
    assert worked == ["doubled by 2"] * 2


def test_runs_that_a_fact_rests_on_are_asked_for_each_time(runs: Runs, asked: list[str]) -> None:
    """A panel notes what a check has looked at, and tells that where the check finds nothing."""
    assert both(runs) == [6, 6]
    assert asked == ["first", "second"]
    asked.clear()
    both(runs)
    assert asked == ["first", "second"]
    asked.clear()
    first(runs)
    assert asked == ["first"]
    assert worked == ["both", "first", "doubled by 2", "doubled by 2"]


def test_a_fact_rests_on_the_runs_of_facts_that_were_known_before(runs: Runs, asked: list[str]) -> None:
    first(runs)
    both(runs)
    asked.clear()
    both(runs)
    assert asked == ["first", "second"]


def test_what_does_not_hold_is_found_out_once(runs: Runs) -> None:
    assert not holds(is_four, runs)
    assert not holds(is_four, runs)
    for _ in range(2):
        with pytest.raises(CheckFailed, match="the value"):
            worked_out(is_four, (runs,), {})
    assert worked == ["is_four"]


def test_a_fault_of_the_checks_is_no_fact(runs: Runs) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            holds(breaks, runs)
    assert worked == ["breaks"] * 2


def test_what_cannot_be_named_again_is_not_kept(runs: Runs) -> None:
    def inner(runs: Runs) -> None:
        worked.append("inner")

    (rank,) = runs("first")[0]
    assert holds(inner, runs)
    assert holds(inner, runs)
    assert holds(rank.expect_equal, [1], [1], "a list")
    assert not holds(rank.expect_equal, [1], [2], "a list")
    assert worked == ["inner"] * 2
    assert doubled.__doc__ == "A fact of one rank, by a factor."


def test_unhashable_arguments_are_worked_out_each_time(runs: Runs) -> None:
    assert not holds(lists, runs, [1])
    assert not holds(lists, runs, [1])
    assert worked == ["lists"] * 2


def lists(runs: Runs, numbers: list[int]) -> None:
    worked.append("lists")
    runs("first")[0][0].expect_equal(numbers, [2], "the numbers")
