"""`verify --auto`: which automatic mutants of which exercises, and what becomes of the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader import files
from grader.authoring.mutation import score, state
from grader.authoring.mutation.generate import AutoMutant
from grader.authoring.mutation.score import Score, Subject
from grader.cli import console
from grader.cli.ending import FAILED, PASSED
from grader.cli.verify import Options


def attack(names: Sequence[str], root: Path, asked: Options) -> int:
    """Try the automatic mutants of the exercises, one exercise after another."""
    known = state.read(asked.json) if asked.json else {}
    code = PASSED
    for name in names:
        subject = score.load(name, root, own=asked.own)
        select = _selection(asked, known.get(name, {}), subject)
        if asked.list:
            _show_names(subject, select)
            continue
        with console.progress(name, asked.plain) as progress:
            found = score.attack(
                subject,
                seed=asked.seed,
                start_method=asked.start_method,
                select=select,
                progress=console.logged(progress, "survived"),
                known=lambda one: _keep(one, asked),
            )
        console.show(score.page(found))
        if asked.table:
            whole = state.completed(found, known.get(name, {}))
            files.write(asked.table, state.tabulated(asked.table.read_text(encoding="utf-8"), [whole]))
        code = FAILED if found.breaches() else code
    return code


def _selection(asked: Options, known: dict[str, Any], subject: Subject) -> Callable[[AutoMutant], bool]:
    """Which mutants are meant, by their names, by what an earlier run has found, and by drawing. What survived is tried
    again whether it is drawn or not."""
    survivors, drawn = state.survivors(known), subject.drawn()

    def chosen(mutant: AutoMutant) -> bool:
        name = mutant.identity
        return (
            (not asked.only or any(text in name for text in asked.only))
            and not (asked.own and mutant.variant)
            and (asked.full or asked.survivors or name in drawn)
            and (name in survivors or not asked.survivors)
            and (name not in known or not asked.untried)
        )

    return chosen


def _show_names(subject: Subject, select: Callable[[AutoMutant], bool]) -> None:
    for mutant in filter(select, subject.mutants):
        console.show(f"{subject.exercise.name}:{mutant.line}: {mutant.identity}")
    of = {variant or "the solution": number for variant, number in subject.counts().items()}
    told = ", ".join(f"{number} of {name}" for name, number in of.items())
    console.say(f"{subject.exercise.name} has {len(subject.mutants)} automatic mutants: {told}.")


def _keep(found: Score, asked: Options) -> None:
    """After each mutant: a run that is interrupted loses nothing, and --untried goes on from there."""
    if asked.json:
        files.write(asked.json, state.merged(state.read(asked.json), [found]))
