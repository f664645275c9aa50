"""A port that is written into the code is no lottery: a run's verdict does not depend on the runs beside it."""

from __future__ import annotations

import math
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from grader.grading.blame import Blame
from grader.grading.sessions import Sessions
from grader.grading.turns import turn
from grader.model import Case, Exercise, Raised, RankRecord, Run, Submission
from grader.model.witness import Witness
from grader.ranks.diagnosis import diagnose
from grader.ranks.sandbox import obstacle
from grader.ranks.watch import network
from tests.conftest import LEVELS, RunIt
from tests.fakes import Answer, FakeSession, ended, right

inside_only = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

MEETS = """\
import os, time
import torch, torch.distributed as dist

PORT = 12355

def meets(rank):
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{PORT}", rank=rank.rank, world_size=rank.world_size)
    total = torch.tensor([float(rank.seed)])
    dist.all_reduce(total)
    time.sleep(0.3)
    rank.record("total", float(total))
    dist.destroy_process_group()
"""
RIGHTS = """\
import ctypes, subprocess

def tries(rank):
    libc = ctypes.CDLL(None)
    rank.record("network", libc.unshare(0x40000000) == 0)
    started = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    for name, text in (("own", open("/proc/self/status").read()), ("started", started)):
        rows = [line.split() for line in text.splitlines()]
        rank.record(name, [row[1] for row in rows if row[0] in ("CapEff:", "CapPrm:", "CapInh:", "CapAmb:")])
"""


TABLE = """\
def looks(rank):
    rank.record("places", int(open("/proc/sys/net/ipv4/tcp_ehash_entries").read()))
"""


@inside_only
@pytest.mark.skipif(not network.TABLE.exists(), reason="this kernel gives networks no table of their own")
@pytest.mark.parametrize("level", ["bubblewrap"])
def test_a_network_has_a_small_table_of_its_own(run_on_ranks: RunIt, level: str) -> None:
    """The supervisor reads it again and again. The kernel tells the machine's own, which is large, as a negative."""
    (record,) = run_on_ranks("looks", source=TABLE, world_size=1, process_group=False, dynamo=False).ranks
    assert record.observations == {"places": network.PLACES}


@inside_only
@pytest.mark.parametrize("level", ["bubblewrap"])
def test_runs_that_meet_at_one_port_do_not_see_one_another(run_on_ranks: RunIt, level: str) -> None:
    """Each run has a network of its own: all four meet at the same port at the same time, and each gets its own sum."""

    def run(seed: int) -> list[object]:
        how = {"world_size": 2, "process_group": False, "seed": seed, "dynamo": False}
        return [record.observations for record in run_on_ranks("meets", source=MEETS, **how).ranks]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[{"total": 2.0 * seed}] * 2 for seed in range(4)]


@inside_only
@pytest.mark.parametrize("level", ["bubblewrap"])
def test_the_right_to_make_networks_does_not_come_to_ranks(run_on_ranks: RunIt, level: str) -> None:
    """Nor to what they start: their supervisor has given it up before."""
    run = run_on_ranks("tries", source=RIGHTS, world_size=1, process_group=False, dynamo=False)
    none = ["0" * 16] * 4
    assert run.ranks[0].observations == {"network": False, "own": none, "started": none}


# -- where the network is the machine's -------------------------------------------------------------------------------

EXERCISE = Exercise(name="90_x", title="", summary="", folder=Path(), file="x.py", requires=(), cases=(), checks=())
SUBMISSION = Submission.of(Path("x.py"), b"")
CASE = Case(name="meets", world_size=2, probe="meets")


def met(*ports: int, given: int | None = 40000) -> Answer:
    """A right run whose processes met at these ports of their own choice."""
    return lambda submission, case: replace(right(submission, case), witness=Witness(ports=ports, given=given))


def blamed(session: FakeSession, count: int = 1, spare: float = math.inf) -> list[Run]:
    sessions = Sessions(session)
    blame = Blame(sessions, SUBMISSION, lambda: None, lambda: spare)
    return [blame.run(CASE, lambda used, code: used.run(EXERCISE, code, CASE)) for _ in range(count)]


