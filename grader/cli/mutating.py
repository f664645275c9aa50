"""`verify --auto`: which automatic mutants of which exercises, and what becomes of the scores."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.cli import console
from grader.cli.ending import FAILED, PASSED, terminable
from grader.model.errors import UsageError

if TYPE_CHECKING:
    from grader.authoring.mutation.generate import AutoMutant
    from grader.authoring.mutation.score import Score, Subject

EVERY = 10
"""A log gets a line for every so many mutants."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What `verify` was asked to do, beside the exercises' names. `only`: a part of a mutant's name."""

    auto: bool
    seed: int | None
    start_method: str
    plain: bool
    only: str
    survivors: bool
    untried: bool
    list: bool
    json: Path | None
    table: Path | None

    def check(self) -> None:
        """What one order cannot mean, and files that cannot be written. Raises UsageError."""
        from grader.practice import output

        chosen = self.only or self.survivors or self.untried
        if not self.auto and (chosen or self.list or self.json or self.table):
            raise UsageError("--only, --survivors, --untried, --list, --json and --table go with --auto.")
        if (self.survivors or self.untried) and (self.json is None or not self.json.is_file()):
            raise UsageError("--survivors and --untried need --json FILE as an earlier run has written it.")
        if self.table and chosen:
            raise UsageError("--table wants all mutants of an exercise: leave --only, --survivors and --untried away.")
        if self.table and not self.table.is_file():
            raise UsageError(f"There is no page {self.table}; it has to hold the markers of the table.")
        for path in filter(None, (self.json, self.table)):
            output.check_writable(path)


def attack(names: Sequence[str], root: Path, order: Order) -> int:
    """Try the automatic mutants of the exercises, one exercise after another."""
    from grader.authoring.mutation import score, state

    known = state.read(order.json) if order.json else {}
    code = PASSED
    for name in names:
        subject = score.load(name, root)
        select = _selection(order, known.get(name, {}))
        if order.list:
            _show_names(subject, select)
            continue
        with terminable(), console.progress(name, order.plain) as progress:
            found = score.attack(
                subject,
                seed=order.seed,
                start_method=order.start_method,
                select=select,
                progress=_both(progress),
                known=lambda one: _keep(one, order),
            )
        console.show(score.page(found))
        if order.table:
            _write(order.table, state.tabulated(order.table.read_text(encoding="utf-8"), [found]))
        code = FAILED if found.breaches() else code
    return code


def _selection(order: Order, known: dict[str, Any]) -> Callable[[AutoMutant], bool]:
    """Which mutants are meant, by their names and by what an earlier run has found."""
    from grader.authoring.mutation import state

    survivors = state.survivors(known)

    def chosen(mutant: AutoMutant) -> bool:
        name = mutant.identity
        return (
            order.only in name
            and (name in survivors or not order.survivors)
            and (name not in known or not order.untried)
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


def _keep(found: Score, order: Order) -> None:
    """After each mutant: a run that is interrupted loses nothing, and --untried goes on from there."""
    from grader.authoring.mutation import state

    if order.json:
        _write(order.json, state.merged(state.read(order.json), [found]))


def _write(path: Path, text: str) -> None:
    from grader.practice import output

    def fill(partial: Path) -> Any:
        return partial.write_text(text, encoding="utf-8")

    output.write(path, fill)
