"""Scripts run as programs: what they find is what `python FILE` and torchrun give, and they are watched."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.kit.forks import forks_workers
from grader.kit.scripts import Job, Program, run_all

ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
} | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
AGENT = ("--standalone", "--max-restarts", "1", "--nproc-per-node", "2")
WORKER = """
import os, signal
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("sum", total.item(), "attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
"""
PATIENCE, SECONDS = 40, 60.0

Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a script with this source."""

    def started(source: str, *arguments: str, **how: object) -> Program:
        file, text = tmp_path / "script.py", f"{source}\n"
        if not file.exists() or file.read_text() != text:  # one that was started before may be reading it just now
            file.write_text(text)
        return Program(tmp_path, str(file), arguments, ENVIRONMENT, **how)  # type: ignore[arg-type]

    return started


def ended(*programs: Program, patience: int = PATIENCE, seconds: float = SECONDS) -> Job:
    job = Job(programs, str(programs[0].folder / "script.py"), patience, seconds)
    while not job.over():
        time.sleep(0.01)
    return job


@pytest.mark.parametrize(
    ("source", "code", "printed"),
    [
        ("import sys; print(__name__, sys.argv[1:], sys.path[0] in __file__)", 0, "__main__ ['a', 'b'] True"),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('bad news')", 1, "bad news"),
        ("raise ValueError('no')", 1, "ValueError: no"),
        ("import atexit, sys; atexit.register(print, 'bye'); sys.exit(3)", 3, "bye"),
        ("import threading\nthreading.Timer(0.2, print, ['late']).start()", 0, "late"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import multiprocessing as m; p = m.Process(target=print, args=['child']); p.start(); p.join()", 0, "child"),
        ("import sys; sys.stdin.read() and print('input')", 0, ""),
    ],
)
def test_a_fork_ends_as_an_interpreter_does(start: Start, source: str, code: int, printed: str) -> None:
    """Its exit code and what it prints."""
    program = start(source, "a", "b")
    ended(program)
    said = program.printed() + program.complained()
    assert (program.code, printed in said) == (code, True), said


def test_a_fork_begins_like_a_new_interpreter(start: Start) -> None:
    """With random numbers of its own, and with no descriptor but input, output, and one for its stack."""
    source = "import os, random, torch; print(torch.rand(1), random.random(), len(os.listdir('/dev/fd')))"
    programs = [start(source), start(source)]
    ended(*programs)
    first, second = (program.printed().split() for program in programs)
    assert first[0] != second[0] and first[1] != second[1] and int(first[2]) <= 5


def test_a_workers_own_forks_have_its_descriptors(start: Start) -> None:
    """Once a TCPStore has used libuv, as the agent's has, each fork renews two descriptors by their numbers."""
    source = """
import os
kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(12)]
if not os.fork():
    print([os.readlink(f"/dev/fd/{number}") for number in kept].count(os.devnull), flush=True)
    os._exit(0)
os.wait()
"""
    program = start(source, agent=AGENT)
    ended(program)
    assert program.printed().splitlines() == ["12", "12"], program.complained()


def test_torchs_agent_restarts_forks(start: Start) -> None:
    """The real agent, with workers that are forks of it where this torch lets them be; one kills itself."""
    assert forks_workers(), "torch starts its workers otherwise now: see grader.kit.forks.POPEN"
    program = start(WORKER, agent=AGENT)
    job = ended(program)
    assert (program.code, job.hung) == (0, False), program.complained()
    assert program.printed().count("sum 2.0 attempt 0") == program.printed().count("sum 2.0 attempt 1") == 2


def test_an_agents_workers_may_be_new_interpreters(start: Start) -> None:
    """Then nothing of this process is in them. They have no buffer: a line is one writing, or words get mixed."""
    source = "import sys; sys.stdout.write(f\"{'pytest' in sys.modules} {'torch' in sys.modules}\\n\")"
    program = start(source, agent=AGENT, fresh=True)
    ended(program)
    assert (program.code, program.printed().splitlines()) == (0, ["False False"] * 2), program.complained()


@pytest.mark.one_in(2)
def test_an_agent_whose_workers_fail_fails(start: Start) -> None:
    """And a worker that is only finished does not."""
    failing = start("import sys; sys.exit(3)", agent=AGENT)
    ended(failing)
    fine = start("import sys; sys.exit()", agent=AGENT)
    ended(fine)
    assert (failing.code, fine.code) == (1, 0), failing.complained()


def test_a_job_in_which_nothing_moves_is_ended_with_its_line(start: Start) -> None:
    """Two ranks wait for each other."""
    program = start("import time\n\ndef wait():\n    time.sleep(1000)\n\nwait()\n", agent=AGENT)
    job = ended(program, patience=4)
    assert (job.hung, job.moving, set(job.lines.values())) == (True, False, {4})
    assert program.code == -signal.SIGKILL and not program.processes()


def test_a_job_that_never_stops_moving_is_ended_too(start: Start) -> None:
    """It is told apart from one in which nothing moves."""
    job = ended(start("while True: pass"), seconds=1.0)
    assert (job.hung, job.moving) == (True, True)


def test_jobs_of_a_chain_follow_one_another(start: Start) -> None:
    """And those of several chains run at the same time."""
    seen: list[str] = []

    def job(name: str) -> Callable[[], Job]:
        return lambda: Job([start("import sys; print(sys.argv[1])", name)], "script.py", PATIENCE, SECONDS)

    run_all([[job("a"), job("b")], [job("c")]], 2, lambda job: seen.append(job.programs[0].printed().strip()))
    assert sorted(seen) == ["a", "b", "c"] and seen.index("a") < seen.index("b")
