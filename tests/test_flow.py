"""The whole flow on real ranks with a small exercise: grade, replay, verify, pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.proof_page import matrix
from grader.authoring.verify import Kind, Specimen, verify
from grader.cli.telling import Told
from grader.grading.flow import grade
from grader.grading.observe import SILENT, Listener
from grader.grading.request import Machine, Request
from grader.grading.seeding import seeded
from grader.model import Outcome, Report
from grader.model.errors import UsageError
from tests import small


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.build(tmp_path_factory.mktemp("root"))


def graded(root: Path, submission: Path, listener: Listener = SILENT, **how: Any) -> Report:
    with closing(Machine().session()) as session:
        request = Request(exercise=small.NAME, root=root, submission=submission, **how)
        return grade(request, session, listener)


def outcomes(report: Report) -> dict[str, str]:
    return {verdict.check.id: verdict.outcome.value for verdict in report.verdicts}


@pytest.mark.one_in(2)
def test_a_grade_can_be_recorded_and_judged_again(root: Path, tmp_path: Path) -> None:
    """The solution passes; the same seed and the recorded runs give the same verdicts without running anything."""
    solution = root / "reference" / small.NAME / "total.py"
    phases: list[str] = []
    report = graded(root, solution, Told(phases.append), save_runs=tmp_path / "runs")
    assert report.status == "passed" and report.score == 100 and report.device in ("cpu", "cuda")
    assert phases[0] == "starting" and "sum on 2 ranks" in phases
    again = graded(root, solution, from_runs=tmp_path / "runs")
    assert again.seed == report.seed and outcomes(again) == outcomes(report)


def test_seeds_are_drawn_anew_and_can_be_replayed(root: Path) -> None:
    """Each case has a seed of its own, which follows from the grade's."""
    from grader import catalog

    exercise = catalog.load(small.NAME, root)
    first, second = seeded(exercise, 1), seeded(exercise, 2)
    assert first == seeded(exercise, 1) and len({case.seed for case in (*first, *second)}) == 2 * len(first)


def test_a_file_that_cannot_be_imported_is_not_run_again_for_each_case(root: Path, tmp_path: Path) -> None:
    """One sentence on the first check, the others blocked."""
    (tmp_path / "total.py").write_text("import no_such_module\n")
    report = graded(root, tmp_path)
    assert [run.case.name for run in report.runs] == ["import"]
    assert outcomes(report) == {"sums": "failed", "same": "blocked", "refuses": "blocked"}
    assert "no_such_module" in report.verdicts[0].message


def test_cuda_is_refused_where_there_is_none(root: Path) -> None:
    """Asked for in so many words, it is not replaced by something else."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UsageError, match="finds no GPU"):
        Machine(device="cuda").session()


@pytest.mark.one_in(3)
def test_verify_proves_an_exercise_and_sees_a_breach(root: Path, tmp_path: Path) -> None:
    """Stub, solution, variant and mutants as expected; a mutant with a wrong claim is a breach, and so is a check
    that no mutant fails."""
    proof = verify(small.NAME, root)
    assert proof.breaches() == [] and "✓ all as expected: 3 mutants" in matrix(proof)
    assert [trial.specimen.kind for trial in proof.trials[:3]] == [Kind.STUB, Kind.SOLUTION, Kind.VARIANT]
    wrong = small.build(tmp_path)
    mutants = wrong / "reference" / small.NAME / "mutants.yaml"
    mutants.write_text(
        mutants.read_text().replace("fails: [same]", "fails: [refuses]").replace("return TypeError", "raise OSError")
    )
    breaches = verify(small.NAME, wrong, select=lambda s: s.kind is Kind.MUTANT).breaches()
    assert any("adds_its_rank" in breach and "does not fail refuses" in breach for breach in breaches)
    assert any("adds_its_rank" in breach and "failed same" in breach for breach in breaches)


@pytest.mark.one_in(4)
def test_pytest_runs_the_same_checks(root: Path) -> None:
    """`pytest exercises/…` gives pytest's own outcomes, with the findings as text."""
    reference = root / "reference" / small.NAME
    wrong = root / "wrong"
    wrong.mkdir(exist_ok=True)
    (wrong / "total.py").write_text((reference / "total.py").read_text().replace("dist.all_reduce(result)", "pass"))
    right = run_pytest(root, reference)
    assert right.returncode == 0 and "3 passed" in right.stdout
    failed = run_pytest(root, wrong)
    assert failed.returncode == 1 and "1 failed, 1 passed, 1 skipped" in failed.stdout
    assert "the total on rank 0: expected" in failed.stdout


def run_pytest(root: Path, submission: Path) -> subprocess.CompletedProcess[str]:
    command = ["-m", "pytest", "-p", "grader.pytest_plugin", "-p", "no:cacheprovider", "-o", "python_files=checks.py"]
    place = [f"--rootdir={root}", "--import-mode=importlib", "-c", os.devnull, str(root / "exercises" / small.NAME)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    arguments = [sys.executable, *command, *place, "--submission", str(submission)]
    return subprocess.run(arguments, check=False, capture_output=True, text=True, env=environment, timeout=100)


@pytest.mark.one_in(6)
def test_spawn_gives_the_same_verdicts(root: Path) -> None:
    """Where there is no fork: of what is right and of what is wrong."""
    outcomes = [
        {
            trial.specimen.name: [verdict.outcome for verdict in trial.verdicts]
            for trial in verify(small.NAME, root, seed=5, start_method=method, select=right_or_wrong).trials
        }
        for method in ("forkserver", "spawn")
    ]
    assert outcomes[0] == outcomes[1] and outcomes[0].keys() == {"solution", "adds_its_rank"}
    assert Outcome.FAILED in outcomes[0]["adds_its_rank"] and set(outcomes[0]["solution"]) == {Outcome.PASSED}


def right_or_wrong(specimen: Specimen) -> bool:
    return specimen.name in ("solution", "adds_its_rank")
