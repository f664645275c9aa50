"""In which order an automatic mutant meets the families of cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader import catalog
from grader.authoring.mutation.generate import mutants
from grader.authoring.mutation.runner import MutantOutcome, MutantRunner
from grader.model import Case, Deadlocked, Diagnosis, Finding, Run, Submission, Wait
from tests import small
from tests.fakes import FakeSession, ended, right


def test_what_killed_mutants_of_the_same_function_comes_first(tmp_path: Path) -> None:
    """Each function of an exercise may have a family of its own."""

    def student(submission: Submission, case: Case) -> Run:
        lacking = "bad" if submission.source.count(b"one_of") < 2 else "sum" if b"work" not in submission.source else ""
        if case.name != lacking:
            return right(submission, case)
        stuck = Diagnosis(kind="deadlock", ranks=(0,), findings=(Finding(subject="Deadlock"),))
        return replace(ended(Deadlocked(wait=Wait(operation="barrier")))(submission, case), diagnosis=stuck)

    root = small.build(tmp_path)
    session = FakeSession(otherwise=student)
    runner = MutantRunner(session, catalog.load(small.NAME, root), Path("total.py"), 3)
    source = "def a():\n    one_of(1)\n    one_of(2)\ndef b():\n    work()\n"
    runner.control(source.encode())
    chosen = [mutant for mutant in mutants(source) if mutant.operator == "drop-statement"]
    assert [mutant.function for mutant in chosen] == ["a", "a", "b"]
    for mutant in (chosen[0], chosen[2], chosen[1]):
        session.cases.clear()
        (result,) = runner.try_all([mutant], lambda mutant: 1, lambda result: None)
        assert result.outcome is MutantOutcome.KILLED
    assert [case.name for case in session.cases] == ["import", "bad"]
    session.cases.clear()
    list(runner.try_all([chosen[2]], lambda mutant: 1, lambda result: None))
    assert [case.name for case in session.cases] == ["import", "sum"]
