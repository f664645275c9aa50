"""Real ranks: nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from grader.ranks import Session
from tests.conftest import RunIt
from tests.ranks.told import descendants


def test_processes_that_try_to_get_away_are_ended(run_on_ranks: RunIt) -> None:
    """setsid, double fork and ignored SIGTERM do not help; the run itself is right."""
    run_on_ranks("finishes")
    before = descendants()
    assert run_on_ranks("leaves_processes_behind").diagnosis is None
    _, alive = psutil.wait_procs(descendants() - before, timeout=30)  # the supervisor itself may still be leaving
    assert alive == []


def test_shared_memory_and_scratch_folders_are_removed(run_on_ranks: RunIt, warm_levels: dict[str, Session]) -> None:
    """Also those of a rank that did not clean up after itself."""
    run = run_on_ranks("leaves_shared_memory_behind")
    names = [record.observations["name"] for record in run.ranks]
    assert not [name for name in names if Path("/dev/shm", name).exists()]
    assert not list(warm_levels["limits"].scratch.glob("run-*"))


def test_a_thread_that_runs_on_does_not_keep_the_rank(run_on_ranks: RunIt) -> None:
    """A non-daemon thread would keep a plain interpreter from ending."""
    run = run_on_ranks("leaves_a_thread_running")
    assert run.diagnosis is None and run.seconds < 20


def test_the_host_goes_when_the_judge_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the judge leaves no host and no rank."""
    script = (
        "import sys, time; from grader.ranks import Session\n"
        "with Session() as s: print(s._host.pid, flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    judge = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert judge.stdout is not None
    host = psutil.Process(int(judge.stdout.readline()))
    judge.kill()
    judge.wait()
    host.wait(timeout=30)
