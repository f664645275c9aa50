"""The exercises themselves: of each some of what `make verify` proves is tried on real ranks, and its pages can be
read. What is tried costs as much with few mutants as with many."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.verify import Kind, Specimen, Trial, specimens, try_all
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.ranks import Session
from grader.records import digests
from tests.demands import demand_complete, demand_short, demand_teaching
from tests.solutions import Solutions, Solved

ROOT = Path(__file__).parents[1]
NAMES = catalog.all_names(ROOT)
FEWEST_MUTANTS, FEWEST_VARIANTS = 15, 2


def drawn(every: Sequence[Specimen], tree: str) -> Specimen:
    """The stub, one variant or one mutant, as the tree's content draws it: the same for one tree, and over time, as the
    tree changes, all of them."""

    def draw(what: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{tree}/{what}".encode()).digest())

    kind = (Kind.STUB, Kind.VARIANT, Kind.MUTANT)[draw("kind") % 3]
    return min((one for one in every if one.kind is kind), key=lambda specimen: draw(specimen.name))


def tried(warm: Session, solution: Solved, specimen: Specimen) -> Trial:
    """A variant is run whole. What is wrong is graded as a student's file is, with cases called off that no check will
    ask for; a mutant by the checks that it has to fail alone, since that it fails no other is for `make verify`."""
    exercise, seed = solution.exercise, solution.seed
    if specimen.kind is Kind.VARIANT:
        (trial,) = try_all(warm, exercise, ROOT, [specimen], seed, lambda phase: None)
        return trial
    files, only = ((exercise.file, specimen.source),), tuple(sorted(specimen.fails))
    request = Request(exercise=exercise.name, root=ROOT, files=files, seed=seed, only=only)
    return Trial(specimen=specimen, verdicts=grade(request, warm).verdicts, seed=seed, seconds=0.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_accepts_what_is_right_and_nothing_else(name: str, warm: Session, solved: Solutions) -> None:
    """The solution, and the stub, a variant or a mutant, get the verdicts that they must."""
    solution = solved(name)
    exercise = solution.exercise
    every = specimens(exercise, ROOT)
    tree = digests.of_files((s.name, s.source) for s in every) + digests.of_exercise(exercise) + digests.of_engine()
    right = Trial(specimen=solution.specimen, verdicts=solution.verdicts(), seed=solution.seed, seconds=0.0)
    trials = (right, tried(warm, solution, drawn(every, tree)))
    assert [breach for trial in trials for breach in trial.breaches()] == []


def test_over_time_every_mutant_and_variant_is_drawn() -> None:
    """One tree draws the same one each time; twelve hundred trees have drawn all of sixty mutants."""
    kinds = [Kind.STUB, Kind.SOLUTION, *[Kind.VARIANT] * 5, *[Kind.MUTANT] * 60]
    every = [Specimen(kind=kind, name=str(n), path=Path("s.py"), source=b"") for n, kind in enumerate(kinds)]
    assert drawn(every, "a") == drawn(every, "a")
    rest = {specimen for specimen in every if specimen.kind is not Kind.SOLUTION}
    assert {drawn(every, str(tree)) for tree in range(1200)} == rest


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_is_complete(name: str) -> None:
    """As tests/demands.py says."""
    demand_complete(name, ROOT, mutants=FEWEST_MUTANTS, variants=FEWEST_VARIANTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_teaches(name: str) -> None:
    """The idea, the contract, an example, common mistakes, what interviewers ask, further reading."""
    demand_teaching(name, ROOT)


def imports(path: Path) -> set[str]:
    """The modules that a file imports."""
    tree = ast.parse(path.read_text())
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_probes_know_nothing_of_the_judge(name: str) -> None:
    """A probe runs beside student code: of the grader it imports the kit alone."""
    foreign = {one for one in imports(ROOT / "exercises" / name / "probe.py") if not one.startswith("grader.kit")}
    assert not {one for one in foreign if one.partition(".")[0] in ("grader", "checks", "pytest")}


@pytest.mark.parametrize("name", NAMES)
def test_checks_are_written_in_their_vocabulary(name: str) -> None:
    """checks.py imports `grader.checks` and nothing else of the grader."""
    ours = {one for one in imports(ROOT / "exercises" / name / "checks.py") if one.startswith("grader")}
    assert all(one == "grader.checks" or one.startswith("grader.checks.") for one in ours), ours


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_is_short(name: str) -> None:
    """It can be read in one sitting."""
    demand_short(name, ROOT)
