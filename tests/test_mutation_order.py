"""In which order a mutant by rule meets the families of cases; and the solution's mutants without those of variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.mutation import score, state
from grader.authoring.mutation.generate import mutants
from grader.authoring.mutation.runner import MutantOutcome, MutantRunner
from grader.authoring.mutation.score import Score, attack, load
from grader.model import Case, Deadlocked, Diagnosis, Finding, Run, Submission, Wait
from tests import small
from tests.fakes import FakeSession, ended, right


@pytest.mark.one_in(2)
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


def test_the_solution_alone_leaves_its_variants_as_they_were(tmp_path: Path) -> None:
    """Neither are excuses of their mutants stale, nor are their fates forgotten."""
    root = small.build(tmp_path)
    (variant, *_) = catalog.variants(catalog.load(small.NAME, root), root)
    whole, entry = load(small.NAME, root), f"{variant.stem}.py | drop-statement | \u2026"
    excuses = root / "reference" / small.NAME / "equivalents.yaml"
    excuses.write_text(f"- {{mutant: '{entry}', reason: It is.}}\n")
    own = load(small.NAME, root, own=True)
    assert own.mutants == tuple(mutant for mutant in whole.mutants if not mutant.variant) != whole.mutants
    nothing = Score(subject=own, control=(), results=(), gpu=False, seconds=1.0)
    fates = {small.NAME: {mutant.identity: {"fate": "killed"} for mutant in whole.mutants} | {"gone": {}}}
    path = tmp_path / "fates.json"
    path.write_text(state.merged(fates, [nothing]), encoding="utf-8")
    assert nothing.breaches() == []
    assert state.read(path)[small.NAME].keys() == {mutant.identity for mutant in whole.mutants}


def test_where_no_mutant_is_chosen_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a row is written of what a file knows."""
    monkeypatch.setattr(score, "warm_session", None)
    subject = load(small.NAME, small.build(tmp_path), own=True)
    assert attack(subject, select=lambda mutant: False).results == ()
