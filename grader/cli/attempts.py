"""Attempts: grades of the student's own file, which are kept for `progress`, `hint` and `explain`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from grader import submission
from grader.cli import clock, console
from grader.cli.telling import Told
from grader.grading import flow
from grader.grading.request import Machine, Request, need_torch
from grader.model import Exercise, Report
from grader.model.errors import GraderError
from grader.practice import history
from grader.practice.store import Attempt, Store, is_off, place


def remember(report: Report, root: Path) -> None:
    """Keep an attempt at the student's own file. That this fails costs nobody their verdict."""
    if report.submission.path.resolve() != report.exercise.stub.resolve() or is_off():
        return
    try:
        Store(place(root)).add(history.attempt_of(report, clock.now()))
    except GraderError as error:
        console.say(f"grader: This attempt is not in your progress: {error}")


def current(exercise: Exercise, root: Path, store: Store) -> Attempt | None:
    """The attempt that fits the student's file as it is now; it is graded first if there is none. None for a file that
    nobody has begun."""
    if not submission.begun(exercise, root):
        return None
    attempt = store.last(exercise.name)
    if attempt is None or attempt.digest != submission.receive(exercise, None, root).digest:
        need_torch()
        _practise(exercise.name, root, store)
        attempt = store.last(exercise.name)
    return attempt


def grade_quietly(request: Request, label: str, *, plain: bool) -> Report:
    """One grade on a session of its own, of which a progress line alone is shown."""
    with console.progress(label, plain) as progress, closing(Machine().session()) as session:
        return flow.grade(request, session, Told(progress))


def _practise(name: str, root: Path, store: Store) -> None:
    """Grade the student's own file, show nothing, and keep the attempt."""
    report = grade_quietly(Request(exercise=name, root=root), name, plain=False)
    store.add(history.attempt_of(report, clock.now()))
