"""The runs of one grade: several at a time, each tried again where the machine seems to be at fault, and all of them
over when the grade's time is up."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from grader.grading.observe import SILENT, Listener
from grader.grading.request import Machine
from grader.grading.seeding import seeded, with_new_secret
from grader.grading.spending import Spending
from grader.model import (
    Case,
    Diagnosis,
    Exercise,
    Finding,
    Killed,
    Raised,
    RankRecord,
    Run,
    Submission,
    TimedOut,
)
from grader.model.errors import Cancelled, MissingHardware, NotRun, RunError, WatcherKilled
from grader.model.words import count
from grader.ranks import Live

IMPORT_SECONDS = 10.0
"""How long a student's file may take to be imported."""
RESERVE = 3.0
"""Seconds that the rest of a grade needs when its time is up: ending what runs, judging, writing."""
REFUSED = ("EADDRINUSE", "address already in use", "Address already in use")


class AnySession(Protocol):
    """What running cases takes of `ranks.Session`. tests/fakes.py has another, which starts no process."""

    device: str
    """"auto", "cpu" or "cuda"."""
    level: str
    """How ranks are kept apart from the rest: "bubblewrap" or "limits"."""
    cancels: int
    """How often `cancel` was called."""

    def start(self) -> None: ...

    def run(self, exercise: Exercise, submission: Submission, case: Case, live: Live | None = None) -> Run: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Runner:
    """The runs of one exercise with one submission on a session, in threads of their own: first the import of the
    student's file, which every other run needs, then the cases.

    `known` are runs that an earlier grade has made, by case id. `until`
    is when the grade's time is up (monotonic seconds). Leaving `running` ends what is still under way if the time is up
    or something went wrong.
    """

    def __init__(
        self,
        session: AnySession,
        exercise: Exercise,
        submission: Submission,
        seed: int,
        *,
        machine: Machine | None = None,
        listener: Listener = SILENT,
        known: Mapping[str, Run] | None = None,
        until: float = math.inf,
        jobs: int | None = None,
    ) -> None:
        self.seed = seed
        self._session, self._exercise, self._submission = session, exercise, submission
        self._machine = machine or Machine(device=session.device)
        self.listener, self._known, self._until = listener, dict(known or {}), until
        self._count = jobs or self._machine.jobs
        self._cancels = session.cancels
        self._jobs: dict[str, Future[Run]] = {}
        self._spending = Spending(self._known.values())
        self._gpus = threading.Lock()
        """Held by the one run that has the GPUs."""

    @functools.cached_property
    def cases(self) -> tuple[Case, ...]:
        """The exercise's cases, each with its seed and its secret. They are drawn while the file is imported."""
        return seeded(self._exercise, self.seed)

    @functools.cached_property
    def _planned(self) -> dict[str, Case]:
        return {case.id: case for case in (import_case(), *self.cases)}

    @contextmanager
    def running(self) -> Iterator[Runner]:
        with pool_on(self._session, self._count) as self._pool:
            yield self
            if self._left() <= 0:
                self._session.close()

    def begin(self) -> None:
        """Let the student's file be imported, as soon as the session is up."""
        self._start(import_case())

    def imported(self) -> Run:
        """The run that imports the student's file and looks for what the contract names."""
        self.begin()
        return self.wait(import_case())

    def start(self) -> None:
        """Let all cases run: the first family first, for which the first check waits, then the largest, which packs
        best."""
        for case in sorted(self.cases, key=lambda case: (case.name != self.cases[0].name, -case.world_size)):
            self._start(case)

    def wait(self, case: Case) -> Run:
        """The run of a case, which is started if it is not yet. Raises RunError, MissingHardware where the machine
        lacks what the case needs, or NotRun if the grade's time is up."""
        self._start(self._planned[case.id])
        try:
            return self._jobs[case.id].result(timeout=None if self._until == math.inf else max(0.0, self._left()))
        except TimeoutError:
            raise NotRun() from None

    def finished(self) -> tuple[Run, ...]:
        """The runs that came about, in the order of the exercise's cases."""
        return tuple(self._known[case] for case in self._planned if case in self._known)

    def check(self) -> None:
        """Raises Cancelled if the session's runs were called off meanwhile."""
        if self._session.cancels != self._cancels:
            raise Cancelled()

    def _start(self, case: Case) -> None:
        if case.id not in self._jobs:
            self._jobs[case.id] = self._pool.submit(self._run, case)

    def _left(self) -> float:
        return self._until - RESERVE - time.monotonic()

    def _run(self, case: Case) -> Run:
        if case.id in self._known:
            return self._known[case.id]
        self._require_hardware(case)
        with self._gpus if case.gpus else contextlib.nullcontext():
            run = self._spending.charged(self._run_in_time(case), self._exercise.file)
        self._known[case.id] = run
        self.listener.ended(run)
        return run

    def _require_hardware(self, case: Case) -> None:
        if case.gpus and (there := self._machine.gpu_count()) < case.gpus:
            raise MissingHardware(f"needs {count(case.gpus, 'GPU')}; this machine has {there}")

    def _run_in_time(self, case: Case) -> Run:
        self.check()
        left = self._left()
        if left <= 0:
            raise NotRun()
        self.listener.started(case)
        hurried = replace(case, deadline=min(case.deadline, left))
        live = functools.partial(self.listener.live, case) if self.listener.wants_live else None
        run = run_fairly(self._session, self._exercise, self._submission, hurried, live)
        own = replace(case, secret=run.case.secret, folder=None)  # where its probe lay is nobody's business later
        run = replace(run, case=own)
        if hurried.deadline < case.deadline and any(isinstance(record.ending, TimedOut) for record in run.ranks):
            raise NotRun()
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
        again = session.run(exercise, submission, with_new_secret(case), live)
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
    session: AnySession, exercise: Exercise, submission: Submission, seed: int, *, jobs: int | None = None
) -> tuple[Run, ...]:
    """Every case in a warm session: the import of the student's file first, and the rest only if it went well. A case
    whose hardware is missing has no run."""
    with Runner(session, exercise, submission, seed, jobs=jobs).running() as runner:
        if runner.imported().diagnosis is None:
            runner.start()
            for case in runner.cases:
                with contextlib.suppress(MissingHardware):
                    runner.wait(case)
        return runner.finished()


def import_case() -> Case:
    """The case that only imports the student's file and looks for what the contract names."""
    return Case(name="import", world_size=1, probe="", deadline=IMPORT_SECONDS, dynamo=False)


def traced(exercise: Exercise) -> Exercise:
    """The exercise with a trace of every case."""
    return replace(exercise, cases=tuple(replace(case, trace=True) for case in exercise.cases))
