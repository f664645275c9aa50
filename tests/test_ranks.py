"""Real ranks: every ending is told apart, a deadlock is called and nothing else is, and nothing is left behind."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from grader.model import Deadlocked, Exited, Finished, Killed, LiveRank, Raised, Run, TimedOut
from grader.model.errors import Cancelled, RunError
from grader.model.run import BUSY
from grader.ranks import Session
from tests.conftest import LEVELS, STUDENTS, RunIt

SOURCE = (STUDENTS / "behaviours.py").read_text().splitlines()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """Every test here holds at both levels of isolation."""
    return str(request.param)


def endings(run: Run) -> list[type]:
    return [type(record.ending) for record in run.ranks]


def sentences(run: Run) -> str:
    assert run.diagnosis is not None
    return "\n".join(finding.sentence() for finding in run.diagnosis.findings)


def line_of(text: str, function: str) -> int:
    """The number of the first line after `def function` that contains `text`."""
    start = next(i for i, line in enumerate(SOURCE) if line.startswith(f"def {function}("))
    return next(i for i, line in enumerate(SOURCE[start:], start + 1) if text in line)


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


# -- endings ----------------------------------------------------------------------------------------------------------


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


# -- deadlocks --------------------------------------------------------------------------------------------------------

DEADLOCKS = {
    "skips_a_collective": {0: ("all_reduce", "dist.all_reduce")},
    "calls_different_collectives": {0: ("all_reduce", "dist.all_reduce"), 1: ("barrier", "dist.barrier")},
    "receives_from_everybody_first": {0: ("recv from rank 1", "dist.recv"), 1: ("recv from rank 0", "dist.recv")},
    "waits_for_a_message_never_sent": {0: ("recv from rank 1", "work.wait"), 1: ("recv from rank 0", "work.wait")},
    "skips_a_backward": {0: ("all_reduce (called by backward)", "backward()")},
    "skips_a_functional_collective": {0: ("all_reduce", "functional.all_reduce")},
    "both_send_first_in_a_group": {0: ("send to rank 2", "dist.send"), 2: ("send to rank 0", "dist.send")},
    "waits_in_a_thread": {0: ("all_reduce", "thread.join")},
}


@pytest.mark.parametrize("behaviour", DEADLOCKS)
def test_a_deadlock_is_called_with_operation_and_line(run_on_ranks: RunIt, behaviour: str) -> None:
    """Long before the deadline, for collectives and point-to-point waits, from Python and from C++."""
    run = run_on_ranks(behaviour, world_size=max(2, 1 + max(DEADLOCKS[behaviour])), deadline=60.0)
    assert run.diagnosis and run.diagnosis.kind == "deadlocked" and run.seconds < 30
    for rank, (operation, text) in DEADLOCKS[behaviour].items():
        ending = run.ranks[rank].ending
        assert isinstance(ending, Deadlocked) and ending.wait.operation.startswith(operation)
        assert ending.at == line_of(text, behaviour)
    assert sum(isinstance(record.ending, Deadlocked) for record in run.ranks) == len(DEADLOCKS[behaviour])


@pytest.mark.parametrize(
    "behaviour",
    [
        "one_never_joins",
        "meet_at_different_ports",
        "waits_for_a_store_that_nobody_serves",
        "join_under_different_names",
    ],
)
def test_a_meeting_that_cannot_come_about_is_a_deadlock(run_on_ranks: RunIt, behaviour: str) -> None:
    """Ranks in init_process_group poll and retry, so this is seen from where they meet, not from their sleep."""
    run = run_on_ranks(behaviour, process_group=False, deadline=60.0)
    assert run.diagnosis and run.diagnosis.kind == "deadlocked" and run.seconds < 30
    assert "waits in" in sentences(run) or "wait in" in sentences(run)


@pytest.mark.parametrize(
    "behaviour",
    [
        "sleeps_before_a_collective",
        "computes_before_a_collective",
        "sleeps_in_a_thread_that_then_sends",
        "sleeps_while_holding_the_gil",
        "moves_a_large_tensor",
        "holds_a_model_when_the_group_goes",
    ],
)
def test_a_slow_rank_is_never_called_deadlocked(run_on_ranks: RunIt, behaviour: str) -> None:
    """Sleeping, computing, waiting for a slow peer and moving much data are no deadlocks."""
    run = run_on_ranks(behaviour)
    assert run.diagnosis is None, sentences(run)


@pytest.mark.parametrize("behaviour", ["joins_late", "joins_late_with_a_store_of_his_own"])
def test_a_rank_that_joins_late_is_waited_for(run_on_ranks: RunIt, behaviour: str) -> None:
    """The other rank looks for the server again and again meanwhile."""
    assert run_on_ranks(behaviour, process_group=False).diagnosis is None


# -- nothing is left --------------------------------------------------------------------------------------------------


def descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


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


# -- a student's bad input --------------------------------------------------------------------------------------------


def test_endless_output_is_cut_in_the_middle(run_on_ranks: RunIt) -> None:
    """Head and tail stay; the run is judged by what it did."""
    run = run_on_ranks("prints_without_end")
    assert run.diagnosis is None
    text = run.ranks[0].output
    assert len(text) < 40_000 and text.startswith("0 x") and "bytes left out" in text and "299999 x" in text


def test_there_is_no_input_to_read(run_on_ranks: RunIt) -> None:
    """input() raises instead of waiting for ever."""
    assert "EOFError was raised" in sentences(run_on_ranks("reads_input"))


def test_a_start_method_of_his_own_does_no_harm(run_on_ranks: RunIt) -> None:
    """set_start_method is the student's own business."""
    assert run_on_ranks("sets_a_start_method").diagnosis is None


