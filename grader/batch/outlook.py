"""What a round will do, in sentences, before it does it: what is run, what is only judged again, why, and how long."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator

from grader.batch import diff
from grader.batch.agenda import Agenda, duration
from grader.batch.basis import JUDGE_PARTS, MEANINGS
from grader.batch.ledger import Ledger, content_of
from grader.batch.recording import JUDGE, RUN
from grader.model.words import count


def told(ledger: Ledger, agenda: Agenda, slots: int, before: sqlite3.Row | None = None) -> str:
    """A page for `--dry-run`. `before` is the plan that was in force when it was called."""
    changed = list(_changed(ledger, before)) if before else []
    return "\n".join([*_lines(ledger, agenda), *changed, *_conclusion(agenda, slots, bool(changed))]) + "\n"


def _lines(ledger: Ledger, agenda: Agenda) -> Iterator[str]:
    seconds: dict[tuple[str, str], float] = {}
    for task in agenda.tasks:
        key = task.exercise, task.kind
        seconds[key] = seconds.get(key, 0.0) + task.seconds
    for (exercise, kind), number in sorted(agenda.counts.items()):
        verb = "would be run" if kind == RUN else "would be judged again from the recorded runs"
        time = duration(seconds[exercise, kind])
        why = "; ".join(reasons(ledger, exercise, kind))
        yield f"{exercise}: {count(number, 'hand-in')} {verb} ({time} of a slot){f': {why}' if why else ''}."


def _changed(ledger: Ledger, before: sqlite3.Row) -> Iterator[str]:
    """The marks that the plan alone changes, as by another weight: for these nothing is graded."""
    changes = diff.changes(ledger, diff.planned(ledger, before))
    numbers = Counter((one.exercise, "; ".join(one.reasons)) for one in changes if not one.waits)
    for (exercise, why), number in sorted(numbers.items()):
        yield f"{exercise}: {count(number, 'mark')} would change with nothing graded for it: {why.rstrip('.')}."


def _conclusion(agenda: Agenda, slots: int, changed: bool) -> Iterator[str]:
    left = agenda.units - len(agenda.tasks)
    if left:
        yield f"{count(left, 'hand-in')} would stay as {'it is' if left == 1 else 'they are'}."
    if agenda.tasks:
        yield f"About {duration(agenda.seconds(slots))} on {count(slots, 'slot')}. Identical files count once here."
    else:
        yield "Nothing is left to be graded." if changed else "Nothing is left to do."


def reasons(ledger: Ledger, exercise: str, kind: str = JUDGE) -> list[str]:
    """What an exercise rests on that is another than in the plan before; nothing where there was none."""
    plan = ledger.plan()
    before = ledger.plan_before(plan["plan"]) if plan else None
    if plan is None or before is None:
        return []
    now_parts, then_parts = (content_of(one)["parts"].get(exercise, {}) for one in (plan, before))
    if not then_parts:
        return []
    changed = [name for name in now_parts if now_parts[name] != then_parts.get(name)]
    told = [MEANINGS[name] for name in changed if kind == RUN or name in JUDGE_PARTS]
    return [*told, *([MEANINGS["seed"]] if plan["seed"] != before["seed"] else [])]
