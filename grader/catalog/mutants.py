"""The solution's other sides: right variants and wrong mutants, which keep the checks honest."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

from grader.catalog.document import Document, read, read_text, validated
from grader.catalog.functions import compiled_fault, tree
from grader.catalog.manifest import MutantEntry
from grader.catalog.names import reference
from grader.catalog.nearest import offer
from grader.model import Exercise

MUTANTS = "mutants.yaml"
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A wrong solution: its mistake in a sentence, its whole source, the checks that must come out FAILED, and, where
    that leaves it less than 60 points of 100, the reason why this is fair."""

    name: str
    mistake: str
    source: str
    fails: tuple[str, ...]
    below_60: str | None = None


def variants(exercise: Exercise, root: Path) -> tuple[Path, ...]:
    """Files with other right solutions, which must pass all checks, in order; none where there is no such folder."""
    return tuple(sorted((reference(exercise.name, root) / "variants").glob("[!._]*.py")))


def load_mutants(exercise: Exercise, root: Path) -> tuple[Mutant, ...]:
    """The mutants of reference/NN_name/mutants.yaml, in order. Raises AuthorError with the line for one that cannot be
    made from the solution, repeats another's name or names a check that there is not."""
    folder = reference(exercise.name, root)
    document = read(folder / MUTANTS)
    entries = validated(document, list[MutantEntry])
    tree(folder / exercise.file)
    solution = read_text(folder / exercise.file)
    _check_names(document, entries)
    for index, entry in enumerate(entries):
        _check_fails(document, index, entry, [check.id for check in exercise.checks])
    return tuple(
        Mutant(
            name=entry.name,
            mistake=entry.mistake,
            source=_mutated(document, index, entry, solution),
            fails=tuple(entry.fails),
            below_60=entry.below_60,
        )
        for index, entry in enumerate(entries)
    )


def _check_names(document: Document, entries: list[MutantEntry]) -> None:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.name in first:
            line = document.line((first[entry.name], "name"))
            raise document.error((index, "name"), f"there are two mutants '{entry.name}'", f"Line {line} has it too.")
        first[entry.name] = index


def _check_fails(document: Document, index: int, entry: MutantEntry, checks: list[str]) -> None:
    if not entry.fails:
        raise document.error((index, "fails"), f"'{entry.name}' fails no check", "Name those that must fail.")
    for place, check in enumerate(entry.fails):
        if check not in checks:
            raise document.error((index, "fails", place), f"there is no check '{check}'", offer(check, checks))


def _mutated(document: Document, index: int, entry: MutantEntry, solution: str) -> str:
    """The solution with all edits made, each where its `old` stands in the solution itself."""
    if not entry.edits:
        raise document.error((index, "edits"), f"'{entry.name}' has no edit", "Add one.")
    spans = sorted(_span(document, index, place, entry, solution) for place in range(len(entry.edits)))
    pieces, end = [], 0
    for start, stop, place in spans:
        if start < end:
            raise document.error((index, "edits", place), "two edits overlap", "Make them one edit.")
        pieces += [solution[end:start], entry.edits[place].new]
        end = stop
    source = "".join([*pieces, solution[end:]])
    _check_source(document, index, entry, source, solution)
    return source


def _span(document: Document, index: int, place: int, entry: MutantEntry, solution: str) -> tuple[int, int, int]:
    edit, steps = entry.edits[place], (index, "edits", place, "old")
    count = solution.count(edit.old) if edit.old else 0
    if count != 1:
        fault = f"{_short(edit.old)} occurs {_times(count)} in the solution"
        remedy = "Give more of the text around it." if count else "Copy the text from the solution, spaces included."
        raise document.error(steps, fault, remedy)
    if edit.old == edit.new:
        raise document.error(steps, "the edit changes nothing", "Let `new` differ from `old`.")
    start = solution.index(edit.old)
    return start, start + len(edit.old), place


def _times(count: int) -> str:
    return "nowhere" if count == 0 else f"{count} times"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _check_source(document: Document, index: int, entry: MutantEntry, source: str, solution: str) -> None:
    fault = compiled_fault(source)
    if fault:
        where = f" at line {fault.lineno} of the result" if fault.lineno else ""
        raise document.error(
            (index, "edits"), f"'{entry.name}' does not compile: {fault.msg}{where}", "Mend its edits."
        )
    if _outline(source) == _outline(solution):
        raise document.error((index, "edits"), f"'{entry.name}' changes no code", "Let an edit change what it does.")


@functools.lru_cache(maxsize=2)  # the solution, and the mutant that is looked at
def _outline(source: str) -> str:
    """What the code says, whatever its layout and comments."""
    return ast.dump(ast.parse(source))
