"""The whole flow of a grade, in one function of verbs: load, receive, run, judge, summarise."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from grader import catalog
from grader.grading.report import summarise
from grader.grading.running import Listener, Order, Progress, Runner, import_case, seeded, traced
from grader.model import MAX_SEED, Exercise, Outcome, Report, Run, Submission, Verdict
from grader.model.errors import NotRun, RunError, UsageError
from grader.ranks import Session, level_for
from grader.records import recording
from grader.records.journal import Journal
from grader.submission import receive, receive_or_miss

INTERRUPTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def grade(
    name: str,
    *,
    root: Path,
    submission: Path | None = None,
    seed: int | None = None,
    device: str = "auto",
    start_method: str = "forkserver",
    sandbox: str = "auto",
    rank_user: str | None = None,
    deadline: float | None = None,
    journal: Path | None = None,
    progress: Progress = lambda phase: None,
    trace: bool = False,
    save_runs: Path | None = None,
    from_runs: Path | None = None,
    session: Session | None = None,
    checks: Path | None = None,
    absent: bool = False,
    listener: Listener | None = None,
) -> Report:
    """Grade one submission. `seed` replays a grade; None draws a new one.

    `deadline` is in seconds, for all of it: then the report says what is known by then. `journal` is a file that keeps
    what is known so far; a grade that finds its own there goes on from it.
    `rank_user` is who runs the ranks where the grader is root and there is no bubblewrap.
    `trace` records what the ranks communicate in every case, not only in those that ask for it.
    `save_runs` keeps the recorded runs in a file, `from_runs` judges such a file again instead of running anything.
    `checks` is a folder of a course's own cases and checks for the exercise. `absent` lets a file that was not handed
    in be a failed grade and not an error. `listener` hears what happens while it happens.
    `session` is a warm one, as `warmed` gives it for several grades; without it the grade starts its own.
    Raises UsageError, AuthorError, RunError or Cancelled; a student's mistake is never an exception but a finding in
    the report.
    """
    start = time.monotonic()
    exercise = catalog.load(name, root)
    further = catalog.overlay(exercise, checks) if checks else None
    received = receive_or_miss(exercise, submission, root) if absent else receive(exercise, submission, root)
    level = session.level if session else level_for(sandbox)
    if from_runs is not None:
        seed, runs = recording.load(from_runs, exercise)
        progress("judging")
        verdicts = _judged(exercise, received, runs, further)
    else:
        with contextlib.ExitStack() as stack:
            drawn = secrets.randbelow(MAX_SEED)
            kept = None
            if journal:
                parts = (exercise, *([further] if further else []))
                kept = stack.enter_context(closing(Journal(journal, parts, received, seed, drawn)))
            seed = kept.seed if kept else drawn if seed is None else seed
            until = start + deadline if deadline else math.inf
            order = Order(
                exercise=traced(exercise) if trace else exercise,
                further=traced(further) if trace and further else further,
                submission=received,
                until=until,
                progress=progress,
                journal=kept,
                listener=listener,
            )
            warm = contextlib.nullcontext(session) if session else warmed(device, start_method, sandbox, rank_user)
            runs, verdicts = run_and_judge(warm, order, seed)
    if save_runs is not None:
        recording.save(save_runs, exercise, seed, runs)
    used = "cuda" if _has_gpu(device) else "cpu"
    seconds = time.monotonic() - start
    whole = together(exercise, further) if further else exercise
    return summarise(whole, received, runs, verdicts, seed=seed, device=used, sandbox=level, seconds=seconds)


def run_and_judge(
    warm: AbstractContextManager[Session], order: Order, seed: int
) -> tuple[tuple[Run, ...], tuple[Verdict, ...]]:
    """Run every case and judge each check as soon as the runs are there that it asks for. Nothing is started if the
    file does not even compile."""
    exercise, received, further = order.exercise, order.submission, order.further
    planned = replace(exercise, cases=seeded(exercise, seed))
    more = replace(further, cases=seeded(further, seed)) if further else None
    if order.listener:
        order.listener.began(together(planned, more) if more else planned, seed)
    if received.problem is not None:
        return (), _judged(exercise, received, (), further)
    with warm as session:
        order.progress("starting")
        preload()
        with Runner(session, order).running() as runner:
            runner.start(first := import_case())
            try:
                imported = runner.wait(first)
            except NotRun:
                return (), _in_vain(together(exercise, further) if further else exercise)
            if imported.diagnosis is not None:
                return (imported,), _judged(exercise, received, (imported,), further)
            runner.start(*planned.cases)
            if more:
                runner.start(*more.cases, exercise=more)
            from grader.judge import judge_live

            verdicts = judge_live(planned, runner.wait, order.judged, further=more)
            runner.check()
        found = {run.case.id: run for run in runner.finished()}
        cases = (first, *planned.cases, *(more.cases if more else ()))
        return tuple(found[case.id] for case in cases if case.id in found), verdicts


def _in_vain(exercise: Exercise) -> tuple[Verdict, ...]:
    """The verdicts where the time was up before anything could be run."""
    return tuple(Verdict(check=check, outcome=Outcome.BLOCKED, message=str(NotRun())) for check in exercise.checks)


@contextmanager
def warmed(device: str, start_method: str, sandbox: str = "auto", rank_user: str | None = None) -> Iterator[Session]:
    """A session on the chosen device, for one grade or for several."""
    with chosen_device(device), Session(start_method, sandbox, rank_user) as session:
        yield session


def together(exercise: Exercise, further: Exercise) -> Exercise:
    """The exercise with a course's own cases and checks after its own."""
    return replace(exercise, cases=exercise.cases + further.cases, checks=exercise.checks + further.checks)


def _judged(
    exercise: Exercise, received: Submission, runs: tuple[Run, ...], further: Exercise | None
) -> tuple[Verdict, ...]:
    from grader.judge import judge  # not earlier: it brings pytest

    return judge(exercise, received, runs, further)


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
    before = {number: handler for number in INTERRUPTS if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        before = {}  # only the main thread is ever interrupted
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def chosen_device(device: str) -> Iterator[None]:
    """`cpu` hides the GPUs from the ranks; `cuda` insists on one."""
    if device == "cuda" and not _has_gpu(device):
        raise UsageError("--device cuda was asked for, but torch finds no GPU here. Use --device auto or cpu.")
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _has_gpu(device: str) -> bool:
    if importlib.util.find_spec("torch") is None:
        raise RunError("torch is not installed in this environment. Run `make grade`, which installs it.")
    if device == "cpu":
        return False
    import torch

    return torch.cuda.is_available()
