"""The page of `progress`: the course as a map, what is done, what comes next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader import calling
from grader.model import number_of
from grader.practice import mastery_page, milestones
from grader.practice.history import Standing, next_one
from grader.practice.mastery import Topic
from grader.wording.paper import on_paper

MARKS = {"passed": ("✓", "green"), "begun": ("·", "yellow"), "new": (" ", "")}
WORDS = {"passed": "passed", "begun": "under way", "new": "not begun"}


def page(
    found: Sequence[Standing],
    now: datetime,
    *,
    topics: Sequence[Topic] = (),
    color: bool,
    width: int,
    plain: bool = False,
) -> str:
    """The map, `width` columns wide, and the mastery of `topics` once something was met; `plain` is one sentence an
    exercise, for screen readers."""
    known = topics if any(topic.met for topic in topics) else ()
    coming, reached = next_one(found), milestones.milestones(found)
    end = Text(advice(found))
    if plain:
        lines = [Text(_sentence(each, now)) for each in found]
        parts = [Text(milestones.sentence(each)) for each in reached]
        told = [*map(Text, mastery_page.sentences(known, now)), Text()] if known else []
        return on_paper(Group(*lines, Text(), *parts, Text(), *told, end), color=False, width=width)
    between: list[RenderableType] = [milestones.grid(reached), Text()] if reached else []
    between += [mastery_page.grid(known, now), Text()] if known else []
    course = Group(_summary(found), Text(), _grid(found, coming, now), Text(), *between, end)
    return on_paper(course, color=color, width=width)


def as_json(found: Sequence[Standing], topics: Sequence[Topic] = ()) -> str:
    """The same for programs."""
    coming = next_one(found)
    content = {
        "next": coming.exercise.name if coming else None,
        "exercises": [_plain(each) for each in found],
        "parts": [milestones.plain(each) for each in milestones.milestones(found)],
        "topics": [mastery_page.plain(topic) for topic in topics],
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _plain(each: Standing) -> dict[str, Any]:
    return {
        "exercise": each.exercise.name,
        "state": each.state,
        "attempts": each.attempts,
        "until_pass": each.until_pass,
        "best": round(each.best, 2),
        "hints": each.hints,
        "passed_at": each.passed_at.isoformat() if each.passed_at else None,
        "last_at": each.last_at.isoformat() if each.last_at else None,
    }


def _summary(found: Sequence[Standing]) -> Text:
    """A bar of the course and how much of it is done."""
    done = sum(each.state == "passed" for each in found)
    minutes = sum(each.exercise.time_box for each in found if each.state != "passed")
    bar = Text()
    for each in found:
        mark, style = MARKS[each.state]
        bar.append(f" {each.exercise.number}{mark if mark != ' ' else '○'} ", style)
    left = f", about {_hours(minutes)} to go" if minutes else ""
    return Text.assemble((f"{done} of {len(found)} passed", "bold"), left, "\n", bar)


def _grid(found: Sequence[Standing], coming: Standing | None, now: datetime) -> Table:
    grid = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    grid.add_column("", no_wrap=True)
    grid.add_column("Exercise")
    numbers = {"Best": [_best(each) for each in found], "Tries": [str(each.attempts or "") for each in found]}
    numbers["Hints"] = [str(each.hints or "") for each in found]
    shown = {heading: column for heading, column in numbers.items() if any(column)}
    for heading in shown:
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("")
    for place, each in enumerate(found):
        mark, style = MARKS[each.state]
        arrow = "→" if coming and each.exercise.name == coming.exercise.name else " "
        name = Text(f"{each.exercise.number}  {each.exercise.title}")
        row = [column[place] for column in shown.values()]
        grid.add_row(Text.assemble(arrow, (mark, style)), name, *row, Text(remark(each, now), "dim"))
    return grid


def _best(each: Standing) -> str:
    return f"{each.best:.0f} %" if each.attempts else ""


def remark(each: Standing, now: datetime) -> str:
    """When it was passed or tried, or how long it takes and what it needs."""
    if each.until_pass and each.passed_at:
        tries = "on the first try" if each.until_pass == 1 else f"on try {each.until_pass}"
        return f"passed {tries}, {ago(each.passed_at, now)}"
    interview = f"passed in an interview, {ago(each.interviewed_at, now)}" if each.interviewed_at else ""
    tried = f"last tried {ago(each.last_at, now)}" if each.last_at else ""
    if interview or tried:
        return "; ".join(filter(None, (tried, interview)))
    needs = [number_of(name) for name in each.exercise.prerequisites]
    return f"{each.exercise.time_box} min{', after ' + ', '.join(needs) if needs else ''}"


def _sentence(each: Standing, now: datetime) -> str:
    numbers = f", best {each.best:.0f} %, {each.attempts} tries" if each.attempts else ""
    told = remark(each, now)
    return f"{each.exercise.number} {each.exercise.title}: {WORDS[each.state]}{numbers}. {told[:1].upper()}{told[1:]}."


def advice(found: Sequence[Standing]) -> str:
    """What to do next."""
    coming = next_one(found)
    if coming is None:
        return f"Everything is passed. {calling.command('quiz')} and {calling.command('interview')} keep it fresh."
    verb = "Go on with" if coming.state == "begun" else "Next"
    number = coming.exercise.number
    show, watch = calling.command("show", number), calling.command("watch", number)
    return f"{verb}: {number} {coming.exercise.title} ({show}, {watch})"


def ago(then: datetime, now: datetime) -> str:
    """How long ago, in the largest unit."""
    seconds = max(0, int((now - then).total_seconds()))
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _hours(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours and rest else f"{hours} h" if hours else f"{rest} min"
