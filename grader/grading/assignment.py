"""Several exercises, one after another: an assignment's, those that were named, or all that a student has begun.
Nothing is printed here and nothing written; entries come as they are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from grader import catalog
from grader.grading import flow
from grader.grading.observe import SILENT, Listener
from grader.grading.report import not_graded
from grader.grading.request import Machine, Request
from grader.grading.sessions import AnySession
from grader.model import Entry, Result
from grader.model.assignment import Part
from grader.model.errors import AuthorError, GraderError, UsageError
from grader.submission import receive_or_miss

WAITING = "The grader was stopped before it came to this exercise."
LEAST_SECONDS = 0.1
"""What an exercise gets of a time that is used up: enough to say that nothing could be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is graded, in which order. `request` holds for every part, its deadline for all together. `assigned` says
    that it is an assignment, in which not every file need be handed in nor every exercise have further checks.
    `submitted_at` is when it was handed in, `due` a later due date for this student alone."""

    title: str
    parts: tuple[Part, ...]
    request: Request
    assigned: bool = False
    submitted_at: datetime | None = None
    due: datetime | None = None

    def result(self, entries: Sequence[Entry]) -> Result:
        alone = entries[0].report.exercise.title if len(entries) == 1 and not self.assigned else ""
        return Result(title=alone or self.title, entries=tuple(entries))

    def request_for(self, part: Part, deadline: float | None) -> Request:
        """Raises UsageError where further checks were asked for and there are none for the one exercise."""
        given = replace(self.request, exercise=part.exercise, deadline=deadline, absent=self.assigned, checks=None)
        folder, alone = self.request.checks, len(self.parts) == 1
        if folder is None:
            return given
        found = catalog.checks_for(part.exercise, folder, alone=alone)
        if found is None and alone and not self.assigned:
            name = part.exercise
            raise UsageError(f"{folder} holds no checks for {name}: neither {name}/ nor exercise.yaml.")
        return replace(given, checks=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What became of one part. Where `error` is set it could not be graded; then its entry, if it has one, costs the
    student nothing."""

    part: Part
    entry: Entry | None
    error: GraderError | None = None

    @property
    def session_is_sound(self) -> bool:
        """Whether what went wrong, if anything did, cannot have been the session's fault."""
        if self.error is not None:
            return isinstance(self.error, (UsageError, AuthorError))
        report = self.entry.report if self.entry else None
        return report is not None and report.status != "error" and not any(run.retried for run in report.runs)


Listening = Callable[[Part], AbstractContextManager[Listener]]


def grade_all(
    plan: Plan,
    machine: Machine,
    listening: Listening = lambda part: nullcontext(SILENT),
    session: AnySession | None = None,
) -> Iterator[Graded]:
    """Grade every part, on one session as long as that is sound. An error costs the parts after it nothing.

    Of what is left of the deadline each part gets its share when its turn comes, so what one does not use the others
    have. `listening` makes the listener of a part, for as long as it is graded. The first session may be given; whoever
    made it closes it.
    """
    start = time.monotonic()
    with ExitStack() as stack:
        for index, part in enumerate(plan.parts):
            deadline = _share(plan.request.deadline, start, len(plan.parts) - index)
            try:
                if session is None:
                    session = machine.session()
                    stack.callback(session.close)
                with listening(part) as listener:
                    report = flow.grade(plan.request_for(part, deadline), session, listener, machine)
            except GraderError as error:
                reason = "" if isinstance(error, UsageError) else str(error)
                graded = Graded(part=part, entry=unjudged(plan, part, reason, machine), error=error)
            else:
                late = part.late(plan.submitted_at, plan.due)
                weight = part.weight or report.exercise.max_score
                graded = Graded(part=part, entry=Entry(report=report, weight=weight, late=late))
            yield graded
            if session is not None and not (graded.session_is_sound and session.alive):
                session.close()
                session = None


def _share(deadline: float | None, start: float, parts: int) -> float | None:
    if deadline is None:
        return None
    return max(LEAST_SECONDS, deadline - (time.monotonic() - start)) / parts


def waiting(plan: Plan, done: int, machine: Machine) -> tuple[Entry, ...]:
    """Entries for the parts that come after the first `done`: what is to be said if the grader is stopped now."""
    entries = (unjudged(plan, part, WAITING, machine) for part in plan.parts[done:])
    return tuple(entry for entry in entries if entry)


def unjudged(plan: Plan, part: Part, reason: str, machine: Machine) -> Entry | None:
    """The entry of an exercise that could not be judged, where there is a reason and a place for it."""
    request = plan.request
    try:
        if not reason:
            return None
        exercise = catalog.load(part.exercise, request.root)
        submission = receive_or_miss(exercise, request.submission, request.root)
    except GraderError:
        return None
    report = not_graded(exercise, submission, reason, seed=request.seed or 0, device=machine.device)
    return Entry(report=report, weight=part.weight or exercise.max_score)
