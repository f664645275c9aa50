"""`run`: a file on ranks, to play with. Nothing is judged, and what ranks print comes as they print it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.model import Case, Deadlocked, Ending, Exercise, Finished, Raised, RankRecord, Run, Submission, Wait
from grader.model.errors import UsageError
from grader.practice.play import Labelled, case_of, ending, play
from grader.ranks import Session
from grader.ranks.diagnosis import diagnose
from tests.reports import EXERCISE, frame

MAIN = """
import torch.distributed as dist

def main(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    print("I am", rank, flush=True)
    if rank == 0:
        dist.barrier()
"""
SCRIPT = """
import os

if __name__ == "__main__":
    print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_ADDR"], end="")
"""


def played(source: str, ranks: int, session: Any) -> tuple[Run, list[str]]:
    submission = Submission.of(Path("train_ddp.py"), source.encode())
    said: list[str] = []
    run = play(EXERCISE, submission, case_of(EXERCISE, submission, ranks, 60), session, said.append)
    return run, said


def ended(*endings: Ending, exercise: Exercise = EXERCISE) -> str:
    case = case_of(exercise, Submission.of(Path("a.py"), MAIN.encode()), len(endings), 60)
    records = tuple(RankRecord(rank=rank, ending=each) for rank, each in enumerate(endings))
    found = diagnose(case, records, exercise.file)
    return "\n".join(ending(Run(case=case, ranks=records, seconds=1.0, diagnosis=found), exercise))


def test_lines_come_whole_and_with_their_rank() -> None:
    """Whatever pieces they arrive in; what could paint over the screen is made visible."""
    said: list[str] = []
    labelled = Labelled(2, said.append)
    for rank, data in [(0, b"lo"), (1, b"one\ntw"), (0, "ss ✓\n\x1b[2J".encode()), (1, b"o\n")]:
        labelled(rank, data)
    labelled.flush()
    assert said == ["rank 1 │ one", "rank 0 │ loss ✓", "rank 1 │ two", "rank 0 │ \\x1b[2J"]


@pytest.mark.parametrize(("source", "as_script"), [(MAIN, False), (SCRIPT, True), (MAIN + SCRIPT, False)])
def test_a_main_goes_before_a_script(source: str, as_script: bool) -> None:
    submission = Submission.of(Path("a.py"), source.encode())
    assert case_of(EXERCISE, submission, 2, 60).parameters == {"as_script": as_script}


def test_main_finds_the_group_that_the_functions_are_graded_in() -> None:
    """Not where it joins one itself, and not as a script."""
    exercise = replace(EXERCISE, cases=(Case(name="a", world_size=2, probe="a", process_group=True),))
    plain = "def main(rank, world_size):\n    pass\n"
    for source, expected in ((plain, True), (MAIN, False), (SCRIPT, False)):
        submission = Submission.of(Path("a.py"), source.encode())
        assert case_of(exercise, submission, 2, 60).process_group is expected
    assert not case_of(EXERCISE, Submission.of(Path("a.py"), plain.encode()), 2, 60).process_group
    missed = Raised(type="ValueError", message="Default process group has not been initialized, please", stack=())
    told = ended(missed, missed)
    assert "Hint: Nobody has joined a group for main; it does so itself: dist.init_process_group" in told


def test_a_file_with_nothing_to_run_is_told_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"def main\(rank, world_size\)"):
        case_of(EXERCISE, Submission.of(Path("a.py"), b"x = 1\n"), 2, 60)


def test_how_it_ended_is_said_without_a_judgement() -> None:
    """Who raised what where, and who waits for it; a hint where there is one."""
    assert ended(Finished(), Finished()) == "All 2 ranks have returned."
    raised = Raised(type="ValueError", message="boom", stack=(frame(4),))
    told = ended(raised, Deadlocked(wait=Wait(operation="barrier"), stack=(frame(9),)))
    assert "ValueError was raised · rank 0 of 2 · line 4\n  boom" in told and "barrier" in told
    stuck = ended(Deadlocked(wait=Wait(operation="barrier"), stack=(frame(9),)), Finished())
    assert "Deadlock: no rank can go on" in stuck and "Hint: Every rank of a group" in stuck


def test_real_ranks_are_heard_while_they_run_and_their_deadlock_is_told(warm: Session) -> None:
    """And none of them is left."""
    run, said = played(MAIN, 2, warm)
    assert sorted(said) == ["rank 0 │ I am 0", "rank 1 │ I am 1"]
    assert [type(record.ending) for record in run.ranks] == [Deadlocked, Finished] and run.ranks[0].ending.at == 8


def test_a_script_finds_what_torchrun_would_set(warm: Session) -> None:
    run, said = played(SCRIPT, 2, warm)
    assert run.diagnosis is None
    assert sorted(said) == ["rank 0 │ 0 of 2 at localhost", "rank 1 │ 1 of 2 at localhost"]
