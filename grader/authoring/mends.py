"""Packing mends: mutants of an exercise are chosen by rule, graded once each, and kept with the pages that they got.

A pack is stale where what its pages rest on has changed: a mutant's program, the checks that it must fail, or which
checks there are and what they need. Titles, points, hints and reasons do not matter; a page takes those of today.
"""

from __future__ import annotations

import ast
import difflib
import json
import sysconfig
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import catalog
from grader.authoring.lab import solution_of
from grader.catalog import Mutant
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.grading.sessions import AnySession
from grader.model import Exercise, Outcome, Report
from grader.practice.mend import pack
from grader.practice.mend.pack import Pack, Packed
from grader.records import digests
from grader.render import json as as_json

MOST = 20
"""So many mends of an exercise are packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a pack stands to the mutants of today: the names of those that are as they were, and of those that are not
    or are gone."""

    current: tuple[str, ...]
    stale: tuple[str, ...]


def choose(exercise: Exercise, mutants: Sequence[Mutant], most: int = MOST) -> tuple[Mutant, ...]:
    """By check, in the order of the exercise: the first mutant that fails it, then the second that does, and so on.
    Those that fail fewer checks go first, for their pages tell one thing; those that lack a function of the contract,
    or have a condition that says False, are left, for there is nothing to find."""
    required = {one.name.partition(".")[0] for one in exercise.requires}
    whole = [mutant for mutant in mutants if required <= set(_defined(mutant.source)) and not _is_plain(mutant.source)]
    simple = sorted(whole, key=lambda mutant: len(mutant.fails))
    queues = [[mutant for mutant in simple if check.id in mutant.fails] for check in exercise.checks]
    chosen: dict[str, Mutant] = {}
    while any(queues) and len(chosen) < most:
        for queue in queues:
            while queue and queue[0].name in chosen:
                del queue[0]
            if queue and len(chosen) < most:
                mutant = queue.pop(0)
                chosen[mutant.name] = mutant
    return tuple(mutant for mutant in mutants if mutant.name in chosen)


def _is_plain(source: str) -> bool:
    """Whether a condition of it stands switched on or off, which is seen at a glance."""
    tests = (node.test for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If | ast.IfExp))
    return any(isinstance(part, ast.Constant) for test in tests for part in (test, *getattr(test, "values", ())))


def _defined(source: str) -> Iterator[str]:
    """The names that a module's own lines define."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def record(
    exercise: Exercise,
    root: Path,
    session: AnySession,
    mutants: Sequence[Mutant],
    tell: Callable[[str], None] = lambda phase: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Iterator[Packed]:
    """Grade each mutant once. One whose verdicts are not what its author says is left out, which is said."""
    solution = solution_of(exercise, root).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="ranklings-mends-") as folder:
        file = Path(folder) / exercise.file
        for number, mutant in enumerate(mutants, 1):
            tell(f"{number} of {len(mutants)}: {mutant.name}")
            file.write_text(mutant.source, encoding="utf-8")
            report = grade(Request(exercise=exercise.name, root=root, submission=file), session)
            failed = {verdict.check.id for verdict in report.verdicts if verdict.outcome is Outcome.FAILED}
            if report.status != "failed" or failed != set(mutant.fails):
                named = ", ".join(sorted(failed)) or "nothing"
                odd = [verdict.message for verdict in report.verdicts if verdict.outcome is Outcome.BROKEN]
                why = f"a check could not be judged: {odd[0]}" if odd else f"it failed {named}"
                say(f"{exercise.name}: {mutant.name} is left out, since {why} (seed {report.seed}).")
                continue
            yield _packed(exercise, mutant, solution, report, folder)


def _packed(exercise: Exercise, mutant: Mutant, solution: str, report: Report, folder: str) -> Packed:
    page = anonymous(json.dumps(pack.pruned(json.loads(as_json.render(report)))), folder)
    line = changed_line(mutant.source, solution)
    return Packed(
        mutant=mutant.name,
        mistake=mutant.mistake,
        fails=mutant.fails,
        source=mutant.source,
        mended=difference(mutant.source, solution),
        function=function_at(mutant.source, line),
        line=line,
        digest=digest(exercise, mutant),
        report=json.loads(page),
    )


def anonymous(page: str, *folders: str) -> str:
    """A page without the places of the machine on which it was recorded, as a library's warning names them."""
    for folder in (*folders, *map(sysconfig.get_path, ("purelib", "platlib", "stdlib"))):
        page = page.replace(f"{folder}/", "")
    return page


def difference(wrong: str, right: str) -> tuple[str, ...]:
    """The lines of a diff from the wrong program to the right one, as far left as each change allows."""
    a, b = wrong.splitlines(), right.splitlines()
    found: list[str] = []
    for kind, start, stop, first, last in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            lines = textwrap.dedent("\n".join([*a[start:stop], *b[first:last]])).split("\n")
            found += ["…"] if found else []
            found += [f"{'-' if place < stop - start else '+'} {line}" for place, line in enumerate(lines)]
    return tuple(found)


def changed_line(wrong: str, right: str) -> int:
    """The first line of the wrong program that is not the right one's, or before which something is missing."""
    steps = difflib.SequenceMatcher(None, wrong.splitlines(), right.splitlines(), autojunk=False).get_opcodes()
    start = next((start for kind, start, _, _, _ in steps if kind != "equal"), 0)
    return min(start + 1, len(wrong.splitlines()))


def function_at(source: str, line: int) -> str:
    """The innermost function or method around a line, as `Class.method`; empty for the module's own lines."""

    def inside(nodes: Iterable[ast.AST], path: tuple[str, ...]) -> tuple[str, ...]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
                return inside(node.body, (*path, node.name))
        return path

    return ".".join(inside(ast.parse(source).body, ()))


def digest(exercise: Exercise, mutant: Mutant) -> str:
    """Of all that the recorded page rests on but for words."""
    checks = json.dumps([[check.id, check.needs] for check in exercise.checks])
    facts = {"source": mutant.source, "fails": json.dumps(sorted(mutant.fails)), "checks": checks}
    return digests.of_files([(name, fact.encode()) for name, fact in facts.items()])


def state(found: Pack, exercise: Exercise, root: Path) -> State:
    """Which of a pack's mends are as they were recorded."""
    today = {mutant.name: digest(exercise, mutant) for mutant in catalog.load_mutants(exercise, root)}
    current = [mend.mutant for mend in found.mends if today.get(mend.mutant) == mend.digest]
    stale = [mend.mutant for mend in found.mends if mend.mutant not in current]
    return State(current=tuple(current), stale=tuple(stale))
