"""Real ranks: how they start, and what they find imported."""

from __future__ import annotations

import os

import pytest

from grader.ranks import Session
from tests.conftest import CHOICE, RunIt


@pytest.mark.one_in(4)
def test_spawned_ranks_end_as_forked_ones_do(run_on_ranks: RunIt, level: str) -> None:
    """`--start-method spawn` gives the same endings and lines."""
    behaviours = ("calls_different_collectives", "raises_with_a_cause")
    with Session("spawn", sandbox=CHOICE[level]) as session:
        for behaviour in behaviours:
            spawned = run_on_ranks(behaviour, session=session)
            forked = run_on_ranks(behaviour)
            assert [(type(r.ending), r.ending.at) for r in spawned.ranks] == [
                (type(r.ending), r.ending.at) for r in forked.ranks
            ]


@pytest.mark.one_in(3)
def test_a_session_on_the_cpu_hides_gpus_from_its_ranks_alone(run_on_ranks: RunIt, level: str) -> None:
    """Through the environment that its host gets; this process keeps its own."""
    source = """\
import os

def student(rank):
    rank.record("visible", os.environ.get("CUDA_VISIBLE_DEVICES"))
"""
    before = dict(os.environ)
    with Session(device="cpu", sandbox=CHOICE[level]) as session:
        run = run_on_ranks("student", source=source, session=session, world_size=1, process_group=False)
        assert dict(os.environ) == before
    assert run.ranks[0].observations == {"visible": ""} and run.ranks[0].device == "cpu"


@pytest.mark.one_in(3)
def test_a_run_that_does_without_dynamo_does_not_wait_for_it(run_on_ranks: RunIt, level: str) -> None:
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
    with Session(sandbox=CHOICE[level]) as session:

        def imported(probe: str, dynamo: bool) -> object:
            run = run_on_ranks(probe, source=source, session=session, world_size=1, process_group=False, dynamo=dynamo)
            return run.ranks[0].observations.get("imported")

        assert [imported("plant", False), imported("student", True), imported("student", False)] == [False, True, True]


@pytest.mark.one_in(3)
def test_ranks_find_imported_what_their_exercise_wants_preloaded(run_on_ranks: RunIt, level: str) -> None:
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
    with Session(sandbox=CHOICE[level]) as session:
        run_on_ranks("plant", session=session, **how)
        runs = [run_on_ranks("student", session=session, preload=names, **how) for names in (wanted, ())]
    assert [run.ranks[0].observations["imported"] for run in runs] == [[[True, True, False], 1.5]] * 2


def test_a_rank_finds_no_thread_and_no_temporary_file_of_others(run_on_ranks: RunIt) -> None:
    """Whoever waits for all threads comes to an end, and files of one name do not meet, whatever runs beside."""
    source = """\
import tempfile, threading

def student(rank):
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()
    rank.record("threads", threading.active_count())
    rank.record("own", tempfile.gettempdir() == str(rank.scratch))
"""
    run = run_on_ranks("student", source=source, world_size=1, process_group=False)
    assert run.ranks[0].observations == {"threads": 1, "own": True}, run.diagnosis
