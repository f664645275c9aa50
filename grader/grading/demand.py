"""Which cases the checks will still ask for, so that no run is made, or goes on, of which nobody will hear.

What a check may ask for is read from its source: the names of case families that it mentions, or that what it calls
mentions. Where that tells too little a run is made when it is asked for, so nothing but time depends on it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import threading
from collections.abc import Mapping
from pathlib import Path

from grader.model import Case, Exercise, Outcome, Verdict


class Demand:
    """The cases that checks without a verdict may ask for. A check that needs one which did not pass asks for none."""

    def __init__(self, exercise: Exercise) -> None:
        self._checks = exercise.checks
        self._families = families(exercise)
        self._outcomes: dict[str, Outcome] = {}
        roots = [check.id for check in exercise.checks if not check.needs]
        self._first = _first_cases(exercise.cases, [name for root in roots for name in sorted(self._families[root])])

    def urgency(self, case: Case) -> tuple[bool, bool, int]:
        """Sorts cases: first one of each family for which a check waits that needs no other, since it may make all the
        rest superfluous; then the rest of the first family, for which the first check waits; then the largest, which
        packs best."""
        return case.id not in self._first, case.name != self._first_family, -case.world_size

    @property
    def _first_family(self) -> str:
        return next(iter(self._first), "").partition("[")[0]

    def note(self, verdict: Verdict) -> None:
        """Hear of a check's verdict."""
        self._outcomes[verdict.check.id] = verdict.outcome

    @property
    def has_failures(self) -> bool:
        return any(outcome is not Outcome.PASSED for outcome in self._outcomes.values())

    def wants(self, case: Case) -> bool:
        """Whether some check may still ask for it."""
        closed: set[str] = {check for check, outcome in self._outcomes.items() if outcome is not Outcome.PASSED}
        for check in self._checks:
            if closed & set(check.needs):
                closed.add(check.id)
            elif check.id not in self._outcomes and case.name in self._families[check.id]:
                return True
        return False


def _first_cases(cases: tuple[Case, ...], names: list[str]) -> tuple[str, ...]:
    """The first case of each of these families, with that of the first check in front."""
    found = (next((case.id for case in cases if case.name == name), "") for name in dict.fromkeys(names))
    return tuple(filter(None, found))


def families(exercise: Exercise) -> dict[str, frozenset[str]]:
    """The case families that each check may ask for; all of them where its source names none."""
    known = frozenset(case.name for case in exercise.cases)
    found: dict[str, frozenset[str]] = {}
    for folder in exercise.check_folders:
        mentioned = _mentioned_in(folder / "checks.py")
        for check in exercise.checks:
            if (check.folder or exercise.folder) == folder:
                found[check.id] = frozenset(_reached(f"test_{check.id}", mentioned) & known) or known
    return found


_parsing = threading.Lock()
"""Held while a file is parsed: in Python 3.11, threads that parse at once fail one another."""


def _mentioned_in(path: Path) -> Mapping[str, set[str]]:
    """The names and texts in each definition at the top of a file; none where it cannot be read."""
    with _parsing, contextlib.suppress(OSError, SyntaxError, ValueError, SystemError):
        return _mentioned(path.read_bytes())
    return {}


@functools.lru_cache(maxsize=64)
def _mentioned(source: bytes) -> Mapping[str, set[str]]:
    tree = ast.parse(source)
    found: dict[str, set[str]] = {}
    for statement in tree.body:
        words = {word for node in ast.walk(statement) for word in _words(node)}
        for name in _defined(statement):
            found[name] = found.get(name, set()) | words
    return found


def _words(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    return (node.value,) if isinstance(node, ast.Constant) and isinstance(node.value, str) else ()


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return [node.id for node in stored]


def _reached(name: str, mentioned: Mapping[str, set[str]]) -> set[str]:
    """All that is mentioned from a definition on."""
    found, waiting = set[str](), [name]
    while waiting:
        new = mentioned.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found
