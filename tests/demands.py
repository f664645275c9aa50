"""What a complete exercise has to have, whether it is one of ours or one that `new` has just written."""

from __future__ import annotations

from pathlib import Path

from grader import catalog
from grader.submission import begun

HEADINGS = ("idea", "contract", "example", "mistake", "interview", "reading")
LINES = 160
"""So long may a solution be: it is read in one sitting."""


def demand_complete(name: str, root: Path, *, mutants: int, variants: int) -> None:
    """Enough mutants and variants, a mutant for every check, three hints everywhere, a reason and a section for each
    check, nothing else in the folder, a probe that asks for what `requires` names, and a stub that nobody has begun."""
    exercise = catalog.load(name, root)
    catalog.check_nothing_else(exercise.folder)
    catalog.check_calls(exercise)
    assert all(check.why and check.section for check in exercise.checks), "make explain has nothing to say"
    wrong = catalog.load_mutants(exercise, root)
    assert len(wrong) >= mutants and len(catalog.variants(exercise, root)) >= variants
    assert {check.id for check in exercise.checks} == {check for mutant in wrong for check in mutant.fails}
    assert len(exercise.hints) == 3 and all(len(check.hints) == 3 for check in exercise.checks)
    assert not begun(exercise, root)


def demand_teaching(name: str, root: Path) -> None:
    """The idea, the contract, an example, common mistakes, what interviewers ask, further reading."""
    text = (root / "exercises" / name / "README.md").read_text()
    headings = [line.lower() for line in text.splitlines() if line.startswith("## ")]
    for wanted in HEADINGS:
        assert any(wanted in heading for heading in headings), wanted


def demand_short(name: str, root: Path) -> None:
    """The solution can be read in one sitting."""
    solution = catalog.reference(name, root) / catalog.load(name, root).file
    assert len(solution.read_text().splitlines()) <= LINES
