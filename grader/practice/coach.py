"""Help that is tied to the check that fails now: hints of three levels, and why the check matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from grader import calling
from grader.model import Check, Exercise
from grader.model.errors import UsageError
from grader.practice.statement import WIDEST
from grader.practice.store import Attempt, Store
from grader.wording.paper import on_paper

LEVELS = 3
WHOLE = ""
"""What stands for the exercise as a whole where hints are counted by check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One hint. `check` is None where it is for the exercise as a whole. `seen` is what the run itself hints at, as a
    deadlock does."""

    exercise: Exercise
    check: Check | None
    level: int
    text: str
    seen: str = ""
    others: int = 0
    """How many further checks fail."""


def failing(exercise: Exercise, attempt: Attempt) -> tuple[Check, ...]:
    """The checks that failed, in the exercise's order; those that only wait for one are not among them."""
    return tuple(check for check in exercise.checks if attempt.checks.get(check.id) == "failed")


def next_hint(
    exercise: Exercise, attempt: Attempt | None, store: Store, *, level: int | None, wanted: str | None = None
) -> Hint | None:
    """The hint for the first check that fails, or for the one `wanted`; for the whole exercise where nothing has been
    graded yet; None where every check passes. Without a level it is the one after the last that was taken. Raises
    UsageError where nobody has written one."""
    if wanted is not None:
        return _hint(exercise, check_called(exercise, wanted), store, level)
    if attempt is None:
        return _whole(exercise, store, level)
    found = failing(exercise, attempt)
    if not found:
        return None
    seen = attempt.hints.get(found[0].id, "")
    return replace(_hint(exercise, found[0], store, level), others=len(found) - 1, seen=" ".join(seen.split()))


def check_called(exercise: Exercise, text: str) -> Check:
    """The check of this id. Raises UsageError that names those there are."""
    for check in exercise.checks:
        if check.id == text:
            return check
    names = ", ".join(check.id for check in exercise.checks)
    raise UsageError(f"{exercise.name} has no check '{text}'; there are {names}.")


def _hint(exercise: Exercise, check: Check, store: Store, level: int | None) -> Hint:
    if not check.hints:
        return _whole(exercise, store, level)
    level = min(level or store.hints(exercise.name, check.id) + 1, len(check.hints))
    return Hint(exercise=exercise, check=check, level=level, text=check.hints[level - 1])


def _whole(exercise: Exercise, store: Store, level: int | None) -> Hint:
    if not exercise.hints:
        raise UsageError(f"{exercise.name} has no hints of its own; write something, and ask again.")
    level = min(level or store.hints(exercise.name, WHOLE) + 1, len(exercise.hints))
    return Hint(exercise=exercise, check=None, level=level, text=exercise.hints[level - 1])


def take(hint: Hint, store: Store, at: datetime) -> None:
    """Remember that a hint was taken, so that the next one says more."""
    store.add_hint(hint.exercise.name, hint.check.id if hint.check else WHOLE, hint.level, at)


def hint_page(hint: Hint, width: int, *, lasting: bool = True) -> str:
    """The hint and how to get the next; where nothing lasts, that one has to be asked for by its level."""
    about = f"“{hint.check.title}”" if hint.check else f"{hint.exercise.name} as a whole"
    lines: list[Text | Padding] = [Text(f"Seen in the run: {hint.seen}"), Text()] if hint.seen else []
    lines += [
        Text(f"Hint {hint.level} of {LEVELS} for {about}"),
        Text(),
        Padding(Text(hint.text.strip()), (0, 0, 0, 2)),
    ]
    number, further = hint.exercise.number, [] if lasting else [f"--level {hint.level + 1}"]
    if hint.level < LEVELS:
        lines += [Text(), Text(f"The next one says more: {calling.command('hint', number, *further)}")]
    elif hint.check:
        lines += [Text(), Text(f"That was the last. Why it matters: {calling.command('explain', number)}")]
    if hint.others:
        checks = "checks fail" if hint.others > 1 else "check fails"
        lines += [Text(f"{hint.others} other {checks}; mend this one first.")]
    return on_paper(Group(*lines), color=False, width=min(width, WIDEST))


def explanation_page(exercise: Exercise, checks: Sequence[Check], *, color: bool, width: int) -> str:
    """Why each of these checks matters, and where the statement explains it."""
    parts: list[Text | Padding] = []
    for check in checks:
        parts += [Text(check.title, "bold"), Padding(Text(check.why or "Nobody has written why yet."), (0, 0, 0, 2))]
        if check.section:
            place = f"exercises/{exercise.name}/README.md"
            parts.append(Padding(Text(f"Read “{check.section}” in {place}.", "dim"), (0, 0, 0, 2)))
        parts.append(Text())
    return on_paper(Group(*parts[:-1]), color=color, width=min(width, WIDEST))
