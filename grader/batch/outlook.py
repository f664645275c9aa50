"""What a round will do, in sentences, before it does it: what is run, what is only judged again, why, and how long."""

from __future__ import annotations

from collections.abc import Iterator

from grader.batch.agenda import Agenda, duration
from grader.batch.basis import JUDGE_PARTS, MEANINGS
from grader.batch.ledger import Ledger, content_of
from grader.batch.recording import JUDGE, RUN
from grader.model.words import count


def told(ledger: Ledger, agenda: Agenda, slots: int) -> str:
    """A page for `--dry-run`."""
    return "\n".join([*_lines(ledger, agenda), *_conclusion(agenda, slots)]) + "\n"


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


def _conclusion(agenda: Agenda, slots: int) -> Iterator[str]:
    left = agenda.units - len(agenda.tasks)
    if left:
        yield f"{count(left, 'hand-in')} would stay as {'it is' if left == 1 else 'they are'}."
    if agenda.tasks:
        yield f"About {duration(agenda.seconds(slots))} on {count(slots, 'slot')}. Identical files count once here."
    else:
        yield "Nothing is left to do."


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
