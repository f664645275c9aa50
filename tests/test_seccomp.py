"""What a rank may not do to other processes, at either level, and what it may do to itself as any program does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import LEVELS, RunIt

ATTEMPTS = """\
import ctypes, os, resource

libc = ctypes.CDLL(None, use_errno=True)

def shown(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")

ATTEMPTS = {
    "prlimit": lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE)),
    "setpriority": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
    "sched_setaffinity": lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
    "sched_setscheduler": lambda pid: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
    "ioprio_set": lambda pid: shown(libc.syscall(251 if os.uname().machine == "x86_64" else 30, 1, pid, 2 << 13 | 4)),
}
OBJECTS = {
    "shared memory": lambda: shown(libc.shmget(4711, 4096, 0o1600)),
    "semaphores": lambda: shown(libc.semget(4711, 1, 0o1600)),
    "queues": lambda: shown(libc.msgget(4711, 0o1600)),
    "a whole group": lambda: os.setpriority(os.PRIO_PGRP, 0, 19),
    "hiding": lambda: shown(libc.prctl(4, 0, 0, 0, 0)),
}

def permitted(attempts, *args):
    found = []
    for name, attempt in attempts.items():
        try:
            attempt(*args)
            found.append(name)
        except PermissionError:
            pass
    return found
"""
ON_OTHERS = (
    ATTEMPTS
    + """
def tries(rank):
    rank.record("on another", permitted(ATTEMPTS, os.getppid()))
    rank.record("on itself", permitted(ATTEMPTS, os.getpid()) + permitted(ATTEMPTS, 0))
    rank.record("objects", permitted(OBJECTS))
"""
)
HONEST = """\
import os, resource
import psutil, torch
from torch.utils.data import DataLoader

def works(rank):
    loader = DataLoader(list(range(8)), batch_size=2, num_workers=2, multiprocessing_context="fork")
    rank.record("loaded", sorted(int(one) for batch in loader for one in batch))
    torch.set_num_threads(2)
    rank.record("computed", float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()))
    psutil.Process().cpu_affinity(psutil.Process().cpu_affinity())
    psutil.Process().nice(1)
    os.nice(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft // 2, hard))
    rank.record("nice", psutil.Process().nice())
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_rank_changes_no_other_process(run_on_ranks: RunIt, level: str) -> None:
    """Not its limits, not its priority, not its cores; of itself all of them. Nothing is made that outlives all."""
    run = run_on_ranks("tries", source=ON_OTHERS, world_size=1, process_group=False)
    seen = run.ranks[0].observations
    own = ["prlimit", "setpriority", "sched_setaffinity", "sched_setscheduler", "ioprio_set"]
    assert seen == {"on another": [], "on itself": own + own, "objects": []}, run


def test_without_the_filter_a_process_may() -> None:
    """So it is the filter that refuses."""
    code = ATTEMPTS + "\nprint(len(permitted(ATTEMPTS, os.getppid())))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.strip() == "5"
    )


@pytest.mark.parametrize("level", LEVELS)
def test_what_programs_do_to_themselves_works(run_on_ranks: RunIt, level: str) -> None:
    """Workers of a DataLoader, threads, cores, niceness, lower limits."""
    run = run_on_ranks("works", source=HONEST, world_size=2, process_group=False)
    assert all(one.observations == {"loaded": list(range(8)), "computed": 64.0**3, "nice": 2} for one in run.ranks), run


def test_a_filter_that_does_not_hold_is_a_breach() -> None:
    """The proof tries what the filter refuses."""
    code = (
        "from grader.ranks.host import proof\nfrom grader.ranks.inside import seccomp\n{}\nprint(proof._filter_holds())"
    )
    for patch, told in (("", ""), ("seccomp.install = lambda: True", "the limits of another process can be changed")):
        done = subprocess.run([sys.executable, "-c", code.format(patch)], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == told, done.stderr
