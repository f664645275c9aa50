"""The runs of one grade: several at a time, each tried again where the machine seems to be at fault, and all of them
over when the grade's time is up."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grader.model import (
    MAX_SEED,
    Case,
    Diagnosis,
    Exercise,
    Finding,
    Killed,
    LiveRank,
    Raised,
    RankRecord,
    Run,
    Submission,
    TimedOut,
    Verdict,
)
from grader.model.errors import Cancelled, NotRun, RunError, WatcherKilled
from grader.ranks import Live
from grader.records.journal import Journal

IMPORT_SECONDS = 10.0
"""How long a student's file may take to be imported."""
JOBS = 2 if (os.cpu_count() or 1) > 1 else 1
"""How many cases run at the same time."""
RESERVE = 3.0
"""Seconds that the rest of a grade needs when its time is up: ending what runs, judging, writing."""
REFUSED = ("EADDRINUSE", "address already in use", "Address already in use")
Progress = Callable[[str], None]


class AnySession(Protocol):
    """What running cases takes of `ranks.Session`. tests/fakes.py has another, which starts no process."""

    cancels: int
    """How often `cancel` was called."""

    def run(self, exercise: Exercise, submission: Submission, case: Case, live: Live | None = None) -> Run: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Listener:
    """Who hears what happens in a grade while it happens. Every method may be called from any thread."""

    def began(self, exercise: Exercise, seed: int) -> None:
        """All cases and checks are known."""

    def started(self, case: Case) -> None: ...

    def live(self, case: Case, ranks: Sequence[LiveRank]) -> None:
        """What the ranks of a run do that stand still."""

    def ended(self, run: Run) -> None: ...

    def judged(self, verdict: Verdict) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, until when (monotonic seconds), and who hears of it. `further` are a course's own cases."""

    exercise: Exercise
    submission: Submission
    until: float = float("inf")
    progress: Progress = lambda phase: None
    journal: Journal | None = None
    jobs: int = JOBS
    further: Exercise | None = None
    listener: Listener | None = None

    def judged(self, verdict: Verdict) -> None:
        """A check has its verdict."""
        if self.journal:
            self.journal.add_verdict(verdict)
        if self.listener:
            self.listener.judged(verdict)


class Runner:
    """The runs of an order on one session, in threads of their own. Leaving the context ends what is still under way if
    the time is up or something went wrong."""

    def __init__(self, session: AnySession, order: Order) -> None:
        self._session, self._order = session, order
        self._known = dict(order.journal.runs) if order.journal else {}
        self._cancels = session.cancels
        self._jobs: dict[str, Future[Run]] = {}

    @contextmanager
    def running(self) -> Iterator[Runner]:
        with pool_on(self._session, self._order.jobs) as self._pool:
            yield self
            if self._left() <= 0:
                self._session.close()

    def start(self, *cases: Case, exercise: Exercise | None = None) -> None:
        """Let these run: the first family first, for which the first check waits, then the largest, which packs best.
        `exercise` has their probe if it is not the order's own."""
        for case in sorted(cases, key=lambda case: (case.name != cases[0].name, -case.world_size)):
            self._jobs[case.id] = self._pool.submit(self._run, case, exercise or self._order.exercise)

    def wait(self, case: Case) -> Run:
        """The run of a case that was started. Raises RunError, or NotRun if the grade's time is up."""
        try:
            return self._jobs[case.id].result(timeout=None if self._left() == math.inf else max(0.0, self._left()))
        except TimeoutError:
            raise NotRun() from None

    def finished(self) -> tuple[Run, ...]:
        """The runs that came about, in the order in which they were started."""
        return tuple(self._known.values())

    def check(self) -> None:
        """Raises Cancelled if the session's runs were called off meanwhile."""
        if self._session.cancels != self._cancels:
            raise Cancelled()

    def _left(self) -> float:
        return self._order.until - RESERVE - time.monotonic()

    def _run(self, case: Case, exercise: Exercise) -> Run:
        if case.id in self._known:
            return self._known[case.id]
        self.check()
        left = self._left()
        if left <= 0:
            raise NotRun()
        listener = self._order.listener
        if listener:
            listener.started(case)
        if case.probe:
            self._order.progress(f"{case.name} on {case.world_size} rank{'s' if case.world_size > 1 else ''}")
        hurried = replace(case, deadline=min(case.deadline, left))
        live = functools.partial(listener.live, case) if listener else None
        run = replace(run_fairly(self._session, exercise, self._order.submission, hurried, live), case=case)
        if hurried.deadline < case.deadline and any(isinstance(record.ending, TimedOut) for record in run.ranks):
            raise NotRun()
        if self._order.journal:
            self._order.journal.add_run(run)
        self._known[case.id] = run
        if listener:
            listener.ended(run)
        return run


