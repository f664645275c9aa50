"""The runs of one grade: several at a time, and all of them over when the grade's time is up."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace

from grader.grading.blame import Blame
from grader.grading.demand import Demand
from grader.grading.observe import SILENT, Listener
from grader.grading.request import Machine
from grader.grading.seeding import seeded, with_new_secret
from grader.grading.sessions import AnySession, Sessions
from grader.grading.spending import Spending
from grader.model import Case, Exercise, Run, Submission, TimedOut, Verdict
from grader.model.errors import Cancelled, MissingHardware, NotRun
from grader.model.words import count

IMPORT_SECONDS = 10.0
"""How long a student's file may take to be imported."""
AGAIN_SECONDS = 0.2
"""How long a run that was called off may take to end before that is said again."""
LEAST_SECONDS = 5.0
"""What an attempt that is made alone has in any case."""
RESERVE = 3.0
"""Seconds that the rest of a grade needs when its time is up: ending what runs, judging, writing."""


class Runner:
    """The runs of one exercise with one submission on a session, in threads of their own: first the import of the
    student's file, which every other run needs, then the cases. Once a check has failed, cases that no other will ask
    for are called off: they do not start, and those under way end.

    `known` are runs that an earlier grade has made, by case id. `until` is when the grade's time is up (monotonic
    seconds). `solution` gives the exercise's own, where it is at hand, for when somebody has to be blamed. Leaving
    `running` ends what is still under way if the time is up or something went wrong.
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
        solution: Callable[[], Submission | None] = lambda: None,
    ) -> None:
        self.seed = seed
        self._session, self._exercise, self._submission = session, exercise, submission
        self._sessions = Sessions(session)
        self._blame = Blame(self._sessions, submission, solution, self._spare)
        self._machine = machine or Machine(device=session.device)
        self.listener, self._known, self._until = listener, dict(known or {}), until
        self._count = jobs or self._machine.jobs
        self._cancels = session.cancels
        self._jobs: dict[str, Future[Run]] = {}
        self._off: set[str] = set()
        """Cases that were called off."""
        self._spare_until = math.inf
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

    @functools.cached_property
    def _demand(self) -> Demand:
        return Demand(self._exercise)

    @contextmanager
    def running(self) -> Iterator[Runner]:
        with closing(self._sessions), pool_on(self._session, self._count) as self._pool:
            yield self
            while self._left() > 0 and self._call_off():
                wait(self._jobs.values(), timeout=AGAIN_SECONDS)  # one may have begun in the same moment
            if self._left() <= 0:
                self._session.close()

    def begin(self) -> None:
        """Let the student's file be imported, as soon as the session is up."""
        if import_case().id not in self._jobs:
            self.listener.began(self._exercise, self.seed)
            whole = sum(case.deadline for case in self._exercise.cases) / self._count
            self._spare_until = time.monotonic() + import_case().deadline + whole
            self._start(import_case())

    def imported(self) -> Run:
        """The run that imports the student's file and looks for what the contract names."""
        self.begin()
        return self.wait(import_case())

    def start(self) -> None:
        """Let all cases run."""
        paces = {case.id: self._session.pace(self._exercise, case) for case in self.cases}
        for case in sorted(self.cases, key=lambda case: self._demand.urgency(case, paces[case.id])):
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

    def judged(self, verdict: Verdict) -> None:
        """Hear of a verdict, which may leave cases that nobody will ask for."""
        self.listener.judged(verdict)
        self._demand.note(verdict)
        self._call_off()

    def _call_off(self) -> bool:
        """Call off what no check will ask for because others have failed. Whether something was still under way."""
        if not self._demand.has_failures:
            return False
        begun = [case for case in self.cases if case.id in self._jobs and not self._jobs[case.id].done()]
        unwanted = [case for case in begun if not self._demand.wants(case)]
        running = [case for case in unwanted if not self._jobs[case.id].cancel()]
        self._off.update(case.id for case in unwanted)
        for case in running:
            self._sessions.call_off(case)
        return bool(running)

    def check(self) -> None:
        """Raises Cancelled if the session's runs were called off meanwhile."""
        if self._session.cancels != self._cancels:
            raise Cancelled()

    def _start(self, case: Case) -> None:
        if case.id not in self._jobs or case.id in self._off:
            self._off.discard(case.id)
            self._jobs[case.id] = self._pool.submit(self._run, case)

    def _spare(self) -> float:
        """Seconds for further attempts at cases: those of all deadlines that were not needed."""
        return self._spare_until - time.monotonic()

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
        if self._left() <= 0:
            raise NotRun()
        self.listener.started(case)
        run = self._blame.run(case, functools.partial(self._attempt, case))
        own = replace(case, secret=run.case.secret, folder=None)  # where its probe lay is nobody's business later
        return replace(run, case=own)

    def _attempt(self, case: Case, session: AnySession, submission: Submission) -> Run:
        """Run a case once, in no more time than is left of the grade. Raises NotRun where that was not enough, and
        Cancelled where nobody will ask for it any more."""
        if case.id in self._off:
            raise Cancelled()
        left = self._left()
        if session is not self._session:  # which would say so itself; a fresh one may be younger than the call
            self.check()
            case = with_new_secret(case)  # the submission may know the one of an earlier attempt
        if left <= 0:
            raise NotRun()
        live = functools.partial(self.listener.live, case) if self.listener.wants_live else None
        allowed = self._allowed(case, submission)
        run = session.run(self._exercise, submission, replace(case, deadline=min(allowed, left)), live)
        if left < allowed and any(isinstance(record.ending, TimedOut) for record in run.ranks):
            raise NotRun()
        return run

    def _allowed(self, case: Case, submission: Submission) -> float:
        """Seconds for one attempt. One that is made alone has all cores, and with the others that are no more time than
        if all ran side by side; so whatever is handed in, a grade takes about that. Our own solution takes what it
        takes."""
        if not self._sessions.taken or submission is not self._submission:
            return case.deadline
        return min(case.deadline, max(LEAST_SECONDS, min(case.deadline / self._count, self._spare())))


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