def test_a_run_that_chose_its_port_counts_only_if_it_ran_alone() -> None:
    """The first such one is run again, in the same session; what follows is run alone at once, and nothing is noted."""
    session = FakeSession(otherwise=met(12355))
    assert [run.retried for run in blamed(session, 3)] == ["", "", ""]
    assert [number for number, _ in session.log] == [0] * 4


def test_in_a_network_of_its_own_a_run_may_choose_any_port() -> None:
    session = FakeSession(otherwise=met(12355))
    session.apart = True
    blamed(session, 3)
    assert len(session.log) == 3


def test_a_port_that_is_taken_is_tried_again_until_somebody_else_may_have_left_it() -> None:
    """A neighbour of another grader's, perhaps, which is in its own first attempt."""
    taken = ended(Raised(type="RuntimeError", message="EADDRINUSE"))
    session = FakeSession(taken, taken)
    (run,) = blamed(session)
    assert run.diagnosis is None and "a port was taken" in run.retried and len(session.log) == 3


def test_where_no_time_is_left_there_is_no_further_attempt() -> None:
    """However often a submission brings it about, the grade ends."""
    session = FakeSession(otherwise=ended(Raised(type="RuntimeError", message="EADDRINUSE")))
    blamed(session, 4, spare=0.0)
    assert len(session.log) == 4


def test_only_one_grader_of_a_machine_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for too long goes on all the same."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    order: list[str] = []

    def take() -> None:
        with turn():
            order.append("had its turn")

    other = threading.Thread(target=take)
    with turn():
        with turn(patience=0.1):
            order.append("went on without")
        other.start()
        order.append("still mine")
    other.join()
    assert order == ["went on without", "still mine", "had its turn"]


def test_the_page_says_first_where_the_ranks_met_instead() -> None:
    """From the kernel's tables: the port in MASTER_PORT, and the one that was used."""
    witness = Witness(ports=(12355,), given=44687)
    ranks = [RankRecord(rank=0, ending=Raised(type="DistNetworkError", message="EADDRINUSE: 12355"))]
    diagnosis = diagnose(CASE, ranks, "x.py", witness)
    assert diagnosis is not None
    first, second = (finding.sentence() for finding in diagnosis.findings)
    assert first == "Where the ranks meet: expected port 44687, as MASTER_PORT says, got 12355"
    assert "DistNetworkError" in second
    other = [RankRecord(rank=0, ending=Raised(type="ValueError", message="no"))]
    found = diagnose(CASE, other, "x.py", witness)
    assert found is not None and len(found.findings) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_the_kernel_tells_at_which_port_of_its_own_a_run_has_met(run_on_ranks: RunIt, level: str) -> None:
    """Also where a process that a rank has started did; a port that the system gave is none."""
    chosen = run_on_ranks("meets", source=MEETS.replace("12355", "12357"), process_group=False, dynamo=False).witness
    assert chosen and (chosen.ports, bool(chosen.given)) == ((12357,), True)
    below = MEETS.replace("12355", "12358").replace("def meets", "def below_meets") + BELOW
    started = run_on_ranks("meets", source=below, world_size=1, process_group=False, dynamo=False).witness
    assert started and started.ports == (12358,)
    given = run_on_ranks("meets", source=MEETS.replace("{PORT}", "{os.environ['MASTER_PORT']}"), process_group=False)
    assert given.witness and (given.witness.ports, given.witness.given) == ((), None)


BELOW = """

import multiprocessing
from types import SimpleNamespace

def child(number):
    below_meets(SimpleNamespace(rank=number, world_size=2, seed=1, record=lambda *_: time.sleep(0.5)))

def meets(rank):
    children = [multiprocessing.get_context("fork").Process(target=child, args=(number,)) for number in range(2)]
    for process in children:
        process.start()
    for process in children:
        process.join()
"""