def test_only_data_of_exact_types_crosses(run_on_ranks: RunIt) -> None:
    """A function is refused where it is recorded, and so is a second report under one name."""
    assert "WireError was raised" in sentences(run_on_ranks("records_a_function"))
    assert "recorded twice" in sentences(run_on_ranks("records_twice"))


IMPORTS = {
    "a missing name": ("def other(): ...", "does not define wanted"),
    "a name that is no function": ("wanted = 3", "wanted must be callable"),
    "too few parameters": ("def wanted(): ...", "wanted must be callable as wanted(rank, *, lr=0.1)"),
    "a missing keyword": ("def wanted(rank): ...", "unexpected keyword argument 'lr'"),
    "an import error": ("import no_such_module", "No module named 'no_such_module'"),
    "an exit at import": ("import sys\nsys.exit(0)", "left by sys.exit(0)"),
    "an exception at import": ("x = 1\nraise RuntimeError('at the top')", "at the top"),
}


@pytest.mark.parametrize("fault", IMPORTS)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(run_on_ranks: RunIt, fault: str) -> None:
    """What is missing is named, as the contract calls it."""
    source, sentence = IMPORTS[fault]
    run = run_on_ranks("", source=source, process_group=False, world_size=1)
    assert sentence in sentences(run)


def test_a_right_file_is_usable(run_on_ranks: RunIt) -> None:
    """The control beside the faults: the contract's signature, and one that takes more."""
    for source in (
        "def wanted(rank, *, lr=0.1): ...",
        "def wanted(rank, lr=0.1, more=2): ...",
        "def wanted(*a, **k): ...",
    ):
        assert run_on_ranks("", source=source, process_group=False, world_size=1).diagnosis is None


def test_an_import_that_never_ends_is_stopped_at_its_line(run_on_ranks: RunIt) -> None:
    """The line of the loop is named."""
    run = run_on_ranks("", source="x = 1\nwhile True:\n    x += 1\n", process_group=False, world_size=1, deadline=1.0)
    assert isinstance(run.ranks[0].ending, TimedOut) and run.ranks[0].ending.at in (2, 3)


# -- the other way to start -------------------------------------------------------------------------------------------


def test_spawned_ranks_end_as_forked_ones_do(run_on_ranks: RunIt) -> None:
    """`--start-method spawn` gives the same endings and lines."""
    behaviours = ("finishes", "calls_different_collectives", "raises_with_a_cause")
    with Session("spawn") as session:
        for behaviour in behaviours:
            spawned = run_on_ranks(behaviour, session=session)
            forked = run_on_ranks(behaviour)
            assert [(type(r.ending), r.ending.at) for r in spawned.ranks] == [
                (type(r.ending), r.ending.at) for r in forked.ranks
            ]


