"""`verify --auto`: which automatic mutants of which exercises, and what becomes of the scores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader import files
from grader.authoring.mutation import score, state
from grader.authoring.mutation.generate import AutoMutant
from grader.authoring.mutation.score import Score, Subject
from grader.cli import console
from grader.cli.ending import FAILED, PASSED, terminable
from grader.cli.verify import Options

EVERY = 10
"""A log gets a line for every so many mutants."""


def attack(names: Sequence[str], root: Path, asked: Options) -> int:
    """Try the automatic mutants of the exercises, one exercise after another."""
    known = state.read(asked.json) if asked.json else {}
    code = PASSED
    for name in names:
        subject = score.load(name, root)
        select = _selection(asked, known.get(name, {}))
        if asked.list:
            _show_names(subject, select)
            continue
        with terminable(), console.progress(name, asked.plain) as progress:
            found = score.attack(
                subject,
                seed=asked.seed,
                start_method=asked.start_method,
                select=select,
                progress=_both(progress),
                known=lambda one: _keep(one, asked),
            )
        console.show(score.page(found))
        if asked.table:
            _write(asked.table, state.tabulated(asked.table.read_text(encoding="utf-8"), [found]))
        code = FAILED if found.breaches() else code
    return code


def _selection(asked: Options, known: dict[str, Any]) -> Callable[[AutoMutant], bool]:
    """Which mutants are meant, by their names and by what an earlier run has found."""
    survivors = state.survivors(known)

    def chosen(mutant: AutoMutant) -> bool:
        name = mutant.identity
        return (
            asked.only in name
            and (name in survivors or not asked.survivors)
            and (name not in known or not asked.untried)
        )

    return chosen


def _show_names(subject: Subject, select: Callable[[AutoMutant], bool]) -> None:
    for mutant in filter(select, subject.mutants):
        console.show(f"{subject.exercise.name}:{mutant.line}: {mutant.identity}")


def _both(progress: Callable[[str], None]) -> Callable[[str], None]:
    """A spinner shows each phase; a log, which gets only the first one from it, one phase in ten as well."""
    count = 0

    def tell(phase: str) -> None:
        nonlocal count
        progress(phase)
        if count and count % EVERY == 0 and not sys.stderr.isatty():
            console.say(phase)
        count += 1

    return tell


def _keep(found: Score, asked: Options) -> None:
    """After each mutant: a run that is interrupted loses nothing, and --untried goes on from there."""
    if asked.json:
        _write(asked.json, state.merged(state.read(asked.json), [found]))


def _write(path: Path, text: str) -> None:
    def fill(partial: Path) -> Any:
        return partial.write_text(text, encoding="utf-8")

    files.write(path, fill)
