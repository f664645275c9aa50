"""`grade`: which exercises, in which way, and what becomes of their reports."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from grader import files
from grader.cli import attempts, console
from grader.cli.common import need_torch, tell_faults
from grader.cli.console import say
from grader.cli.ending import FAILED, FAULT, INTERRUPTED, PASSED, terminable
from grader.model.errors import GraderError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from grader.cli.outputs import Outputs
    from grader.model import Entry, Report, Result
    from grader.model.assignment import Part
    from grader.ranks import Session

CODES = {"passed": PASSED, "failed": FAILED, "error": FAULT}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `grade` was asked to do, beside the exercises' names."""

    submission: Path | None
    device: str
    seed: int | None
    start_method: str
    sandbox: str
    deadline: float | None
    journal: Path | None
    trace: Path | None
    save_runs: Path | None
    from_runs: Path | None
    color: bool | None
    plain: bool
    outputs: Outputs
    assignment: Path | None
    checks: Path | None
    submitted_at: datetime | None
    due: datetime | None
    rank_user: str | None

    def check(self, plan: Plan) -> None:
        """What one order cannot mean, and files that cannot be read or written. Raises UsageError."""

        for option in ("trace", "journal", "save_runs", "from_runs"):
            if getattr(self, option) and len(plan.parts) != 1:
                raise UsageError(f"--{option.replace('_', '-')} goes with one exercise, not with {len(plan.parts)}.")
        if plan.assigned and self.submission and not self.submission.is_dir():
            raise UsageError(f"There is no folder {self.submission}; an assignment is handed in as a folder.")
        if self.submission and len(plan.parts) > 1 and not self.submission.is_dir():
            raise UsageError(f"--submission {self.submission} is one file; name the one exercise that it belongs to.")
        for path in filter(None, (self.trace, self.save_runs)):
            files.check_writable(path)
        self.outputs.check()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be graded, in which order. `code` is what faulty exercises among the others cost."""

    title: str
    parts: tuple[Part, ...]
    checks: Path | None = None
    assigned: bool = False
    code: int = PASSED

    def result(self, entries: Sequence[Entry]) -> Result:
        from grader.model import Result

        alone = entries[0].report.exercise.title if len(entries) == 1 and not self.assigned else ""
        return Result(title=alone or self.title, entries=tuple(entries))


def planned(texts: Sequence[str], order: Options, root: Path) -> Plan:
    """The exercises that were named, those of the assignment, or all that is begun."""
    from grader import catalog
    from grader.model.assignment import Part

    if order.assignment:
        if texts:
            raise UsageError("Name exercises or an assignment, not both.")
        if not order.assignment.is_file():
            raise UsageError(f"There is no file {order.assignment}; --assignment names an assignment.yaml.")
        found = catalog.load_assignment(order.assignment, root)
        checks = order.checks or found.checks
        return Plan(title=found.title, parts=found.parts, checks=checks, assigned=True)
    if order.submitted_at or order.due:
        raise UsageError("--submitted-at and --due go with --assignment, which has the rules for what is late.")
    names, code = ([catalog.resolve(text, root) for text in texts], PASSED) if texts else _begun(root, order)
    parts = tuple(Part(exercise=name, weight=0) for name in dict.fromkeys(names))
    return Plan(title="Exercises", parts=parts, checks=order.checks, code=code)


def grade(texts: Sequence[str], order: Options) -> int:
    """Grade what was named, one after another. The worst exit code of all."""
    from grader import catalog

    root = catalog.repository_root()
    plan = planned(texts, order, root)
    order.check(plan)
    need_torch()
    codes, start = [plan.code], time.monotonic()
    entries: list[Entry] = []
    with ExitStack() as stack:
        session = None
        for index, part in enumerate(plan.parts):
            if len(plan.parts) > 1 and (session is None or codes[-1] == FAULT):  # a fault may cost the session
                session = stack.enter_context(_warmed(order))
            # What one exercise leaves of its share of the time, the others have.
            left = _left(order.deadline, start) / (len(plan.parts) - index) if order.deadline else None
            try:
                code, entry = _grade_one(part, plan, root, order, session, later=index > 0, left=left)
            except KeyboardInterrupt as interruption:
                if index == 0:
                    raise
                say(f"Interrupted: {part.exercise} was not graded and nothing is left running.")
                return getattr(interruption, "exit_code", INTERRUPTED)
            codes.append(code)
            if entry:
                entries.append(entry)
                _keep(entries, plan, root, order, plan.parts[index + 1 :])
    _conclude(plan, entries, order)
    return max(codes)


def _keep(entries: Sequence[Entry], plan: Plan, root: Path, order: Options, waiting: Sequence[Part]) -> None:
    """Write the files that were asked for, with what is known by now: a platform may end the grade at any moment."""
    if order.outputs.files:
        rest = (_unjudged(part, plan, root, order, WAITING) for part in waiting)
        order.outputs.write(plan.result([*entries, *filter(None, rest)]))


WAITING = "The grader was stopped before it came to this exercise."


def _left(deadline: float, start: float) -> float:
    return max(0.1, deadline - (time.monotonic() - start))


def _conclude(plan: Plan, entries: Sequence[Entry], order: Options) -> None:
    """What is said of the whole."""
    if not entries:
        return
    result = plan.result(entries)
    if plan.assigned:
        from grader.render import summary

        style = console.style(False if order.plain else order.color)
        order.outputs.page("\n" + summary.render(order.outputs.shown(result), **style))
    order.outputs.announce(result)


def _warmed(order: Options) -> AbstractContextManager[Session]:
    """A session that several grades share; a single grade starts its own, if it comes to that."""
    from grader.grading.flow import warmed

    return warmed(order.device, order.start_method, order.sandbox, order.rank_user)


def _begun(root: Path, order: Options) -> tuple[list[str], int]:
    """The exercises that the student has begun, and the code that faulty ones among the others cost."""
    from grader.practice import overview

    if order.submission or order.from_runs:
        raise UsageError("Say which exercise this is for, as in `grade 03 --submission FILE`.")
    listed = list(overview.entries(root))
    code = tell_faults(listed)
    names = [entry.name for entry in listed if entry.begun]
    if not names and not code:
        raise UsageError(overview.nothing_begun(listed))
    return names, code


def _grade_one(
    part: Part, plan: Plan, root: Path, order: Options, session: Session | None, later: bool, left: float | None
) -> tuple[int, Entry | None]:
    """Grade one exercise and show its page. Its code; an error costs the exercises after it nothing."""
    from grader.model import Entry
    from grader.render import terminal

    try:
        with terminable():
            report = _graded(part, plan, root, order, session, left)
    except GraderError as error:
        say(f"grader: {error}")
        reason = "" if isinstance(error, UsageError) else str(error)
        return error.exit_code, _unjudged(part, plan, root, order, reason)
    entry = Entry(
        report=report,
        weight=part.weight or report.exercise.max_score,
        late=part.late(order.submitted_at, order.due),
    )
    shown = order.outputs.shown(plan.result([entry])).entries[0].report
    style = console.style(False if order.plain else order.color)
    order.outputs.page(("\n" if later else "") + terminal.render(shown, **style))
    _write(report, order)
    if not (plan.assigned or order.from_runs):
        attempts.remember(report, root)
    return CODES[shown.status], entry


def _unjudged(part: Part, plan: Plan, root: Path, order: Options, reason: str) -> Entry | None:
    """The entry of an exercise that could not be judged, where there is a reason and a place for it."""
    from grader import catalog
    from grader.grading.report import not_graded
    from grader.model import Entry
    from grader.submission import receive_or_miss

    try:
        if not reason:
            return None
        exercise = catalog.load(part.exercise, root)
        received = receive_or_miss(exercise, order.submission, root)
    except GraderError:
        return None
    report = not_graded(exercise, received, reason, seed=order.seed or 0, device=order.device)
    return Entry(report=report, weight=part.weight or exercise.max_score)


def _graded(
    part: Part, plan: Plan, root: Path, order: Options, session: Session | None, deadline: float | None
) -> Report:
    with console.progress(part.exercise, order.plain) as progress:
        from grader.grading.flow import grade as grade_one

        return grade_one(
            part.exercise,
            root=root,
            submission=order.submission,
            seed=order.seed,
            device=order.device,
            start_method=order.start_method,
            sandbox=order.sandbox,
            rank_user=order.rank_user,
            deadline=deadline,
            journal=order.journal,
            progress=progress,
            from_runs=order.from_runs,
            trace=order.trace is not None or order.outputs.html is not None,
            session=session,
            checks=_checks_for(part.exercise, plan),
            absent=plan.assigned,
        )


def _checks_for(name: str, plan: Plan) -> Path | None:
    """The course's own checks for an exercise; in an assignment not every exercise need have some."""
    from grader import catalog

    if plan.checks is None:
        return None
    found = catalog.checks_for(name, plan.checks, alone=len(plan.parts) == 1)
    if found is None and len(plan.parts) == 1 and not plan.assigned:
        raise UsageError(f"{plan.checks} holds no checks for {name}: neither {name}/ nor exercise.yaml.")
    return found


def _write(report: Report, order: Options) -> None:
    """The other files that were asked for. After the page, which a full disk must not cost the student."""
    from grader.records import recording
    from grader.render import chrome

    if order.trace:
        files.write(order.trace, lambda path: path.write_text(chrome.render(report), encoding="utf-8"))
    if order.save_runs:
        files.write(order.save_runs, lambda path: recording.save(path, report.exercise, report.seed, report.runs))
