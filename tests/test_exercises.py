"""The exercises themselves: every one is proved on real ranks, as `make verify` does, and its pages can be read."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.verify import Kind, Specimen, Trial, specimens, try_all
from grader.ranks import Session
from grader.records import digests
from tests.demands import demand_complete, demand_short, demand_teaching
from tests.solutions import Solutions

ROOT = Path(__file__).parents[1]
NAMES = catalog.all_names(ROOT)
DRAWN = {Kind.VARIANT: 1, Kind.MUTANT: 1}
"""So many are tried here; `make verify` tries all."""
FEWEST_MUTANTS, FEWEST_VARIANTS = 15, 2


def drawn(every: Sequence[Specimen], tree: str) -> list[Specimen]:
    """The stub, and a few others that the tree's content draws: the same for one tree, and over time, as the tree
    changes, all of them."""
    order = sorted(every, key=lambda specimen: hashlib.sha256(f"{tree}/{specimen.name}".encode()).digest())
    few = [s for kind, count in DRAWN.items() for s in [s for s in order if s.kind is kind][:count]]
    return [*(specimen for specimen in every if specimen.kind is Kind.STUB), *few]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_accepts_what_is_right_and_nothing_else(name: str, warm: Session, solved: Solutions) -> None:
    """Stub, solution, a variant and a mutant get the verdicts that they must."""
    solution = solved(name)
    exercise = solution.exercise
    every = specimens(exercise, ROOT)
    tree = digests.of_files((s.name, s.source) for s in every) + digests.of_exercise(exercise) + digests.of_engine()
    right = Trial(specimen=solution.specimen, verdicts=solution.verdicts(), seed=solution.seed, seconds=0.0)
    trials = (right, *try_all(warm, exercise, ROOT, drawn(every, tree), solution.seed, lambda phase: None))
    assert [breach for trial in trials for breach in trial.breaches()] == []
    assert [breach for trial in trials for breach in trial.unfair()] == []


def test_over_time_every_mutant_and_variant_is_drawn() -> None:
    """One tree draws the same ones each time; six hundred trees have drawn all of sixty mutants."""
    kinds = [Kind.STUB, Kind.SOLUTION, *[Kind.VARIANT] * 5, *[Kind.MUTANT] * 60]
    every = [Specimen(kind=kind, name=str(n), path=Path("s.py"), source=b"") for n, kind in enumerate(kinds)]
    assert drawn(every, "a") == drawn(every, "a") != drawn(every, "b")
    rest = {specimen for specimen in every if specimen.kind is not Kind.SOLUTION}
    assert {specimen for tree in range(600) for specimen in drawn(every, str(tree))} == rest
    assert len(drawn(every, "a")) == 1 + sum(DRAWN.values())


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
