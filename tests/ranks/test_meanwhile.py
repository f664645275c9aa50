"""Real ranks: what can be seen and done while they run."""

from __future__ import annotations

import time

import psutil
import pytest

from grader.model import LiveRank, TimedOut
from grader.model.errors import Cancelled, RunError
from grader.model.run import BUSY
from grader.ranks import Session
from tests.conftest import RunIt
from tests.ranks.told import descendants, line_of


def test_two_runs_at_once_do_not_disturb_each_other(run_on_ranks: RunIt) -> None:
    """One deadlocks while the other finishes."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(run_on_ranks, "skips_a_collective")
        fine = [pool.submit(run_on_ranks, "finishes") for _ in range(3)]
        assert all(job.result().diagnosis is None for job in fine)
        assert stuck.result().diagnosis is not None


WAITS = """\
import torch.distributed as dist, time

def waits(rank):
    if rank.rank == 0:
        time.sleep(60)
    dist.barrier()

def quick(rank):
    rank.record("done", True)
"""


def test_a_run_is_called_off_at_once_and_the_host_stays_warm(run_on_ranks: RunIt, warm_levels, level: str) -> None:
    """Somebody watches, hears that a rank waits in a barrier, and has seen enough."""
    heard: list[LiveRank] = []

    def live(ranks) -> None:
        heard.extend(ranks)
        warm_levels[level].cancel()

    with pytest.raises(Cancelled):
        run_on_ranks("waits", source=WAITS, live=live)
    assert ("waits in barrier", 6) in {(rank.told, rank.line) for rank in heard}
    assert run_on_ranks("quick", source=WAITS, world_size=1).ranks[0].observations == {"done": True}


def test_ranks_that_compute_on_and_on_are_shown_with_their_line(run_on_ranks: RunIt, warm_levels, level: str) -> None:
    """As those that wait are; somebody watches, and has seen enough."""
    heard: list[LiveRank] = []

    def live(ranks) -> None:
        heard.extend(ranks)
        warm_levels[level].cancel()

    with pytest.raises(Cancelled):
        run_on_ranks("computes_for_ever", live=live, deadline=100.0)
    start = line_of("while True", "computes_for_ever")
    assert {(rank.told, rank.line in (start, start + 1)) for rank in heard} == {(BUSY, True)}


STOPS = """\
import os, psutil, signal, time

def stops(rank):
    psutil.Process(os.getppid()).parent().send_signal(signal.SIGSTOP)
    time.sleep(1000)
"""


def test_a_host_that_a_rank_has_stopped_is_told_long_before_any_deadline(run_on_ranks: RunIt, level: str) -> None:
    """By its state. Inside bubblewrap nobody can stop it, and the run goes on to its deadline."""
    how = {"source": STOPS, "world_size": 1, "process_group": False, "dynamo": False}
    if level == "bubblewrap":
        assert isinstance(run_on_ranks("stops", deadline=2.0, **how).ranks[0].ending, TimedOut)
        return
    before, start = descendants(), time.monotonic()
    with Session(sandbox="off") as session, pytest.raises(RunError, match="was stopped by a signal"):
        run_on_ranks("stops", session=session, deadline=600.0, **how)
    assert time.monotonic() - start < 300
    _, alive = psutil.wait_procs(descendants() - before, timeout=30)
    assert alive == []
