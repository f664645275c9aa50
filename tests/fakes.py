"""The one fake at the boundary of processes: a session that runs nothing, for the small exercise of tests/small.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from grader.model import Case, Ending, Exercise, Finished, RankRecord, Run, Submission
from grader.model.errors import Cancelled
from grader.ranks import Live
from tests import small

Answer = Callable[[Submission, Case], Run]


class FakeSession:
    """Gives one answer a run: those it was given, in order, and then `otherwise`. An exception is raised. `cases` are
    those that were asked for. Fresh sessions go on with its answers; `made` are those, and `log` says in which session
    (0: this one) and by whom each answer was had."""

    level, device, alive, apart = "limits", "auto", True, False

    def __init__(self, *answers: Answer | Exception, otherwise: Answer | None = None) -> None:
        self.answers, self.otherwise = list(answers), otherwise or right
        self.cases: list[Case] = []
        self.cancels, self.closed = 0, False
        self.number, self.made = 0, list[FakeSession]()
        self.log: list[tuple[int, Submission]] = []

    @property
    def asked(self) -> int:
        return len(self.cases)

    def start(self) -> None:
        """Nothing has to be started."""

    def fresh(self) -> FakeSession:
        if self.closed:
            raise Cancelled()
        session = FakeSession(otherwise=self.otherwise)
        session.answers, session.cases, session.log = self.answers, self.cases, self.log
        self.made.append(session)
        session.number = len(self.made)
        return session

    def run(self, exercise: Exercise, submission: Submission, case: Case, live: Live | None = None) -> Run:
        self.cases.append(case)
        self.log.append((self.number, submission))
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if isinstance(answer, Exception):
            raise answer
        return answer(submission, case)

    def pace(self, exercise: Exercise, case: Case) -> float:
        return 0.0

    def cancel(self) -> None:
        self.cancels += 1

    def call_off(self, case: Case) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self.closed = True


def right(submission: Submission, case: Case) -> Run:
    """What a right solution of the small exercise does."""
    if case.name == "bad":
        return replace(small.bad_run("TypeError", "Exception"), case=case)
    if case.name == "import":
        return Run(case=case, ranks=(RankRecord(rank=0, ending=Finished()),), seconds=0.1)
    values = [
        torch.full((4,), float(case.seed % 97 + rank + 1), dtype=torch.float64) for rank in range(case.world_size)
    ]
    return replace(small.sum_run(case.world_size, *[sum(values)] * case.world_size), case=case)


def ended(ending: Ending) -> Answer:
    """A right run whose ranks ended so."""

    def run(submission: Submission, case: Case) -> Run:
        made = right(submission, case)
        return replace(made, ranks=tuple(replace(record, ending=ending) for record in made.ranks))

    return run