def run_fairly(
    session: AnySession,
    exercise: Exercise,
    submission: Submission,
    case: Case,
    live: Live | None = None,
) -> Run:
    """A run of one case; a second one where the first attempt may have failed through the machine. The second counts,
    whatever it says: where the same happens again it is charged to the student. Raises RunError where the machine is
    at fault."""
    before = oom_kills()
    try:
        run = session.run(exercise, submission, case, live)
        reason = suspicion(run)
    except WatcherKilled:
        reason = "the process that watches the ranks was killed"
    if not reason:
        return run
    try:
        again = session.run(exercise, submission, case, live)
    except WatcherKilled:
        if oom_kills() > before:
            raise
        return _watcher_killer(case)
    if suspicion(again) and oom_kills() > before:
        raise RunError(f"{case.id}: the system killed a rank twice because memory ran out. Close other programs.")
    return replace(again, retried=reason)


def suspicion(run: Run) -> str:
    """Why a run may have gone wrong through no fault of the student; "" if nothing says so."""
    for record in run.ranks:
        ending = record.ending
        if not run.case.crashes and isinstance(ending, Killed) and ending.signal == "SIGKILL" and not ending.by_grader:
            return f"rank {record.rank} was killed by SIGKILL"
        if isinstance(ending, Raised) and any(mark in ending.message for mark in REFUSED):
            return f"a port was taken on rank {record.rank}"
    return ""


def _watcher_killer(case: Case) -> Run:
    """The supervisor was killed in both attempts, and memory had not run out; the submission is charged."""
    hint = "The processes beside the ranks belong to the grader; a submission has no business with them."
    finding = Finding(
        subject="The process that watches the ranks was killed or stopped, twice", case=case.id, hint=hint
    )
    ranks = tuple(RankRecord(rank=rank, ending=Killed(signal="SIGKILL")) for rank in range(case.world_size))
    return Run(case=case, ranks=ranks, seconds=0.0, diagnosis=Diagnosis(kind="killed", ranks=(), findings=(finding,)))


def oom_kills(counters: Path = Path("/proc/vmstat")) -> int:
    """How many processes the kernel has killed so far because memory ran out; 0 where it does not count."""
    try:
        lines = counters.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError):
        return 0


@contextmanager
def pool_on(session: AnySession, workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for runs. After Ctrl-C the session ends at once, so that none of them waits on. A fault does
    not end it, for other grades may share it."""
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        yield pool
    except BaseException as error:
        if not isinstance(error, Exception):
            session.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run_all(
    session: AnySession, exercise: Exercise, submission: Submission, seed: int, jobs: int = JOBS
) -> tuple[Run, ...]:
    """Every case in a warm session: the import of the student's file first, and the rest only if it went well."""
    cases = seeded(exercise, seed)
    with Runner(session, Order(exercise=exercise, submission=submission, jobs=jobs)).running() as runner:
        runner.start(first := import_case())
        imported = runner.wait(first)
        if imported.diagnosis is not None:
            return (imported,)
        runner.start(*cases)
        return (imported, *map(runner.wait, cases))


def import_case() -> Case:
    """The case that only imports the student's file and looks for what the contract names."""
    return Case(name="import", world_size=1, probe="", deadline=IMPORT_SECONDS)


def seeded(exercise: Exercise, seed: int) -> tuple[Case, ...]:
    """The exercise's cases, each with a seed of its own that follows from `seed`."""

    def own(case: Case) -> int:
        digest = hashlib.blake2b(f"{seed}/{exercise.name}/{case.id}".encode(), digest_size=4)
        return int.from_bytes(digest.digest()) % MAX_SEED

    return tuple(replace(case, seed=own(case)) for case in exercise.cases)


def traced(exercise: Exercise) -> Exercise:
    """The exercise with a trace of every case."""
    return replace(exercise, cases=tuple(replace(case, trace=True) for case in exercise.cases))
