"""Private inputs: what a rank is told and no other, and the judge knows of all."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.checks.views import RunView
from grader.grading.running import run_all
from grader.grading.seeding import seeded
from grader.model import MAX_SEED, Case, Finished, Killed, Raised, Run, Submission
from grader.ranks import Session
from grader.ranks.request import plain, request_for
from grader.records import recording, wire
from tests import small
from tests.conftest import LEVELS, RunIt
from tests.fakes import FakeSession, ended, right

SECRET = b"\7" * 32
TELLS = """
import os, time
import torch.distributed as dist

had_a_group = dist.is_initialized()
if os.getcwd().endswith("rank1"):
    {at_import}
imported = time.monotonic()


def wanted(rank, *, lr=0.1):
    pass


def tells(rank):
    rank.record("imported", imported)
    rank.record("secret", [rank.secret, rank.secret])
    rank.record("told", time.monotonic())
    rank.record("groups", [had_a_group, dist.is_initialized()])
"""


def observed(run: Run, name: str) -> list[object]:
    return [record.observations.get(name) for record in run.ranks]


def own(run: Run) -> list[object]:
    """What each rank should have recorded, which asks twice."""
    return [[rank.secret] * 2 for rank in RunView(run)]


@pytest.fixture
def exercise(tmp_path: Path):
    return catalog.load(small.NAME, small.build(tmp_path))


# In the ranks


@pytest.mark.parametrize("level", LEVELS)
def test_each_rank_is_told_its_own_secret_and_the_judge_knows_all(run_on_ranks: RunIt, level: str) -> None:
    """A probe and a check have the same numbers, and to ask again gives the same."""
    run = run_on_ranks("tells", source=TELLS.format(at_import="pass"), world_size=3, secret=SECRET)
    assert observed(run, "secret") == own(run) and len({rank.secret for rank in RunView(run)}) == 3


@pytest.mark.one_in(3)
def test_spawned_ranks_are_told_theirs(run_on_ranks: RunIt) -> None:
    """Interpreters that start afresh inherit nothing, and hear the same."""
    with Session("spawn") as session:
        run = run_on_ranks("tells", source=TELLS.format(at_import="pass"), session=session, secret=SECRET)
    assert observed(run, "secret") == own(run)


def test_nobody_is_told_before_all_have_imported(run_on_ranks: RunIt) -> None:
    """A rank that imports for half a second more keeps the others waiting, however early they ask."""
    run = run_on_ranks("tells", source=TELLS.format(at_import="time.sleep(0.5)"), world_size=3, secret=SECRET)
    assert observed(run, "secret") == own(run)
    assert min(observed(run, "told")) >= max(observed(run, "imported"))  # type: ignore[type-var]


def test_the_file_is_imported_before_there_is_a_group(run_on_ranks: RunIt) -> None:
    """As in any job: a file that asks for its rank at import works nowhere else."""
    run = run_on_ranks("tells", source=TELLS.format(at_import="pass"), secret=SECRET)
    assert observed(run, "groups") == [[False, True]] * 2


STANDS_IN = """
from grader.kit import stores

def meets(rank):
    asked = []
    stores.stand_in_for_stores(lambda options: asked.append(options["port"]) or {"port": 0})
    rank.student.meets()
    rank.record("asked", asked)
"""
TAKES_BY_NAME = """
from torch.distributed import TCPStore

def meets():
    TCPStore("localhost", 1, world_size=1, is_master=True)
"""


def test_without_a_group_a_probe_is_first(run_on_ranks: RunIt, tmp_path: Path) -> None:
    """What it puts in the place of torch's own is there when a file takes that by name."""
    (tmp_path / "probe.py").write_text(STANDS_IN)
    run = run_on_ranks("meets", source=TAKES_BY_NAME, process_group=False, world_size=1)
    assert observed(run, "asked") == [[1]]


@pytest.mark.parametrize("group", [True, False], ids=["with a group", "without one"])
def test_a_rank_that_fails_to_import_keeps_nobody_waiting(run_on_ranks: RunIt, group: bool) -> None:
    """The others get theirs, unless they have to meet that rank first, and its failure is what the run is told to
    have."""
    source = TELLS.format(at_import="raise ValueError")
    run = run_on_ranks("tells", source=source, secret=SECRET, process_group=group)
    first, second = run.ranks
    if group:
        assert isinstance(second.ending, Raised) and second.ending.importing
        assert run.diagnosis is not None and run.diagnosis.ranks == (1,) and run.seconds < 15
        return
    assert first.observations["secret"] == own(run)[0]
    assert isinstance(first.ending, Finished) and isinstance(second.ending, Raised) and second.ending.importing


