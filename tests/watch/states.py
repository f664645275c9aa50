"""States of watch mode, and the events that lead to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.model import Report
from grader.practice.watch import details, pages
from grader.practice.watch.nouns import Event, Key, Said
from grader.practice.watch.state import State, advance, begin
from tests import reports

PATH = Path("/course/exercises/03_train_ddp/train_ddp.py")
NAMES = ("02_shard_data", "03_train_ddp", "04_launch")
CHECKS = [{"id": check.id, "title": check.title, "points": check.points} for check in reports.CHECKS]
CASES = ["train[1]", "train[2]", "train[3]"]
STUCK = [
    {"rank": 0, "told": "waits in all_reduce", "line": 38},
    {"rank": 1, "told": "waits in barrier", "line": 42},
]


def fresh(**changes: Any) -> State:
    return begin(reports.EXERCISE, PATH, NAMES, **{"digest": "a", **changes})


def after(state: State, *events: Event) -> State:
    for event in events:
        state = advance(state, event)
    return state


def said(state: State, event: str, report: Report | None = None, **facts: Any) -> State:
    """What the worker says of the grade that is under way."""
    told = {"event": event, "grade": state.grade, **facts}
    return advance(state, Said(worker=state.worker, event=told, report=report))


def began(state: State) -> State:
    return said(said(state, "ready"), "began", seed=7, checks=CHECKS, cases=CASES)


def graded(report: Report, state: State | None = None) -> State:
    return said(began(state or fresh()), "report", report, first=0.3, seconds=0.7)


def pressed(state: State, *keys: str) -> State:
    return after(state, *(Key(name=key) for key in keys))


def shown(state: State, width: int = 80) -> str:
    lines = [*pages.header(state, width), *pages.checks(state, width), *details.details(state, width)]
    lines += [*pages.footer(state, width), *pages.overlay(state, width)]
    return "\n".join(line.plain for line in lines)
