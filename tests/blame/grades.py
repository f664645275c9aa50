"""Grades of the small exercise of which some run fails by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.grading.blame import Blame
from grader.grading.sessions import Sessions
from grader.model import Exercise, Killed, Run, Submission
from grader.model.errors import NoRankStarted, RunError
from tests.fakes import FakeSession, ended

SUBMISSION = Submission(path=Path("total.py"), source=b"def total(value): ...", digest="theirs")
SOLUTION = Submission(path=Path("total.py"), source=b"def total(value): return 1", digest="ours")
KILL = ended(Killed(signal="SIGKILL"))
ODD = RunError("The process that watches the ranks said something odd (…). Try again.")
NO_HOST = NoRankStarted("The process that ranks start from did not come up: it said nothing")


class Grade:
    """The runs of one submission in a fake session."""

    def __init__(self, exercise: Exercise, session: FakeSession, solution: Submission | None = None) -> None:
        self.exercise, self.session, self.sessions = exercise, session, Sessions(session)
        self.blame = Blame(self.sessions, SUBMISSION, lambda: solution)

    def run(self, number: int = 0) -> Run:
        case = self.exercise.cases[number]
        return self.blame.run(case, lambda session, code: session.run(self.exercise, code, case))

    @property
    def log(self) -> list[tuple[int, str]]:
        """In which session (0: the first) whose code was run, in order."""
        return [(number, submission.digest) for number, submission in self.session.log]


def grade(exercise: Exercise, *answers: Any, solution: Submission | None = None, otherwise: Any = None) -> Grade:
    return Grade(exercise, FakeSession(*answers, otherwise=otherwise), solution)


def is_charged(run: Run) -> bool:
    return run.diagnosis is not None and "no result" in run.diagnosis.findings[0].subject
