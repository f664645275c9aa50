"""The exercises themselves: every one is proved on real ranks, as `make verify` does, and its pages can be read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.verify import Kind, matrix, specimens, verify
from grader.submission import begun

ROOT = Path(__file__).parents[1]
NAMES = catalog.all_names(ROOT)
EVERY = {Kind.MUTANT: 16, Kind.VARIANT: 3}
"""Here every so many are tried; `make verify` tries all."""
FEWEST_MUTANTS, FEWEST_VARIANTS = 15, 2


def sample(name: str) -> set[str]:
    """The names of the mutants and variants that are tried here."""
    every = specimens(catalog.load(name, ROOT), ROOT)
    return {s.name for kind, step in EVERY.items() for s in [s for s in every if s.kind is kind][::step]}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_accepts_what_is_right_and_nothing_else(name: str) -> None:
    """Stub, solution, and a sample of the variants and mutants get the verdicts that they must."""
    chosen = sample(name)
    proof = verify(name, ROOT, select=lambda s: s.kind not in EVERY or s.name in chosen)
    assert [breach for trial in proof.trials for breach in trial.breaches()] == [], matrix(proof)


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_is_complete(name: str) -> None:
    """Enough mutants and variants, a mutant for every check, three hints everywhere, nothing else in the folder, and a
    stub that nobody has begun."""
    exercise = catalog.load(name, ROOT)
    catalog.check_nothing_else(exercise.folder)
    assert all(check.why and check.section for check in exercise.checks), "make explain has nothing to say"
    mutants = catalog.load_mutants(exercise, ROOT)
    assert len(mutants) >= FEWEST_MUTANTS and len(catalog.variants(exercise, ROOT)) >= FEWEST_VARIANTS
    assert {check.id for check in exercise.checks} == {check for mutant in mutants for check in mutant.fails}
    assert len(exercise.hints) == 3 and all(len(check.hints) == 3 for check in exercise.checks)
    assert not begun(exercise, ROOT)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_teaches(name: str) -> None:
    """The idea, the contract, an example, common mistakes, what interviewers ask, further reading."""
    text = (ROOT / "exercises" / name / "README.md").read_text()
    headings = [line.lower() for line in text.splitlines() if line.startswith("## ")]
    for wanted in ("idea", "contract", "example", "mistake", "interview", "reading"):
        assert any(wanted in heading for heading in headings), wanted


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
def test_a_solution_is_short(name: str) -> None:
    """It can be read in one sitting."""
    solution = ROOT / "reference" / name / f"{name.partition('_')[2]}.py"
    assert len(solution.read_text().splitlines()) <= 160
