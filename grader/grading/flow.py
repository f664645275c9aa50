"""The whole flow of a grade, in one function of verbs: load, receive, run, judge, summarise."""

from __future__ import annotations

import math
import secrets
import signal
import threading
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from grader import catalog, leaving
from grader.grading.observe import SILENT, Journalist, Listener, Listeners
from grader.grading.recorded import Recorded
from grader.grading.report import device_of, summarise
from grader.grading.request import Machine, Request
from grader.grading.running import Runner, traced
from grader.grading.sessions import AnySession
from grader.model import MAX_SEED, Exercise, Outcome, Report, Submission, Verdict
from grader.model.errors import NotRun, UsageError
from grader.records import recording
from grader.records.journal import Journal
from grader.submission import given, receive, receive_or_miss

ONLY = "Other checks than these were not asked for, and this grade is not in your progress."


def grade(request: Request, session: AnySession, listener: Listener = SILENT, machine: Machine | None = None) -> Report:
    """Grade one submission.

    The session is started if ranks have to be run and it is not yet; whoever made it closes it. `machine` is what it
    runs on. Grades on several sessions may overlap in threads of one process. Raises UsageError, AuthorError, RunError
    or Cancelled; a student's mistake is never an exception but a finding in the report.
    """
    start = time.monotonic()
    exercise = load(request)
    submission = received(request, exercise)
    with run(request, exercise, submission, session, listener, machine) as runs:
        verdicts = judge(exercise, submission, runs, only=bool(request.only))
    save(request, exercise, runs)
    report = summarise(
        exercise,
        submission,
        runs.finished(),
        verdicts,
        seed=runs.seed,
        device=device_of(runs.finished()),
        sandbox=session.level,
        seconds=time.monotonic() - start,
    )
    return replace(report, notes=(*report.notes, ONLY)) if request.only else report


def load(request: Request) -> Exercise:
    """The exercise, with a course's own cases and checks and with every case traced where that was asked for."""
    exercise = catalog.load(request.exercise, request.root)
    if request.checks:
        exercise = catalog.overlay(exercise, request.checks)
    if request.only:
        exercise = narrowed(exercise, request.only)
    return traced(exercise) if request.trace else exercise


def narrowed(exercise: Exercise, only: Sequence[str]) -> Exercise:
    """The exercise with these checks alone and those that they need. Raises UsageError that names those there are."""
    checks = {check.id: check for check in exercise.checks}
    for name in only:
        if name not in checks:
            raise UsageError(f"{exercise.name} has no check '{name}'; there are {', '.join(checks)}.")
    kept, waiting = set[str](), list(only)
    while waiting:
        kept.add(name := waiting.pop())
        waiting += checks[name].needs
    return replace(exercise, checks=tuple(check for check in exercise.checks if check.id in kept))


def solution(exercise: Exercise, root: Path) -> Submission | None:
    """The exercise's own solution, where it is at hand: students have none."""
    path = catalog.reference(exercise.name, root) / exercise.file
    return receive(exercise, path, root) if path.is_file() else None


def received(request: Request, exercise: Exercise) -> Submission:
    """The student's file, read once."""
    if request.files is not None:
        return given(exercise, dict(request.files))
    return (receive_or_miss if request.absent else receive)(exercise, request.submission, request.root)


@contextmanager
def run(
    request: Request,
    exercise: Exercise,
    submission: Submission,
    session: AnySession,
    listener: Listener = SILENT,
    machine: Machine | None = None,
) -> Iterator[Runner | Recorded]:
    """The runs that are to be judged, which may still be under way; those of a file where the request names one.
    Nothing is started for a submission that does not even compile."""
    if request.from_runs:
        listener.phase("judging")
        recorded = Recorded(*recording.load(request.from_runs, exercise), listener)
        listener.began(exercise, recorded.seed)
        yield recorded
        return
    until = time.monotonic() + request.deadline if request.deadline else math.inf
    with _journal(request, exercise, submission) as journal:
        seed = journal.seed if journal else _seed(request)
        known = journal.runs if journal else {}
        heard = Listeners(listener, Journalist(journal)) if journal else listener
        runner = Runner(
            session,
            exercise,
            submission,
            seed,
            machine=machine,
            listener=heard,
            known=known,
            until=until,
            solution=lambda: solution(exercise, request.root),
        )
        if submission.problem is not None:
            heard.began(exercise, seed)
            yield runner
            return
        session.start()
        listener.phase("starting")
        with runner.running():
            runner.begin()
            preload()
            yield runner


@contextmanager
def _journal(request: Request, exercise: Exercise, submission: Submission) -> Iterator[Journal | None]:
    if request.journal is None:
        yield None
        return
    with closing(Journal(request.journal, exercise, submission, request.seed, _seed(request))) as journal:
        yield journal


def _seed(request: Request) -> int:
    return secrets.randbelow(MAX_SEED) if request.seed is None else request.seed


def judge(
    exercise: Exercise, submission: Submission, runs: Runner | Recorded, *, only: bool = False
) -> tuple[Verdict, ...]:
    """The verdict of each check, as soon as the runs are there that it asks for. Where the exercise has `only` some of
    its checks, no other test is run and no other case."""
    from grader import judge as judging  # not earlier: it brings pytest

    if submission.problem is not None:
        return judging.judge(exercise, submission, ())
    try:
        imported = runs.imported()
    except NotRun as error:
        return tuple(Verdict(check=check, outcome=Outcome.BLOCKED, message=str(error)) for check in exercise.checks)
    if imported is not None and imported.diagnosis is not None:
        return judging.judge(exercise, submission, (imported,))
    if not only:
        runs.start()
    verdicts = judging.judge_live(exercise, runs.wait, runs.judged, only=only)
    runs.check()
    return verdicts


def save(request: Request, exercise: Exercise, runs: Runner | Recorded) -> None:
    """Keep the recorded runs in a file, where that was asked for."""
    if request.save_runs is not None:
        recording.save(request.save_runs, exercise, runs.seed, runs.finished())


def preload() -> None:
    """Import torch and pytest here while the ranks' host does it over there."""
    with uninterrupted():
        from grader import judge

        judge.preload()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and its like wait for the end. An interrupt in the middle of torch's import is lost now and then, or
    ends the process by an abort, for C++ imports Python there and does not look at what is raised."""
    came: list[int] = []

    def note(number: int, frame: types.FrameType | None) -> None:
        came.append(number)
        if isinstance(handler := before[number], leaving.Stop):
            handler.arm(number)

    before = {number: handler for number in leaving.INTERRUPTS if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        before = {}  # only the main thread is ever interrupted
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