def test_a_rank_that_imports_for_ever_is_the_late_one(run_on_ranks: RunIt) -> None:
    """Those who wait for it are told as consequences."""
    source = TELLS.format(at_import="while True: pass")
    run = run_on_ranks("tells", source=source, secret=SECRET, deadline=2.0, process_group=False)
    assert run.diagnosis is not None and run.diagnosis.ranks == (1,)
    assert "the import on all ranks" in str(run.ranks[0].ending)


def test_an_import_that_waits_for_a_rank_which_waits_for_it_is_a_deadlock(run_on_ranks: RunIt) -> None:
    """Long before the deadline."""
    joins = 'dist.init_process_group("gloo", rank=int(os.getcwd()[-1]), world_size=2)'
    source = TELLS.format(at_import="dist.barrier()").replace("had_a_group = dist.is_initialized()", joins)
    run = run_on_ranks("tells", source=source, secret=SECRET, process_group=False)
    assert run.diagnosis is not None and run.diagnosis.kind == "deadlocked"
    assert run.seconds < 15 and "the import on all ranks" in run.diagnosis.findings[0].actual


def test_a_file_that_asks_while_it_is_imported_is_refused(run_on_ranks: RunIt) -> None:
    """Its own secret would come before the other ranks have imported."""
    asks = "\nimport sys\nframe = sys._getframe()\nwhile 'rank' not in frame.f_locals: frame = frame.f_back\n"
    source = asks + "frame.f_locals['rank'].secret\n\ndef tells(rank): pass\n"
    run = run_on_ranks("tells", source=source, secret=SECRET)
    assert run.diagnosis is not None and "still being imported" in run.diagnosis.findings[0].sentence()


def test_the_host_and_the_ranks_are_asked_to_run_without_any_secret(exercise) -> None:
    """A request is in the memory that ranks are forked from, so nothing of the secrets may be in it."""
    case = replace(exercise.cases[1], secret=SECRET)
    submission = Submission.of(Path("total.py"), b"")
    frame = wire.encode(plain(request_for(exercise, submission, case, start_method="spawn", live=False, alone=False)))
    told = [SECRET, SECRET.hex().encode(), *(str(case.secret_of(rank)).encode() for rank in range(2))]
    assert not any(secret in frame for secret in told)


# What follows from a seed


def test_a_seed_replays_the_secrets(exercise) -> None:
    """As it replays all else; another seed gives others, and no two cases have the same."""
    assert seeded(exercise, 1) == seeded(exercise, 1)
    secrets = [case.secret for seed in (1, 2) for case in seeded(exercise, seed)]
    assert len(set(secrets)) == len(secrets) and all(len(secret) == 32 for secret in secrets)


def test_what_ranks_are_told_leads_back_to_no_seed_in_any_short_time(exercise) -> None:
    """Between a grade's seed and a case's lies a slow function: no hash of the seed alone gives the case's."""
    seed, case = 5, seeded(exercise, 5)[0]
    digest = hashlib.blake2b(f"{seed}/{exercise.name}/{case.id}".encode(), digest_size=4)
    assert 0 <= case.seed < MAX_SEED and case.seed != int.from_bytes(digest.digest()) % MAX_SEED


def test_a_second_attempt_has_other_secrets(exercise) -> None:
    """What the ranks of the first have left somewhere for it tells nothing, and checks draw the inputs of the attempt
    that counts."""
    session = FakeSession(right, ended(Killed(signal="SIGKILL")))
    runs = run_all(session, exercise, Submission.of(Path("total.py"), b""), 1, jobs=1)
    tried: dict[str, list[bytes]] = {}
    for case in session.cases:
        tried.setdefault(case.id, []).append(case.secret)
    (again,) = [run for run in runs if run.retried]
    assert len(tried[again.case.id]) == len(set(tried[again.case.id])) == 2
    assert all(run.case.secret == tried[run.case.id][-1] for run in runs)


def test_recorded_runs_keep_their_secrets(exercise, tmp_path: Path) -> None:
    """So that they can be judged again, by a file that no rank has written."""
    run = replace(small.bad_run("TypeError"), case=Case(name="bad", world_size=1, probe="bad", secret=SECRET))
    recording.save(tmp_path / "runs", exercise, 3, [run])
    assert recording.load(tmp_path / "runs", exercise) == (3, (run,))
    assert str(SECRET) not in repr(run)
