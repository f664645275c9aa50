"""Real ranks: every ending is told apart."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import torch

from grader.model import MIB, Deadlocked, Exited, Finished, Killed, Limits, Raised, Run, TimedOut
from tests.conftest import RunIt
from tests.ranks.told import line_of, sentences


def endings(run: Run) -> list[type]:
    return [type(record.ending) for record in run.ranks]


def test_a_right_program_finishes_and_its_observations_arrive(run_on_ranks: RunIt) -> None:
    """Tensors keep dtype and bits, non-finite floats and bytes cross, output is kept by rank."""
    run = run_on_ranks("finishes", world_size=3)
    assert endings(run) == [Finished] * 3 and run.diagnosis is None
    for record in run.ranks:
        assert torch.equal(record.observations["total"], torch.full((3,), 3.0, dtype=torch.float64))
        assert math.isnan(record.observations["plain"][1]) and record.observations["plain"][2] == {"a": b"z"}
        assert record.output == f"hello from {record.rank}\n"
        assert set(record.observations["turns"]) <= {getattr(os, "SCHED_BATCH", None)}  # gloo's threads as well
        assert record.device == ("cuda" if torch.cuda.device_count() >= 3 else "cpu")


CATCHING_PROBE = """
import torch.distributed as dist

def save(rank):
    rank.attempt(rank.student.save, rank.rank)
    dist.barrier()
"""
FAILS_ALONE = """
import torch
import torch.distributed as dist

def save(rank):
    if rank == 0:
        raise OSError("no space")
    dist.broadcast(torch.ones(1), 0)
"""


# -- endings -----------------------------------------------------------------------------------------------------------


def test_what_a_probe_has_caught_is_told_beside_its_own_wait(run_on_ranks: RunIt, tmp_path: Path) -> None:
    """The rank that raised waits in the grader's own barrier, the other one in the student's broadcast."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "probe.py").write_text(CATCHING_PROBE)
    run = run_on_ranks("save", source=FAILS_ALONE, folder=tmp_path / "own")
    first, second = (record.ending for record in run.ranks)
    assert isinstance(first, Deadlocked) and (first.caught, first.caught_at) == ("OSError: no space", 7)
    assert isinstance(second, Deadlocked) and (second.caught, second.at) == ("", 8)
    assert "waits in barrier, the grader's own" in sentences(run) and "no space (line 7)" in sentences(run)


def test_an_exception_is_the_cause_and_waiting_ranks_are_its_consequence(run_on_ranks: RunIt) -> None:
    """Type, message, line of the student's file and chain of causes; the rank in the barrier is a consequence."""
    run = run_on_ranks("raises_with_a_cause")
    line = line_of("raise ValueError", "raises_with_a_cause")
    assert endings(run) == [Deadlocked, Raised] and run.ranks[1].ending.at == line
    assert run.diagnosis and (run.diagnosis.kind, run.diagnosis.ranks) == ("raised", (1,))
    assert "the learning rate is missing" in sentences(run) and "ZeroDivisionError" in sentences(run)
    assert "As a consequence on rank 0: waits in barrier" in sentences(run)


def test_leaving_by_sys_exit_is_told(run_on_ranks: RunIt) -> None:
    """The code, the way and the line."""
    run = run_on_ranks("leaves_by_sys_exit")
    ending = run.ranks[0].ending
    assert isinstance(ending, Exited) and (ending.code, ending.how) == ("3", "sys.exit")
    assert ending.at == line_of("sys.exit", "leaves_by_sys_exit")


@pytest.mark.parametrize("behaviour", ["leaves_by_os_exit", "is_killed", "has_a_memory_fault"])
def test_a_dead_process_is_the_cause_though_its_peers_complain_first(run_on_ranks: RunIt, behaviour: str) -> None:
    """Gloo tells the peers of a dead rank that the connection broke; that is never reported as the cause."""
    run = run_on_ranks(behaviour)
    assert run.diagnosis is not None
    culprit = run.ranks[run.diagnosis.ranks[0]].ending
    assert run.diagnosis.ranks == ((1,) if behaviour == "has_a_memory_fault" else (0,))
    if behaviour == "leaves_by_os_exit":
        assert isinstance(culprit, Exited) and (culprit.code, culprit.how) == ("0", "os._exit")
    else:
        assert isinstance(culprit, Killed)
        assert culprit.signal == {"is_killed": "SIGKILL", "has_a_memory_fault": "SIGSEGV"}[behaviour]


def test_a_rank_that_computes_for_ever_times_out_at_its_line(run_on_ranks: RunIt) -> None:
    """The deadline is the case's; the line is where the rank was."""
    run = run_on_ranks("computes_for_ever", deadline=1.0)
    assert endings(run) == [TimedOut, TimedOut]
    start = line_of("while True", "computes_for_ever")
    assert run.ranks[0].ending.at in (start, start + 1)


def test_a_rank_that_prints_for_ever_is_ended_at_its_line(run_on_ranks: RunIt) -> None:
    """Long before the deadline."""
    run = run_on_ranks("prints_for_ever", world_size=1, limits=Limits(output=MIB))
    ending, start = run.ranks[0].ending, line_of("while True", "prints_for_ever")
    assert isinstance(ending, Killed) and ending.limit == "output: more than 1 MiB" and ending.at in (start, start + 1)
    assert run.diagnosis and run.diagnosis.findings[0].line == ending.at