def test_a_session_on_the_cpu_hides_gpus_from_its_ranks_alone(run_on_ranks: RunIt) -> None:
    """Through the environment that its host gets; this process keeps its own."""
    source = """\
import os

def student(rank):
    rank.record("visible", os.environ.get("CUDA_VISIBLE_DEVICES"))
"""
    before = dict(os.environ)
    with Session(device="cpu") as session:
        run = run_on_ranks("student", source=source, session=session, world_size=1, process_group=False)
        assert dict(os.environ) == before
    assert run.ranks[0].observations == {"visible": ""} and run.ranks[0].device == "cpu"


def test_a_run_that_does_without_dynamo_does_not_wait_for_it(run_on_ranks: RunIt) -> None:
    """The host imports it later, while ranks are about: none of them can put anything in its way."""
    source = """\
import pathlib, sys

def student(rank):
    rank.record("imported", "torch._dynamo" in sys.modules)

def plant(rank):
    for place in pathlib.Path.cwd().parents[:2]:
        for name in ("sympy", "mpmath", "torchgen", "networkx"):
            (place / f"{name}.py").write_text("import os; os._exit(9)")
    student(rank)
"""
    with Session() as session:

        def imported(probe: str, dynamo: bool) -> object:
            run = run_on_ranks(probe, source=source, session=session, world_size=1, process_group=False, dynamo=dynamo)
            return run.ranks[0].observations.get("imported")

        assert [imported("plant", False), imported("student", True), imported("student", False)] == [False, True, True]


def test_ranks_find_imported_what_their_exercise_wants_preloaded(run_on_ranks: RunIt) -> None:
    """In a later run as well; a module that is not installed is missed by nobody but who imports it. Settings that lie
    where ranks can write are not read."""
    source = """\
import pathlib, sys

def plant(rank):
    for place in pathlib.Path.cwd().parents[:2]:
        (place / "matplotlibrc").write_text("lines.linewidth: 17")

def student(rank):
    modules = ("matplotlib.pyplot", "xml.dom", "no_such_module")
    linewidth = sys.modules["matplotlib"].rcParams["lines.linewidth"] if modules[0] in sys.modules else None
    rank.record("imported", [[name in sys.modules for name in modules], linewidth])
"""
    how = {"source": source, "world_size": 1, "process_group": False, "dynamo": False}
    wanted = ("matplotlib.pyplot", "no_such_module", "xml.dom")
    with Session() as session:
        run_on_ranks("plant", session=session, **how)
        runs = [run_on_ranks("student", session=session, preload=names, **how) for names in (wanted, ())]
    assert [run.ranks[0].observations["imported"] for run in runs] == [[[True, True, False], 1.5]] * 2


def test_two_runs_at_once_do_not_disturb_each_other(run_on_ranks: RunIt) -> None:
    """One deadlocks while the other finishes."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(run_on_ranks, "skips_a_collective")
        fine = [pool.submit(run_on_ranks, "finishes") for _ in range(3)]
        assert all(job.result().diagnosis is None for job in fine)
        assert stuck.result().diagnosis is not None


def test_the_deadlock_verdict_needs_no_deadline(run_on_ranks: RunIt) -> None:
    """It comes within seconds of the last progress, whatever the deadline."""
    start = time.monotonic()
    run_on_ranks("skips_a_collective", deadline=600.0)
    assert time.monotonic() - start < 60


def test_a_stuck_rank_tells_what_it_did_before(run_on_ranks: RunIt) -> None:
    """Without a trace too: the Flight Recorder has the collectives, the last of which is not over."""
    source = """\
import torch, torch.distributed as dist

def student(rank):
    dist.broadcast(torch.zeros(3, dtype=torch.float64), 0)
    if dist.get_rank() == 0:
        dist.all_reduce(torch.zeros(2))
"""
    run = run_on_ranks("student", source=source, world_size=2, process_group=True)
    first, second = ([*record.trace.communications] for record in run.ranks)
    assert [(event.operation, event.bytes, event.group) for event in first] == [
        ("broadcast", 24, (0, 1)),
        ("all_reduce", 8, (0, 1)),
    ]
    assert first[0].end is not None and first[1].end is None
    assert [event.operation for event in second] == ["broadcast"]
    assert 0 < first[0].start < first[1].start < run.seconds
    assert [record.output for record in run.ranks] == ["", ""]


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
