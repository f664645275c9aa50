"""Automatic mutants that are no faults, each with the reason: reference/NN_name/equivalents.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader.catalog.document import Document, read, validated
from grader.catalog.manifest import Strict, Text
from grader.catalog.names import reference
from grader.model import Exercise

EQUIVALENTS = "equivalents.yaml"
ANYTHING = "…"
"""Stands for any text in the name of a mutant."""


class EquivalentEntry(Strict):
    """One entry of equivalents.yaml. `where: cuda`: equivalent only on a machine without a GPU."""

    mutant: Text
    reason: Text
    where: Literal["cuda"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """Mutants that behave as the solution does: which, why, and at which line of the file that stands. `needs_gpu`
    says that this holds only where there is no GPU, which alone would show the fault."""

    mutant: str
    reason: str
    needs_gpu: bool
    path: Path
    line: int

    def matches(self, identity: str) -> bool:
        """Whether the entry means the mutant of this name: the name itself, or with `…` for any text."""
        if self.mutant == identity:
            return True
        pattern = ".*".join(map(re.escape, self.mutant.split(ANYTHING)))
        return ANYTHING in self.mutant and re.fullmatch(pattern, identity) is not None


def load_equivalents(exercise: Exercise, root: Path) -> tuple[Equivalent, ...]:
    """The entries of equivalents.yaml in order; none where there is no such file. Raises AuthorError with the line for
    one that is malformed or stands there twice."""
    path = reference(exercise.name, root) / EQUIVALENTS
    if not path.is_file():
        return ()
    document = read(path)
    entries = validated(document, list[EquivalentEntry])
    _check_distinct(document, entries)
    return tuple(
        Equivalent(
            mutant=entry.mutant,
            reason=entry.reason,
            needs_gpu=entry.where == "cuda",
            path=path,
            line=document.line((index, "mutant")),
        )
        for index, entry in enumerate(entries)
    )


def _check_distinct(document: Document, entries: list[EquivalentEntry]) -> None:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.mutant in first:
            line = document.line((first[entry.mutant], "mutant"))
            raise document.error((index, "mutant"), "the mutant stands twice", f"Line {line} has it too.")
        first[entry.mutant] = index
