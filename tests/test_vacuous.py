"""No check passes for want of anything to look at. One that asks for communication asks for a least amount too: shown a
run in which nothing was communicated, or nothing was recorded of it, it does not pass. One that looks at what ranks
have recorded does not pass where a rank has recorded nothing, or not that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.judge import judge
from grader.model import Outcome, Run
from grader.model.trace import Trace
from grader.model.witness import Witness
from tests.solutions import Solutions

ROOT = Path(__file__).parents[1]
BY_TRACE = {"synchronised_once", "overlaps"}
BUCKETS = {"waits", "bucket_sizes", "bucket_count", "default_cap", "overlaps", "asynchronous"}
BUCKETS |= {"frozen", "tied", "dtypes"}
JUDGED = {
    "00_warm_up": (set(), {"total", "gathers", "averages"}),
    "01_process_group": (set(), {"joins"}),
    "03_train_ddp": (set(), {"same_as_one_process"}),
    "05_no_sync": (BY_TRACE, {"all_ranks", "synchronised_once"}),
    "07_sharded_optimizer": (set(), {"same_as_unsharded"}),
    "08_ring_all_reduce": (
        {"point_to_point", "neighbour", "messages", "volume", "group_ring"},
        {"point_to_point", "neighbour", "messages", "volume", "group_ring"},
    ),
    "09_ddp_from_scratch": (BUCKETS, {"averages"}),
    "10_zero2": ({"traffic"}, {"same_as_unsharded"}),
    "11_zero3": ({"gathers", "reduces"}, {"same_as_unsharded"}),
    "12_fully_shard": ({"all_gathers", "reduce_scatters", "every_block"}, {"nothing_else"}),
    "13_tensor_parallel": ({"forward_traffic", "backward_traffic", "groups"}, {"forward_traffic"}),
    "15_mesh_2d": ({"activations", "gradients"}, {"own_groups"}),
    "14_pipeline": ({"messages", "dtypes"}, {"messages"}),
    "18_clip_grad_norm": ({"one_collective", "groups"}, {"one_collective"}),
}
"""By exercise the checks that judge communication by what the ranks tell, and by what the kernel has counted."""
ELSEWHERE = {"01_process_group": ("join", {"default_address", "default_port", "both_defaults"})}
"""A family, and checks that judge other runs likewise as long as that family's are right."""


OBSERVED = ("04_launch_distributed", "06_checkpoint")
"""Those whose checks look at what was recorded, and at no communication."""


def silent(run: Run, rank: int | None = None) -> Run:
    """A rank, or every rank, finished and has recorded nothing."""
    ranks = [replace(r, observations={} if rank in (None, r.rank) else r.observations) for r in run.ranks]
    return replace(run, ranks=tuple(ranks))


def without_traces(run: Run) -> Run:
    return replace(run, ranks=tuple(replace(record, trace=None) for record in run.ranks))


def with_empty_traces(run: Run) -> Run:
    """The regions are there, and nothing was launched in them."""
    emptied = [replace(record.trace or Trace(), communications=()) for record in run.ranks]
    return replace(run, ranks=tuple(replace(r, trace=trace) for r, trace in zip(run.ranks, emptied, strict=True)))


def with_nothing_moved(run: Run) -> Run:
    return replace(run, witness=Witness())


@pytest.mark.timeout(600)
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", JUDGED)
def test_without_communication_no_check_of_it_passes(name: str, solved: Solutions) -> None:
    """The solution's own runs pass; blinded or emptied they do not."""
    solution = solved(name)
    exercise = solution.exercise
    assert {verdict.outcome for verdict in solution.verdicts()} == {Outcome.PASSED}
    by_trace, by_kernel = JUDGED[name]
    blinders: dict[Callable[[Run], Run], set[str]] = {with_nothing_moved: by_kernel}
    if name in ELSEWHERE:
        family, judged = ELSEWHERE[name]
        blinders[lambda run: run if run.case.name == family else with_nothing_moved(run)] = judged
    if by_trace:
        blinders |= {without_traces: by_trace, with_empty_traces: by_trace}
    for blind, wanted in blinders.items():
        verdicts = judge(exercise, solution.submission, [blind(run) for run in solution.runs])
        passed = {verdict.check.id for verdict in verdicts if verdict.outcome is Outcome.PASSED}
        assert not passed & wanted, blind.__name__


@pytest.mark.one_in(3)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OBSERVED)
def test_without_observations_no_check_passes(name: str, solved: Solutions) -> None:
    """Nor does it with the observations of all case families but one, if it looks at one that is silent: what a check
    looks at is seen by making each family silent in turn."""
    solution = solved(name)
    exercise = solution.exercise
    assert {verdict.outcome for verdict in solution.verdicts()} == {Outcome.PASSED}
    free = replace(exercise, checks=tuple(replace(check, needs=()) for check in exercise.checks))

    def failing(runs: list[Run]) -> set[str]:
        verdicts = judge(free, solution.submission, runs)
        return {verdict.check.id for verdict in verdicts if verdict.outcome is Outcome.FAILED}

    every = {check.id for check in exercise.checks}
    assert failing([silent(run) for run in solution.runs]) == every
    seen = set()
    for family in {case.name for case in exercise.cases}:
        seen |= failing([silent(run, 0) if run.case.name == family else run for run in solution.runs])
    assert seen == every


def test_every_exercise_that_asks_for_a_trace_is_in_the_table() -> None:
    names = catalog.all_names(ROOT)
    traced = {name for name in names if any(case.trace for case in catalog.load(name, ROOT).cases)}
    assert {name for name, (by_trace, _) in JUDGED.items() if by_trace} == traced
