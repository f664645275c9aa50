"""Which cases the checks will still ask for, so that no run is made, or goes on, of which nobody will hear.

What a check may ask for is read from its source: the names of case families that it mentions as texts, or that what
it calls mentions. Where that tells too little a run is made when it is asked for, so nothing but time depends on it.
"""

from __future__ import annotations

import ast
import contextlib
import fnmatch
import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from grader.model import Case, Exercise, Outcome, Verdict


class Demand:
    """The cases that checks without a verdict may ask for. A check that needs one which did not pass asks for none."""

    def __init__(self, exercise: Exercise) -> None:
        self._checks = exercise.checks
        self._families = families(exercise)
        self._outcomes: dict[str, Outcome] = {}
        asked = [(name, at) for at, check in enumerate(self._checks) for name in self._families[check.id]]
        self._asked_at = dict(reversed(asked))
        """Which check asks first for each family."""
        roots = [check.id for check in exercise.checks if not check.needs]
        self._first = _first_cases(exercise.cases, [name for root in roots for name in sorted(self._families[root])])

    def urgency(self, case: Case, pace: float = 0.0) -> tuple[bool, int, float, int]:
        """Sorts cases: first one of each family for which a check waits that needs no other, since it may make all the
        rest superfluous; then in the order in which checks will ask for them, so that judging goes on meanwhile; of
        those for one check the longest, which packs best. `pace`: seconds that it took the last time; 0 where nobody
        knows, then the largest."""
        return case.id not in self._first, self._asked_at.get(case.name, 0), -pace, -case.world_size

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
                found[check.id] = _matching(known, _reached(f"test_{check.id}", mentioned)) or known
    return found


def _matching(families: frozenset[str], texts: set[str]) -> frozenset[str]:
    """The families that a text names. One that is put together when the check runs may name several."""
    parted = [text for text in texts if GAP in text and text.strip(GAP)]
    return frozenset(
        name for name in families if name in texts or any(fnmatch.fnmatchcase(name, text) for text in parted)
    )


class Words(NamedTuple):
    """What a definition mentions: the names of others, and texts."""

    names: frozenset[str]
    texts: frozenset[str]


GAP = "*"
"""Stands in a text for what is put in when the check runs."""
_parsing = threading.Lock()
"""Held while a file is parsed: in Python 3.11, threads that parse at once fail one another."""


def _mentioned_in(path: Path) -> Mapping[str, Words]:
    """The names and texts in each definition at the top of a file; none where it cannot be read."""
    with _parsing, contextlib.suppress(OSError, SyntaxError, ValueError, SystemError):
        return _mentioned(path.read_bytes())
    return {}


@functools.lru_cache(maxsize=64)
def _mentioned(source: bytes) -> Mapping[str, Words]:
    found: dict[str, Words] = {}
    for statement in ast.parse(source).body:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        texts = {text for node in ast.walk(statement) for text in _texts(node)}
        for name in _defined(statement):
            before = found.get(name, Words(frozenset(), frozenset()))
            found[name] = Words(before.names | names, before.texts | texts)
    return found


def _texts(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.JoinedStr):
        return ("".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values),)
    return (node.value,) if isinstance(node, ast.Constant) and isinstance(node.value, str) else ()


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return [node.id for node in stored]


def _reached(name: str, mentioned: Mapping[str, Words]) -> set[str]:
    """All texts that are mentioned from a definition on."""
    seen, texts, waiting = set[str](), set[str](), [name]
    while waiting:
        if (one := waiting.pop()) not in seen and one in mentioned:
            seen.add(one)
            texts |= mentioned[one].texts
            waiting += mentioned[one].names
    return texts
